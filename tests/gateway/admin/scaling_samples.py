"""A status as the controller publishes it, with one model that grows and one at zero."""

from typing import Any

from gateway.scaling.status import (
    ControllerStatus,
    DecisionRecord,
    DemandStatus,
    ForecastStatus,
    ModelStatus,
    PoolDecided,
    PoolStatus,
    ReplicaProgress,
    ScalingStatus,
)

NOW = 1_000_000.0


def progress(number: int, step: str, **fields: Any) -> ReplicaProgress:
    fields = {"since": NOW - 8.0, "step_since": NOW - 3.0} | fields
    return ReplicaProgress(id=f"small-{number}", step=step, **fields)


def pool(**fields: Any) -> PoolStatus:
    given: dict[str, Any] = {
        "name": "small",
        "launcher": "local",
        "shape": "tp1",
        "min": 1,
        "max": 6,
        "wanted": 5,
        "needed": 4,
        "ready": 2,
        "starting": [progress(3, "load"), progress(4, "load"), progress(5, "warm_up")],
        "price_per_hour": 2.5,
        "startup_seconds": 6.5,
        "start_seconds": {"process": 4.0, "load": 2.0},
        "reason": "the load needs 4",
    }
    return PoolStatus(**(given | fields))


def decision(at: float, wanted: int) -> DecisionRecord:
    pools = {"small": PoolDecided(wanted=wanted, needed=4, reason="the load needs 4")}
    return DecisionRecord(at=at, model="m", pools=pools, inputs={"load": 4.0}, reasons=["the load needs 4"])


def model(**fields: Any) -> ModelStatus:
    given: dict[str, Any] = {
        "model": "m",
        "mode": "act",
        "pools": [pool()],
        "cost_per_hour": 12.5,
        "wanted_cost_per_hour": 12.5,
        "demand": DemandStatus(window=30.0, requests_per_second=7.5, ttft_ratio=1.25, tpot_ratio=0.5),
        "forecast": ForecastStatus(
            made=NOW - 90.0, step=60.0, mean=[float(n) for n in range(20)], upper=[9.0] * 20, method="theta"
        ),
        "decided": {"up": 3, "same": 40},
        "decisions": [decision(NOW - 4.0, 4), decision(NOW - 2.0, 5)],
    }
    return ModelStatus(**(given | fields))


def at_zero() -> ModelStatus:
    empty = pool(name="zero", min=0, max=2, wanted=0, needed=0, ready=0, starting=[], price_per_hour=None)
    fields: dict[str, Any] = {
        "cost_per_hour": None,
        "wanted_cost_per_hour": None,
        "demand": None,
        "forecast": None,
        "decisions": [],
    }
    return model(model="z", pools=[empty], **fields)


def status(at: float = NOW, models: list[ModelStatus] | None = None) -> ScalingStatus:
    controller = ControllerStatus(name="host-1", since=NOW - 100.0, token=7)
    return ScalingStatus(at=at, controller=controller, models=[model(), at_zero()] if models is None else models)
