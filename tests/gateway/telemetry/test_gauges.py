"""What a worker's own parts say: the counters in them, and what is made of them."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from gateway.telemetry import gauges as gauges_module
from gateway.telemetry.gauges import Gauges
from gateway.tenancy.limits.limiter import Ask
from gateway.tenancy.limits.limits_batcher import LimitsBatcher
from gateway.tenancy.limits.store_limiter import StoreLimiter
from observability.metrics import declarations as declared
from observability.metrics.metric import Metric
from observability.metrics.snapshot import Numbers
from protos.errors import Overloaded, RateLimited, StoreUnavailable
from protos.reshape import MemberState, Span
from routing.dispatch.dispatch import RequestHandle
from routing.health.breaker import OPEN_SECONDS
from routing.health.replica_health import ReplicaHealth
from routing.health.replica_status import GroupPlace, ReplicaStatus, State
from tests.gateway.scheduling.bench import Bench, settle
from tests.gateway.telemetry.counted import Counted, Running
from tests.gateway.tenancy.limits.bench import plan_of
from tests.gateway.tenancy.limits.worker import worker_of


def status(state: State, **fields: float | None) -> ReplicaStatus:
    given: dict[str, object] = {
        "running": 3,
        "waiting": 1,
        "kv_blocks_used": 10,
        "kv_blocks_total": 20,
        "in_flight": 4,
        "share": 0.5,
        "breaker_seconds": 1.5,
        "accuracy": 0.75,
        "faults": 6,
        "ejections": 2,
    }
    return ReplicaStatus(id="wide/0\n", pool="wide", state=state, reason="r", **(given | fields))  # type: ignore[arg-type]


def collected(counted: Counted) -> Numbers:
    gauges = Gauges({"m": counted}, ["gold", "standard"], [Running("m"), Running("m"), Running("")], counted, counted)
    gauges.sinks = {"journal": counted}
    numbers = Numbers()
    gauges.collect(numbers)
    return numbers


def value(numbers: Numbers, metric: Metric, *labels: str) -> float | None:
    return numbers.values.get(metric.name, {}).get(labels)


OF = ("m", "wide", "wide/0\\n")


@pytest.mark.parametrize("failure", ["", "no memory"])
def test_a_place_in_a_host_group(failure: str) -> None:
    place = GroupPlace("node-1\n", 4, 1, MemberState.PARKED, Span(0, 4), 3, failure)
    numbers = collected(Counted([structs.replace(status(State.PARKED), group=place)]))
    assert value(numbers, declared.REPLICA_UP, *OF) == 0
    assert value(numbers, declared.REPLICA_STATE, *OF, "parked") == 1
    assert value(numbers, declared.REPLICA_GROUP, *OF, "node-1\\n", "0-3", "parked") == 1
    assert value(numbers, declared.REPLICA_GROUP_FAILED, *OF, "node-1\\n") == bool(failure)


def test_a_ready_replica() -> None:
    numbers = collected(Counted([status(State.READY)]))
    for metric, expected in (
        (declared.REPLICA_UP, 1),
        (declared.REPLICA_RUNNING, 3),
        (declared.REPLICA_WAITING, 1),
        (declared.REPLICA_IN_FLIGHT, 4),
        (declared.REPLICA_KV_USED, 10),
        (declared.REPLICA_KV_TOTAL, 20),
        (declared.REPLICA_SHARE, 0.5),
        (declared.REPLICA_BREAKER, 1.5),
        (declared.REPLICA_ACCURACY, 0.75),
        (declared.REPLICA_FAILURES, 6),
        (declared.REPLICA_EJECTIONS, 2),
    ):
        assert value(numbers, metric, *OF) == expected, metric.name
    assert numbers.values[declared.REPLICA_STATE.name] == {(*OF, "ready"): 1}


def test_of_a_replica_that_nobody_hears_little_is_known() -> None:
    numbers = collected(Counted([status(State.CONNECTING, accuracy=None)]))
    assert value(numbers, declared.REPLICA_UP, *OF) == 0
    assert value(numbers, declared.REPLICA_IN_FLIGHT, *OF) == 4
    for metric in (declared.REPLICA_RUNNING, declared.REPLICA_KV_USED, declared.REPLICA_ACCURACY):
        assert value(numbers, metric, *OF) is None


STATUSES = st.lists(
    st.builds(
        lambda place, state, accuracy, faults: structs.replace(
            status(state, accuracy=accuracy, faults=faults), id=f"wide/{place}"
        ),
        st.integers(0, 3),
        st.sampled_from(State),
        st.sampled_from([None, 0.5]),
        st.integers(0, 2),
    ),
    unique_by=lambda each: each.id,
    max_size=4,
)


@given(st.lists(st.tuples(STATUSES, STATUSES), max_size=6))
def test_what_is_kept_of_the_last_collection_is_what_would_be_made_anew(
    rounds: list[tuple[list[ReplicaStatus], list[ReplicaStatus]]],
) -> None:
    models = {"m": Counted(), "n": Counted()}
    kept = Gauges(models, [], [], models["m"], models["m"])
    for of_m, of_n in rounds:
        models["m"].said, models["n"].said = of_m, of_n
        found, anew = Numbers(), Numbers()
        kept.collect(found)
        Gauges(models, [], [], models["m"], models["m"]).collect(anew)
        assert found.values == anew.values


def test_replicas_without_changes_are_not_gone_through_again(monkeypatch: pytest.MonkeyPatch) -> None:
    gone_through: list[str] = []
    collect = gauges_module._collect_replica

    def counted(numbers: Numbers, of: ReplicaStatus, model: str) -> None:
        gone_through.append(model)
        collect(numbers, of, model)

    monkeypatch.setattr(gauges_module, "_collect_replica", counted)
    models = {f"m{number}": Counted([status(State.READY)]) for number in range(500)}
    kept = Gauges(models, [], [], models["m0"], models["m0"])
    kept.collect(Numbers())
    assert len(gone_through) == 500
    models["m7"].said = [status(State.EJECTED)]
    numbers = Numbers()
    kept.collect(numbers)
    assert gone_through[500:] == ["m7"]
    assert len(numbers.values[declared.REPLICA_STATE.name]) == 500


def test_the_rest() -> None:
    counted = Counted(admissions={(0, "shed"): 2, (1, "at_once"): 5}, waiting=7, reservations={"granted": 4}, errors=3)
    numbers = collected(counted)
    assert value(numbers, declared.IN_FLIGHT) == 3
    assert value(numbers, declared.MODEL_IN_FLIGHT, "m") == 2
    assert value(numbers, declared.QUEUE_DEPTH, "m") == 7
    assert value(numbers, declared.ADMISSIONS, "m", "gold", "shed") == 2
    assert value(numbers, declared.ADMISSIONS, "m", "standard", "at_once") == 5
    assert value(numbers, declared.RESERVATIONS, "granted") == 4
    assert value(numbers, declared.STORE_ERRORS) == 3
    assert value(numbers, declared.TELEMETRY_DROPPED, "journal") == 2
    assert value(numbers, declared.JOURNAL_RECORDS) == 5
    assert value(numbers, declared.JOURNAL_UNWRITTEN) == 1
    assert set(numbers.values) <= set(declared.BY_NAME)


def test_states_are_declared_in_their_order() -> None:
    assert tuple(state.value for state in State) == declared.REPLICA_STATES


def test_failures_and_ejections_are_counted() -> None:
    health = ReplicaHealth(lambda: None)
    health.connected()
    for _ in range(3):
        health.breaker.failed(10.0)
    assert (health.breaker.faults, health.ejections) == (3, 0)
    health.eject(10.0, "slow")
    health.eject(10.0 + OPEN_SECONDS, "its probe: nothing")
    assert health.ejections == 1, "for longer is not once more"
    health.breaker.close(20.0)
    health.eject(30.0, "slow")
    assert (health.breaker.faults, health.ejections) == (3, 2)


async def test_admissions_are_counted() -> None:
    bench = Bench("p/0", max_waiting=1)
    turns = bench.fill()
    first = bench.wait(rank=0)
    await settle()
    bench.now += 2.0
    shed = bench.wait(rank=2)
    with pytest.raises(Overloaded):
        await shed
    bench.end(turns.pop())
    turns.append(await first)
    late = asyncio.create_task(
        bench.admission_queue.enter(bench.request(rank=2, wait_until=bench.now), RequestHandle())
    )
    with pytest.raises(Overloaded):
        await late
    assert bench.admission_queue.admissions == {(1, "at_once"): 4, (0, "waited"): 1, (2, "shed"): 2}
    for admission in turns:
        admission.release(0)
    bench.check_empty()


async def test_reservations_and_trips_are_counted(store_url: str) -> None:
    async with worker_of(store_url) as worker:
        (await worker.reserve(plan_of("acme", rpm=1))).release()
        await worker.settled()
        await worker.reserve(plan_of("acme", tpm=5), 2, 2)
        with pytest.raises(RateLimited):
            await worker.reserve(plan_of("acme", tpm=5), 2, 2)
        worker.watched.failing.add("acme")
        with pytest.raises(StoreUnavailable):
            await worker.reserve(plan_of("acme", tpm=5), 1, 1)
        (await worker.reserve(plan_of("acme", on_store_failure="fail_open", tpm=5), 1, 1)).release()
        worker.watched.failing.clear()
        await worker.settled()
        limiter, limits_batcher = worker.limiter, worker.limits_batcher
        assert limiter.reservations == {"granted": 2, "refused": 1, "failed_open": 1, "failed_closed": 1}
        assert limits_batcher.errors >= 2
        assert sum(limits_batcher.seconds.counts) == worker.watched.trips


async def test_an_unreachable_store_is_counted() -> None:
    class Away:
        async def run(self, *_: object) -> object:
            raise StoreUnavailable

        async def run_many(self, *_: object) -> list[bytes | StoreUnavailable]:
            raise StoreUnavailable

    limits_batcher = LimitsBatcher(Away(), "h", timeout=1.0, on_alert=lambda *_: None)
    running = asyncio.create_task(limits_batcher.run())
    limiter = StoreLimiter(limits_batcher)
    with pytest.raises(StoreUnavailable):
        await limiter.reserve(Ask(plan_of("acme", rpm=1), 1, 1, 1))
    assert limits_batcher.errors >= 1
    assert limiter.reservations["failed_closed"] == 1
    assert not sum(limits_batcher.seconds.counts)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
