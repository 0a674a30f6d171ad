"""Measures in a real store: written twice they count once, and what is put together stays the same."""

import msgspec

from gateway.rollouts.measures.measure_reporter import MeasureReporter
from gateway.rollouts.measures.stored_measures import read_measures, report_measures
from gateway.store.store_client import Store
from observability.outcome import Outcome
from observability.record import RequestRecord
from protos.errors import StoreUnavailable
from routing.rollouts.measures.measures import Measures
from routing.rollouts.measures.version_counter import VersionCounter
from routing.rollouts.split import Split
from tests.stores import running

NOW = 1_800_000_000.0
SPLIT = Split(model="m", stable="v1", candidate="v2", share=0.5, salt="r1", epoch=3, tenants=frozenset({"a", "b"}))


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


def record(number: int, version: str = "v2", **fields: object) -> RequestRecord:
    made = RequestRecord(f"req_{number:024x}", "chat", 100.0, NOW - 5.0, model="m", version=version, tenant="a")
    made.replica, made.rollout_epoch = f"{version}-0", 3
    made.first_token, made.last_token, made.completion_tokens, made.prompt_tokens = 100.2, 101.2, 11, 300
    made.finish = "stop"
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def reporter(store: Store, worker: str, clock: Clock | None = None) -> MeasureReporter:
    return MeasureReporter(store, worker, lambda model: SPLIT if model == "m" else None, clock or Clock())


async def test_workers_measures_add_up_and_a_report_that_comes_twice_counts_once(store_url: str) -> None:
    async with running(store_url) as store:
        workers = [reporter(store, name) for name in ("w1", "w2")]
        for worker in workers:
            worker.counter.take(
                [
                    record(1, checks=("calls", "invalid_calls")),
                    record(2, finish="length"),
                    record(3, outcome=Outcome.REPLICA_ERROR, first_token=0.0),
                    record(4, "v1"),
                    # Not like those that are compared, or nobody's fault here.
                    record(5, "v3"),
                    record(6, tenant="c"),
                    record(7, rollout_epoch=0),
                    record(8, outcome=Outcome.LIMITED),
                    record(9, model="other"),
                ]
            )
            await worker.report()
            # As after a reply that was lost.
            await report_measures(store, "w1", "r1", _by_version(workers[0]), [("v2", int(NOW) - 10)])
        found = (await read_measures(store, "r1", NOW)).by_version
        assert found.keys() == {"v1", "v2"}
        mine = found["v2"]
        counted = {name: mine.total(name) for name in ("requests", "answers", "failed", "truncated", "invalid_calls")}
        assert counted == {"requests": 6, "answers": 4, "failed": 2, "truncated": 2, "invalid_calls": 2}
        assert found["v1"].requests == 2
        (piece,) = mine.slices.values()
        assert (piece.moments["tpot"][1].count, piece.replicas, piece.epoch) == (4, {"v2-0": 6}, 3)


def test_requests_in_the_background_have_no_times_and_wait_for_room_at_nobody_s_cost() -> None:
    counter = VersionCounter(lambda model: SPLIT if model == "m" else None, Clock())
    fell = {"model": "other", "asked_model": "m", "rollout_epoch": 0, "failed_version": "v2", "failed_epoch": 3}
    late = record(2, first_token=900.0, last_token=901.0, checks=("calls", "invalid_calls"))
    ends = (Outcome.DEFERRED, Outcome.TIMEOUT, Outcome.CLIENT_GONE, Outcome.REPLICA_ERROR)
    refused = [record(3, outcome=end, first_token=0.0, last_token=0.0, finish="") for end in ends]
    background = [late, *refused, record(4, "", **fell)]
    for each in background:
        each.background = True
    counter.take([record(1), *background])
    counter.settle()
    mine = counter.measures["r1", "v2"]
    counted = {name: mine.total(name) for name in ("requests", "answers", "failed", "client_gone", "invalid_calls")}
    assert counted == {"requests": 3, "answers": 2, "failed": 1, "client_gone": 0, "invalid_calls": 1}
    (piece,) = mine.slices.values()
    assert {measure: piece.moments[measure][1].count for measure in ("ttft", "tpot", "seconds")} == {
        "ttft": 1,
        "tpot": 1,
        "seconds": 1,
    }
    assert piece.moments["output_tokens"][1].count == 2


def test_a_failure_that_a_fallback_hides_from_the_client_is_its_versions() -> None:
    counter = VersionCounter(lambda model: SPLIT if model == "m" else None, Clock())
    fell = {"model": "other", "asked_model": "m", "rollout_epoch": 0, "failed_version": "v2", "failed_epoch": 3}
    counter.take(
        [
            record(1, "", **fell),
            # Forced to the version by a header, and of another tenant.
            record(2, "", **fell | {"failed_epoch": 0}),
            record(3, "", **fell, tenant="c"),
        ]
    )
    counter.settle()
    ((key, found),) = counter.measures.items()
    assert key == ("r1", "v2")
    assert (found.total("requests"), found.total("failed"), found.total("answers")) == (1, 1, 0)


def _by_version(worker: MeasureReporter) -> dict[str, Measures]:
    return {version: found for (_, version), found in worker.counter.measures.items()}


async def test_what_the_store_did_not_take_is_reported_later(store_url: str) -> None:
    class Away:
        async def run(self, *_: object) -> object:
            raise StoreUnavailable

        hgetall = run

    async with running(store_url) as store:
        worker = reporter(store, "w1")
        worker.counter.take([record(1)])
        there, worker._storage = worker._storage, Away()  # type: ignore[assignment]
        await worker.report()
        worker.counter.take([record(2)])
        await worker.report()
        worker._storage = there
        await worker.report()
        assert (await read_measures(store, "r1", NOW)).of("v2").requests == 2
        # Nothing has changed: nothing is written again.
        assert not worker.counter.changed
        assert await worker.find("a", "chatcmpl-" + "0" * 23 + "1") is not None


async def reported(store: Store, clock: Clock) -> list[MeasureReporter]:
    """Have eight workers report a request each in every one of 40 slices."""
    workers = [reporter(store, f"w{number}", clock) for number in range(8)]
    for step in range(40):
        clock.now = NOW + 10.0 * step
        for worker in workers:
            worker.counter.take([record(step, wall=clock.now)])
            await worker.report()
    return workers


async def test_old_slices_are_put_together_and_take_no_more(store_url: str) -> None:
    async with running(store_url) as store:
        clock = Clock()
        await reported(store, clock)
        before = (await read_measures(store, "r1", clock.now)).of("v2")
        assert before.requests == 320
        fields = await store.hgetall("penstock:{rollouts}:measures:r1")
        assert len(fields) < 200
        late = Measures(slices={int(NOW): next(iter(before.slices.values()))})
        await report_measures(store, "w0", "r1", {"v2": late}, [("v2", int(NOW))])
        after = (await read_measures(store, "r1", clock.now)).of("v2")
        assert msgspec.to_builtins(after) == msgspec.to_builtins(before)
        # Much later there are fewer slices of the same requests.
        coarse = (await read_measures(store, "r1", clock.now + 100_000.0)).of("v2")
        assert coarse.requests == 320
        assert len(coarse.slices) < 4


async def test_nothing_of_now_is_lost_where_the_stores_clock_has_jumped(store_url: str) -> None:
    async with running(store_url) as store:
        clock = Clock()
        workers = await reported(store, clock)
        # Whoever reads goes by the store's clock, which is an hour ahead for a while.
        assert (await read_measures(store, "r1", clock.now + 3600.0)).of("v2").requests == 320
        workers[0].counter.take([record(40, wall=clock.now)])
        await workers[0].report()
        assert (await read_measures(store, "r1", clock.now)).of("v2").requests == 321


async def test_an_answer_is_its_tenants_own_and_what_is_told_counts_once(store_url: str) -> None:
    async with running(store_url) as store:
        worker = reporter(store, "w1")
        worker.counter.take([record(1)])
        await worker.report()
        answer = "chatcmpl-" + "0" * 23 + "1"
        place = await worker.find("a", answer)
        assert place is not None
        for _ in range(2):
            await worker.tell("a", answer, place, ["rating", "accepted"], "up")
        await worker.report()
        found = (await read_measures(store, "r1", NOW)).of("v2")
        assert [found.total(event) for event in ("thumbs", "thumbs_up", "accepted")] == [1, 1, 1]
        assert await worker.find("b", "no id") is None
