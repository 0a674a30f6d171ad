"""Pools, snapshots and a plain fleet in virtual time for the controller's tests."""

import random
from collections.abc import Callable, Mapping, Sequence

import msgspec

from protos.types import Role, Shape
from replicas.controller.decision import Decision, Scaler
from replicas.controller.scaling_settings import ModelScaling, PoolScaling, Slo
from replicas.controller.snapshot import Demand, Forecast, PoolSnapshot, Snapshot

#: Requests of the plain fleet.
PROMPT, OUTPUT = 4000.0, 1000.0


class LinearSteps(msgspec.Struct, frozen=True):
    """Step times that grow with the tokens alone: 100 ms with 145 answers of the plain fleet's requests."""

    fixed: float = 0.04
    per_token: float = 0.06 / 725

    def seconds(self, tokens: float, context: float = 0.0, pairs: float = 0.0) -> float:
        return self.fixed + self.per_token * tokens


def pool(name: str = "p", least: int = 1, most: int = 8, **fields: object) -> PoolScaling:
    return msgspec.convert({"name": name, "shape": Shape(), "min": least, "max": most, **fields}, PoolScaling)


def scaling(*pools: PoolScaling, **fields: object) -> ModelScaling:
    given = {"model": "m", "pools": list(pools) or [pool()], "slo": Slo(ttft=3.0, ttft_per_token=0.0, tpot=0.1)}
    return ModelScaling(**{**given, **fields})  # type: ignore[arg-type]


def demand(rate: float, **fields: object) -> Demand:
    given = {"window": 30.0, "requests_per_second": rate, "prompt_tokens": PROMPT, "output_tokens": OUTPUT}
    return Demand(**{**given, **fields})  # type: ignore[arg-type]


def ready(count: int, **fields: object) -> PoolSnapshot:
    given = {"ready": count, "max_step_tokens": 8192, "step_times": LinearSteps()}
    return PoolSnapshot(**{**given, **fields})  # type: ignore[arg-type]


def snapshot(now: float, rate: float, pools: Mapping[str, PoolSnapshot], **fields: object) -> Snapshot:
    return Snapshot(now=now, demand=demand(rate), pools=pools, **fields)  # type: ignore[arg-type]


class PlainFleet:
    """A fleet of one pool that follows decisions at once and whose replicas take `startup` seconds to be ready."""

    def __init__(self, scaler: Scaler, name: str, ready_now: int, startup: float) -> None:
        self._scaler, self._name, self._startup = scaler, name, startup
        self.now = 0.0
        self.ready = ready_now
        self.starting: list[float] = []
        self.decisions: list[Decision] = []

    def play(
        self,
        rate: Callable[[float], float],
        seconds: float,
        *,
        every: float = 5.0,
        noise: random.Random | None = None,
        forecast: Callable[[float], Forecast | None] = lambda now: None,
        **fields: object,
    ) -> Sequence[int]:
        """Decide every few seconds; return what was wanted each time. With `noise` counts in windows are random."""
        wanted, end = [], self.now + seconds
        window = 30.0
        while self.now < end:
            self.ready += sum(self.now - since >= self._startup for since in self.starting)
            self.starting = [since for since in self.starting if self.now - since < self._startup]
            mean = rate(self.now)
            seen = max(0.0, noise.gauss(mean, (mean / window) ** 0.5)) if noise else mean
            now = ready(self.ready, starting=[self.now - since for since in self.starting])
            decision = self._scaler.decide(
                Snapshot(
                    now=self.now,
                    demand=demand(seen, **fields),
                    pools={self._name: now},
                    forecast=forecast(self.now),
                )
            )
            self.decisions.append(decision)
            wanted.append(decision.pools[self._name].wanted)
            self._follow(wanted[-1])
            self.now += every
        return wanted

    def _follow(self, wanted: int) -> None:
        while self.ready + len(self.starting) < wanted:
            self.starting.append(self.now)
        while self.ready + len(self.starting) > wanted:
            if self.starting:
                self.starting.pop()
            else:
                self.ready -= 1


__all__ = ["LinearSteps", "PlainFleet", "Role", "demand", "pool", "ready", "scaling", "snapshot"]
