"""Demand: what one worker counts, and what the reports of all workers are together."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.scaling.demand.demand_counter import WINDOW_SECONDS, DemandCounter
from gateway.scaling.demand.demand_reports import (
    BUCKETS,
    ModelReport,
    PoolReport,
    bucket_of,
    demand_reports,
    quantile,
    report_demand,
)
from gateway.scaling.demand.merged_demand import merged_demand, pool_knowledge, short_demand
from gateway.scaling.demand.step_watch import StepWatch
from observability.outcome import Outcome
from observability.record import RequestRecord
from protos.types import Load, Role, Shape, Work
from routing.contracts.policy import ReplicaView
from routing.contracts.policy_settings import Targets
from routing.estimates.step_model import LearnedSteps, StepModel
from routing.health.replica_status import ReplicaStatus
from tests.stores import running


class Queue:
    def __init__(self) -> None:
        self.admissions: Counter[tuple[int, str]] = Counter()
        self.waiting = 0
        self.oldest_wait = 0.0
        self.needs: list[tuple[int, float]] = []

    def long_waits(self, over: int) -> list[tuple[int, float]]:
        return [(need, waited) for need, waited in self.needs if need > over]


class Fleet:
    def __init__(self) -> None:
        self.views: list[ReplicaView] = []
        self.narrow_tokens = 0

    def statuses(self) -> list[ReplicaStatus]:
        return []

    def candidates(self) -> list[ReplicaView]:
        return self.views


class Worker:
    def __init__(self, *, relaunched: bool = False) -> None:
        self.now = 100.0
        self.queue, self.fleet = Queue(), Fleet()
        self.watch = StepWatch(lambda view, work: None, lambda replica_id: None)
        targets = {"m": Targets(ttft_ms=1000, ttft_per_token_ms=0, tpot_ms=50)}
        self.counter = DemandCounter(targets, lambda: self.now, ["m"] if relaunched else [])

    def report(self, seconds: float = 1.0) -> ModelReport:
        self.now += seconds
        return self.counter.report({"m": self.fleet}, {"m": self.queue}, {"m": self.watch})["m"]


def record(**fields: Any) -> RequestRecord:
    given: dict[str, Any] = {
        "model": "m",
        "replica": "p/0",
        "first_token": 0.5,
        "last_token": 1.5,
        "prompt_tokens": 100,
        "cached_tokens": 60,
        "completion_tokens": 11,
    }
    return RequestRecord(id="r", endpoint="chat", arrived=0.0, wall=0.0, **(given | fields))


def view(running: int = 0, pool: str = "p") -> ReplicaView:
    load = Load(running=running, kv_blocks_total=1000)
    return ReplicaView(
        f"{pool}/0", pool, Shape(tp=2), Role.BOTH, load, max_batch_size=64, kv_block_tokens=32, max_num_tokens=8192
    )


def test_arrivals_are_what_was_admitted_what_waits_and_what_was_refused_for_want_of_room() -> None:
    worker = Worker()
    worker.report()
    worker.queue.admissions.update({(0, "at_once"): 3, (1, "waited"): 2, (0, "shed"): 1})
    worker.queue.waiting = 4
    worker.counter.take(
        [
            record(replica="", outcome=Outcome.SHED),
            record(replica="", outcome=Outcome.LIMITED),
            record(replica="", outcome=Outcome.INVALID),
            record(model="other", replica="", outcome=Outcome.SHED),
        ]
    )
    report = worker.report(10.0)
    assert (report.window, report.arrivals, report.waiting) == (10.0, 10, 4)
    # Those that waited are let through: nobody has come.
    worker.queue.waiting = 0
    worker.queue.admissions[0, "waited"] += 4
    assert worker.report().arrivals == 10


def test_requests_in_the_background_are_work_and_their_times_and_refusals_are_nobody_s() -> None:
    worker = Worker()
    worker.report()
    late = record(first_token=30.0, last_token=90.0, background=True)
    worker.counter.take([record(), late, record(replica="", outcome=Outcome.DEFERRED, background=True)])
    report = worker.report(0.0)
    assert (report.arrivals, report.ended, report.output_tokens) == (0, 2.0, 22.0)
    assert (sum(report.ttft), sum(report.tpot)) == (1, 1)


def test_long_requests_are_told_apart_where_replicas_change_their_shapes() -> None:
    worker = Worker()
    worker.queue.needs = [(90_000, 3.0), (900, 9.0), (300_000, 1.0)]
    worker.counter.take([record(prompt_tokens=100_000)])
    report = worker.report()
    assert (report.long_waits, report.long_ended) == ((), 0.0)
    worker.fleet.narrow_tokens = 74_000
    assert worker.report().long_waits == [(300_000, 1.0), (90_000, 3.0)]
    worker.counter.take([record(prompt_tokens=100_000), record()])
    assert worker.report(0.0).long_ended == 1.0


@pytest.mark.parametrize("relaunched", [False, True])
def test_one_that_crowds_a_narrow_replica_is_long_unless_it_takes_a_start(relaunched: bool) -> None:
    worker = Worker(relaunched=relaunched)
    worker.fleet.narrow_tokens = 74_000
    worker.queue.needs = [(30_000, 3.0), (29_000, 9.0)]
    assert worker.report().long_waits == ([] if relaunched else [(30_000, 3.0)])
    worker.counter.take([record(prompt_tokens=30_000), record(prompt_tokens=28_000)])
    assert worker.report(0.0).long_ended == (0.0 if relaunched else 1.0)


def test_means_of_short_requests_are_without_the_long_ones() -> None:
    worker = Worker()
    worker.fleet.narrow_tokens = 74_000
    worker.report()
    long = record(prompt_tokens=100_000, cached_tokens=0, completion_tokens=300)
    worker.counter.take([long, long, record(), record()])
    demand = short_demand([worker.report(), worker.report(0.0)])
    assert demand is not None
    assert (demand.prompt_tokens, demand.cached_tokens, demand.output_tokens) == pytest.approx((100.0, 60.0, 11.0))
    # What came so long ago that only rounding is left of it says nothing.
    worker.report(3600.0)
    worker.counter.take([long])
    demand = short_demand([worker.report()])
    assert demand is not None
    assert (demand.prompt_tokens, demand.output_tokens) == pytest.approx((100_000.0, 300.0))
    assert short_demand([]) is None


def test_what_is_older_than_the_window_does_not_count() -> None:
    worker = Worker()
    worker.report()
    worker.queue.admissions[0, "at_once"] += 600
    for _ in range(int(WINDOW_SECONDS) + 2):
        report = worker.report()
    assert (report.arrivals, round(report.window)) == (0, WINDOW_SECONDS)


def test_tokens_and_latencies_are_those_of_answers() -> None:
    worker = Worker()
    worker.report()
    worker.counter.take([record(), record(first_token=2.0, last_token=4.0), record(first_token=0.0)])
    report = worker.report()
    assert report.ended == pytest.approx(2.0, rel=0.02)
    assert report.output_tokens / report.ended == pytest.approx(11.0)
    demand = merged_demand([report])
    assert demand is not None
    assert demand.prompt_tokens == pytest.approx(100.0)
    assert demand.cached_tokens == pytest.approx(60.0)
    assert 2.0 < demand.ttft_ratio <= 2.0 * 2**0.25
    assert 4.0 < demand.tpot_ratio <= 4.0 * 2**0.25


def test_what_engines_tell_of_their_steps_is_learned_and_how_busy_they_are() -> None:
    worker = Worker()
    worker.fleet.views = [view()]
    seen: list[Work] = []
    gone: list[str] = []
    worker.watch = StepWatch(lambda view, work: seen.append(work), gone.append)
    worker.report()
    for _ in range(50):
        worker.watch.worked(view(running=8), Work(us=20_000, sequences=8, context=800))
    report = worker.report(2.0)
    pool = report.pools["p"]
    assert len(seen) == 50
    assert (pool.kv_tokens, pool.max_sequences, pool.max_step_tokens) == (32_000, 64, 8192)
    assert pool.steps is not None
    model = StepModel.of(pool.steps)
    assert model is not None
    assert model.seconds(8, 800) == pytest.approx(0.02, rel=0.05)
    known = pool_knowledge([report, ModelReport(window=1.0, arrivals=0.0)], "p")
    assert known.steps == pool.steps
    assert pool_knowledge([report], "another").steps is None
    worker.watch.left("p/0")
    assert gone == ["p/0"]


@pytest.mark.parametrize(
    "spoiled",
    [{"factors": (1.0,)}, {"gpus": 0}, {"context": float("nan")}, {"seen": (0,) * 8}, {"pair": 1e9}],
)
def test_step_times_that_are_damaged_are_none(spoiled: dict[str, Any]) -> None:
    good: dict[str, Any] = {
        "gpus": 2,
        "factors": (1.0,) * 8,
        "context": 1.0,
        "pair": 1.0,
        "seen": (9,) * 8,
        "steps": 9,
    }
    assert StepModel.of(LearnedSteps(**good)) is not None
    assert StepModel.of(LearnedSteps(**(good | spoiled))) is None


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=200), st.floats(0.01, 1.0))
def test_a_quantile_is_at_most_a_bucket_off(ratios: list[float], share: float) -> None:
    counts = [0] * BUCKETS
    for ratio in ratios:
        counts[bucket_of(ratio)] += 1
    found = quantile(counts, share)
    covered = sum(min(max(ratio, 2.0**-8), 2.0**8 - 1e-6) <= found for ratio in ratios)
    assert covered >= share * len(ratios) - 1e-6
    assert quantile([0] * BUCKETS, share) == 0.0


def test_workers_are_added_up() -> None:
    one = ModelReport(window=30.0, arrivals=60.0, ended=10.0, prompt_tokens=1000.0, waiting=2, oldest_wait=1.0)
    two = ModelReport(window=10.0, arrivals=10.0, ended=30.0, prompt_tokens=9000.0, waiting=1, oldest_wait=3.0)
    just_begun = ModelReport(window=0.0, arrivals=0.0)
    demand = merged_demand([one, two, just_begun])
    assert demand is not None
    assert (demand.requests_per_second, demand.prompt_tokens) == (3.0, 250.0)
    assert (demand.waiting, demand.oldest_wait) == (3, 3.0)
    assert merged_demand([]) is None


async def test_where_nobody_reports_nothing_is_old(any_store_url: str) -> None:
    async with running(any_store_url) as store:
        found = await demand_reports(store)
        assert (found.reports, found.age) == ([], 0.0)


async def test_reports_are_read_as_they_were_written(any_store_url: str) -> None:
    report = ModelReport(
        window=30.0,
        arrivals=2.0,
        ttft=[1],
        tpot=[],
        pools={"p": PoolReport(occupancy=0.5)},
        long_waits=[(90_000, 2.5)],
    )
    async with running(any_store_url) as store:
        await report_demand(store, "a", {"m": report})
        await report_demand(store, "b", {"m": report})
        await report_demand(store, "b", {"m": report})
        found = await demand_reports(store)
        assert found.reports == [{"m": report}] * 2
        assert found.now > 1e9
        assert 0.0 < found.age < 5.0
