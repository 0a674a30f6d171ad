"""Workers' metrics as looks take them."""

from typing import Any

import pytest

from gateway.admin.live.counters import MOST_CHARACTERS, worker_counts
from gateway.admin.live.totals import Histogram
from observability.exposition import Family, Observed
from observability.metrics import declarations as declared
from observability.metrics.metric import Metric
from routing.health.replica_status import State

REPLICA = {"model": "m", "pool": "p", "replica": "p/0"}


class FakeMerged:
    """What files would have said."""

    def __init__(self, families: list[Family], recent: list[dict[str, Any]], started: float = 5.0) -> None:
        self._families = families
        self.recent = recent
        self.started = started

    def families(self) -> list[Family]:
        return self._families


def family(metric: Metric, *samples: tuple[dict[str, str], float]) -> Family:
    return Family(metric.name, metric.kind, metric.help, list(samples), metric.bounds)


def of(*families: Family, recent: list[dict[str, Any]] | None = None) -> Any:
    merged: Any = FakeMerged(list(families), recent or [])
    return worker_counts(merged, 7.0)


def test_nothing_yet() -> None:
    found = of()
    assert (found.totals.at, found.totals.started, found.totals.in_flight) == (7.0, 5.0, None)
    assert (found.replicas, found.errors, found.routes) == ({}, (), ())


def test_counts_and_times() -> None:
    ok = {"endpoint": "chat", "model": "m", "tenant": "acme", "outcome": "ok"}
    durations = family(declared.REQUEST_SECONDS)
    counts = [1] * (len(declared.REQUEST_SECONDS.bounds) + 1)
    durations.observed.append(Observed({"model": "m", "pool": "p"}, counts, 3.0))
    found = of(
        family(declared.REQUESTS, (ok, 3), (ok | {"endpoint": "completions"}, 4)),
        family(declared.TOKENS, ({"model": "m", "tenant": "acme", "kind": "output"}, 9)),
        family(declared.IN_FLIGHT, ({}, 2)),
        family(declared.QUEUE_DEPTH, ({"model": "m"}, 1)),
        durations,
    ).totals
    assert found.requests == {("m", "acme", "ok"): 7}
    assert found.tokens == {("m", "acme", "output"): 9}
    assert (found.in_flight, found.queued) == (2, {"m": 1})
    assert found.request_seconds == {
        ("m", "p"): Histogram(declared.REQUEST_SECONDS.bounds, (1.0,) * len(counts)),
    }


def test_replicas_by_their_gauges() -> None:
    found = of(
        family(
            declared.REPLICA_STATE,
            (REPLICA | {"state": "ejected"}, 1),
            (REPLICA | {"replica": "p/1", "state": "ready"}, 1),
            (REPLICA | {"replica": "p/2", "state": "new to us"}, 1),
            (REPLICA | {"replica": "p/3", "state": "ready"}, 0),
        ),
        family(declared.REPLICA_RUNNING, (REPLICA, 4)),
        family(declared.REPLICA_SHARE, (REPLICA, 0.5)),
    )
    first, second = found.replicas["m"]
    assert (first.id, first.pool, first.state, first.running, first.share) == ("p/0", "p", State.EJECTED, 4, 0.5)
    assert (second.id, second.state, second.running, second.accuracy) == ("p/1", State.READY, 0, None)


def test_the_last_requests() -> None:
    failed = {"kind": "failed", "time": 1.0, "id": "r1", "outcome": "shed", "pool": "-", "detail": "x" * 9999}
    routed = {"kind": "routed", "time": 2.0, "id": "r2", "policy": "auto", "cached": 3, "of_a_later_version": 1}
    found = of(recent=[failed, routed, {"kind": "failed"}, {"kind": "failed", "time": "no", "id": 3}, {"kind": "new"}])
    (error,), (route,) = found.errors, found.routes
    assert (error.id, error.outcome, error.pool, error.detail) == ("r1", "shed", "", "x" * MOST_CHARACTERS)
    assert (route.id, route.policy, route.cached, route.predicted) == ("r2", "auto", 3, 0)


@pytest.mark.parametrize("text", ["<img src=x onerror=alert(1)>", "\x1b[31m", "\u202e"])
def test_names_are_not_touched(text: str) -> None:
    found = of(recent=[{"kind": "failed", "time": 1.0, "id": "r", "outcome": "shed", "tenant": text}])
    assert found.errors[0].tenant == text
