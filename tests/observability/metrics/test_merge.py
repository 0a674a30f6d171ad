"""What all workers say together, those that have ended included."""

import random
from copy import deepcopy
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from observability.metrics import declarations as declared
from observability.metrics.merge import FRESH_SECONDS, merged, read
from observability.metrics.metric import Metric
from observability.metrics.metrics_folder import ENDED, LOCK_SUFFIX, SHARED_LOCK, SUFFIX, OwnLock, clear, lives, replace
from observability.metrics.retire import retire
from observability.metrics.snapshot import Ended, Numbers, Snapshot, empty
from tests.observability.metrics.records import numbers_of, placed, record, sink_of, snapshot_of


class Worker:
    """One that writes its file, and dies with its lock."""

    def __init__(self, folder: Path, name: str, workers: int = 2) -> None:
        self.path = folder / f"{name}{SUFFIX}"
        self.lock = OwnLock(folder / f"{name}{LOCK_SUFFIX}")
        self.sink = sink_of()
        self.name = name
        self.workers = workers

    def write(self, requests: int, written: float = 100.0, **gauges: float) -> None:
        self.lock.hold()
        self.sink.take([record() for _ in range(requests)])
        numbers = numbers_of(placed(self.sink))
        for name, value in gauges.items():
            numbers.values["penstock_" + name] = {(): value}
        snapshot = snapshot_of(numbers, worker=self.name, workers=self.workers, written=written)
        replace(self.path, msgspec.msgpack.encode(snapshot))


def total(folder: Path, now: float = 100.0) -> float:
    values = read(folder, lambda: now).numbers.values
    return sum(values.get(declared.REQUESTS.name, {}).values())


def value(folder: Path, metric: Metric, now: float = 100.0) -> float | None:
    return read(folder, lambda: now).numbers.values.get(metric.name, {}).get(())


def test_workers_that_live_and_that_have_ended(tmp_path: Path) -> None:
    clear(tmp_path)
    one, other = Worker(tmp_path, "a"), Worker(tmp_path, "b")
    one.write(3, in_flight_requests=5)
    other.write(4, in_flight_requests=6)
    assert (total(tmp_path), value(tmp_path, declared.IN_FLIGHT), value(tmp_path, declared.WORKERS)) == (7, 11, 2)
    assert value(tmp_path, declared.WORKER_RESTARTS) == 0
    one.lock.release()
    assert (total(tmp_path), value(tmp_path, declared.IN_FLIGHT), value(tmp_path, declared.WORKERS)) == (7, 6, 1)
    third = Worker(tmp_path, "c")
    third.write(1, in_flight_requests=1)
    assert (total(tmp_path), value(tmp_path, declared.WORKER_RESTARTS)) == (8, 1)
    retire(tmp_path)
    assert not one.path.exists()
    assert (total(tmp_path), value(tmp_path, declared.WORKER_RESTARTS)) == (8, 1)
    for each in (other, third):
        each.lock.release()
    retire(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {ENDED, SHARED_LOCK}
    assert (total(tmp_path), value(tmp_path, declared.IN_FLIGHT), value(tmp_path, declared.WORKERS)) == (8, None, 0)
    clear(tmp_path)
    assert total(tmp_path) == 0


def test_however_many_die_nothing_grows_and_nothing_sinks(tmp_path: Path) -> None:
    most, before = 0, 0.0
    for number in range(30):
        worker = Worker(tmp_path, f"w{number}")
        retire(tmp_path)
        worker.write(2)
        now = total(tmp_path)
        assert now == before + 2
        before = now
        worker.lock.release()
        most = max(most, len(list(tmp_path.iterdir())))
    assert most <= 6


@pytest.mark.parametrize("killed_after", ["nothing", "ended was written", "one file was removed"])
def test_killed_while_it_folds(tmp_path: Path, killed_after: str) -> None:
    workers = [Worker(tmp_path, name) for name in "ab"]
    for worker in workers:
        worker.write(5)
        worker.lock.release()
    files = {worker.path: worker.path.read_bytes() for worker in workers}
    if killed_after != "nothing":
        retire(tmp_path)
        for path in list(files)[killed_after == "one file was removed" :]:
            path.write_bytes(files[path])
    assert total(tmp_path) == 10
    for _ in range(2):
        retire(tmp_path)
        assert total(tmp_path) == 10
    late = Worker(tmp_path, "c")
    late.write(1)
    late.lock.release()
    retire(tmp_path)
    assert total(tmp_path) == 11


def test_who_holds_the_shared_lock_goes_first(tmp_path: Path) -> None:
    worker = Worker(tmp_path, "a")
    worker.write(1)
    worker.lock.release()
    lock = OwnLock(tmp_path / SHARED_LOCK)
    lock.hold()
    retire(tmp_path)
    assert worker.path.exists()
    lock.release()
    retire(tmp_path)
    assert not worker.path.exists()


def test_a_lock_whose_file_was_removed_is_taken_again(tmp_path: Path) -> None:
    folder = tmp_path / "metrics"
    worker = Worker(folder, "a")
    worker.write(1)
    clear(folder)
    assert not lives(worker.path)
    worker.write(1)
    assert lives(worker.path)
    worker.lock.release()
    worker.lock.release()
    assert not lives(worker.path)


def test_locks_of_workers_that_never_wrote_go(tmp_path: Path) -> None:
    early, dead = OwnLock(tmp_path / f"early{LOCK_SUFFIX}"), OwnLock(tmp_path / f"dead{LOCK_SUFFIX}")
    early.hold()
    dead.hold()
    dead.release()
    retire(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"early{LOCK_SUFFIX}", SHARED_LOCK}
    early.release()


def test_a_worker_that_hangs_tells_nothing_of_now(tmp_path: Path) -> None:
    worker = Worker(tmp_path, "a")
    worker.write(1, written=100.0, in_flight_requests=3)
    late = 100.0 + FRESH_SECONDS + 1
    assert value(tmp_path, declared.IN_FLIGHT, late) is None
    assert total(tmp_path, late) == 1
    worker.lock.release()


@pytest.mark.parametrize("cut", [0, 1, 10, 200, -1])
def test_files_that_cannot_be_read_are_left_out(tmp_path: Path, cut: int, caplog: pytest.LogCaptureFixture) -> None:
    good, torn = Worker(tmp_path, "good"), Worker(tmp_path, f"torn{cut}")
    good.write(2)
    torn.write(2)
    torn.path.write_bytes(torn.path.read_bytes()[:cut])
    (tmp_path / f"old{cut}{SUFFIX}").write_bytes(msgspec.msgpack.encode({"version": 99}))
    (tmp_path / ENDED).write_bytes(b"\xc1")
    for _ in range(3):
        assert total(tmp_path) == 2
    assert len(caplog.records) == (1 if cut == 0 else 2), "said once of each"
    for worker in (good, torn):
        worker.lock.release()
    retire(tmp_path)
    assert total(tmp_path) == 2


def test_no_folder() -> None:
    found = read(Path("/nonexistent/metrics"))
    assert (found.families(), found.recent, found.pids, found.parent, found.started) == ([], [], [], None, 0.0)


OF = ("m", "wide", "wide/0")


def states(*said: dict[str, dict[tuple[str, ...], float]]) -> Numbers:
    snapshots = [(snapshot_of(Numbers(values), written=100.0 + index), True) for index, values in enumerate(said)]
    random.shuffle(snapshots)
    return merged(Ended(), snapshots, 100.0 + len(said)).numbers


def test_several_workers_see_one_replica() -> None:
    def seen(
        state: str, up: int, running: int, share: float, breaker: float
    ) -> dict[str, dict[tuple[str, ...], float]]:
        return {
            declared.REPLICA_STATE.name: {(*OF, state): 1},
            declared.REPLICA_UP.name: {OF: up},
            declared.REPLICA_RUNNING.name: {OF: running},
            declared.REPLICA_IN_FLIGHT.name: {OF: 2},
            declared.REPLICA_SHARE.name: {OF: share},
            declared.REPLICA_BREAKER.name: {OF: breaker},
        }

    values = states(
        seen("ejected", 0, 5, 0.0, 3.5), seen("ready", 1, 6, 1.0, 0.0), seen("returning", 1, 7, 0.5, 0.0)
    ).values
    assert values[declared.REPLICA_STATE.name] == {(*OF, "ejected"): 1}
    assert values[declared.REPLICA_UP.name] == {OF: 0}
    assert values[declared.REPLICA_RUNNING.name] == {OF: 7}, "the engine's own, as it was last heard"
    assert values[declared.REPLICA_IN_FLIGHT.name] == {OF: 6}
    assert values[declared.REPLICA_SHARE.name] == {OF: 0.5}
    assert values[declared.REPLICA_BREAKER.name] == {OF: 3.5}


def test_what_ended_workers_counted_of_replicas_that_are_gone_is_forgotten(tmp_path: Path) -> None:
    name = declared.REPLICA_FAILURES.name
    for number in range(5):
        worker = Worker(tmp_path, f"w{number}")
        worker.lock.hold()
        numbers = Numbers({name: {("m", "p", "p/stays"): 1, ("m", "p", f"p/{number}"): 1}})
        replace(worker.path, msgspec.msgpack.encode(snapshot_of(numbers)))
        worker.lock.release()
        retire(tmp_path)
    assert read(tmp_path).numbers.values[name] == {("m", "p", "p/stays"): 5, ("m", "p", "p/4"): 1}


_counters = [metric for metric in declared.METRICS if metric.kind == "counter"]
_histograms = [metric for metric in declared.METRICS if metric.kind == "histogram"]
_text = st.sampled_from(["a", "b", "-"])


@st.composite
def _numbers(draw: st.DrawFn) -> Numbers:
    numbers = Numbers()
    for metric in draw(st.lists(st.sampled_from(_counters), max_size=4)):
        numbers.set(metric, draw(st.integers(0, 1 << 40)), *(draw(_text) for _ in metric.labels))
    for metric in draw(st.lists(st.sampled_from(_histograms), max_size=3)):
        distribution = empty(metric)
        for _ in range(draw(st.integers(0, 3))):
            distribution.add(draw(st.integers(0, 1000)), metric.bounds)
        numbers.put(metric, distribution, *(draw(_text) for _ in metric.labels))
    return numbers


def _merge(*groups: list[Snapshot]) -> Numbers:
    """One group after another, as workers end in groups."""
    so_far = Ended()
    for group in groups:
        numbers = merged(so_far, [(deepcopy(one), False) for one in group], 0.0).numbers
        so_far = Ended(workers=so_far.workers + len(group), values=numbers.values, distributions=numbers.distributions)
    numbers = Numbers(so_far.values, so_far.distributions)
    for metric in (declared.WORKERS, declared.WORKER_RESTARTS):
        numbers.values.pop(metric.name, None)
    return numbers


@given(st.lists(_numbers(), min_size=1, max_size=5), st.integers(0, 5), st.randoms())
def test_the_order_in_which_workers_end_makes_no_difference(said: list[Numbers], cut: int, rng: random.Random) -> None:
    snapshots = [snapshot_of(numbers) for numbers in said]
    shuffled = rng.sample(snapshots, len(snapshots))
    assert _merge(snapshots) == _merge(shuffled[:cut], shuffled[cut:])
