"""Merge the numbers of all workers of a gateway, living and ended."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add
from pathlib import Path
from typing import Any, Final

import msgspec

from observability.exposition import Family, Observed
from observability.metrics.declarations import (
    BY_NAME,
    METRICS,
    REPLICA_STATES,
    WORKER_RESTARTS,
    WORKERS,
)
from observability.metrics.metric import Metric
from observability.metrics.metrics_folder import ENDED, lives, worker_files
from observability.metrics.snapshot import VERSION, Distribution, Ended, Labels, Numbers, Snapshot

log = logging.getLogger(__name__)

#: Seconds for which a worker's gauges are believed.
FRESH_SECONDS: Final = 15.0
#: Attempts to read the folder when it changes meanwhile.
_ATTEMPTS: Final = 5
_SNAPSHOT: Final = msgspec.msgpack.Decoder(Snapshot)
_ENDED: Final = msgspec.msgpack.Decoder(Ended)
_RANKS: Final = {state: rank for rank, state in enumerate(REPLICA_STATES)}


@dataclass(slots=True)
class Merged:
    """The numbers of all workers, and their recent requests."""

    numbers: Numbers = field(default_factory=Numbers)
    #: Process ids of living workers.
    pids: list[int] = field(default_factory=list)
    #: The process that started the workers, where any live.
    parent: int | None = None
    #: When the first worker began, in seconds since 1970; 0 where there was none.
    started: float = 0.0
    #: The last requests that failed (`kind` is `failed`) and that were routed (`routed`), newest first.
    recent: list[dict[str, Any]] = field(default_factory=list)

    def families(self) -> list[Family]:
        """Return every declared metric that has a number, in the order of the declarations."""
        values, distributions = self.numbers.values, self.numbers.distributions
        return [
            _family(metric, values.get(metric.name, {}), distributions.get(metric.name, {}))
            for metric in METRICS
            if values.get(metric.name) or distributions.get(metric.name)
        ]


def read(folder: Path, clock: Callable[[], float] = time.monotonic) -> Merged:
    """Read the workers' files in a folder, which need not exist. May block."""
    for _ in range(_ATTEMPTS):
        before = _bytes(folder / ENDED)
        found = [(path, lives(path), data) for path in worker_files(folder) if (data := _bytes(path))]
        if _bytes(folder / ENDED) == before:
            break
    ended = ended_of(before)
    snapshots = [
        (snapshot, alive)
        for path, alive, data in found
        if path.stem not in ended.names and (snapshot := snapshot_of(path, data)) is not None
    ]
    return merged(ended, snapshots, clock())


def merged(ended: Ended, snapshots: Sequence[tuple[Snapshot, bool]], now: float) -> Merged:
    """Merge snapshots, each with whether its worker lives. Changes and reuses the snapshots and `ended`."""
    numbers = Numbers(ended.values, ended.distributions)
    living = sorted((one for one, alive in snapshots if alive), key=lambda one: one.written)
    everyone = [one for one, _ in snapshots]
    add_totals(numbers, everyone)
    add_gauges(numbers, [one for one in living if now - one.written <= FRESH_SECONDS])
    starts = [one.started for one in everyone] + ([ended.started] if ended.workers else [])
    began = ended.workers + len(everyone)
    if began:
        meant = max((one.workers for one in everyone), default=ended.meant)
        numbers.set(WORKERS, len(living))
        numbers.set(WORKER_RESTARTS, max(0, began - meant))
    recent = [dict(view) for one in everyone for view in one.recent]
    recent.sort(key=lambda view: -view.get("time", 0.0))
    return Merged(
        numbers,
        [one.pid for one in living],
        living[-1].parent if living else None,
        min(starts, default=0.0),
        recent,
    )


def add_totals(numbers: Numbers, snapshots: Iterable[Snapshot]) -> None:
    """Add the counters and histograms of snapshots to `numbers`."""
    for snapshot in snapshots:
        for name, values in snapshot.values.items():
            metric = BY_NAME.get(name)
            if metric is None or metric.kind != "counter":
                continue
            totals = numbers.values.setdefault(name, {})
            for labels, value in values.items():
                if len(labels) == len(metric.labels):
                    totals[labels] = totals.get(labels, 0) + value
        for name, distributions in snapshot.distributions.items():
            metric = BY_NAME.get(name)
            if metric is None or metric.kind != "histogram":
                continue
            sums = numbers.distributions.setdefault(name, {})
            for labels, one in distributions.items():
                if len(labels) == len(metric.labels) and len(one.counts) == len(metric.bounds) + 1:
                    total = sums.get(labels)
                    sums[labels] = one if total is None else _sum(total, one)


def add_gauges(numbers: Numbers, snapshots: Sequence[Snapshot]) -> None:
    """Combine the gauges of living workers; `snapshots` are in the order in which they were written."""
    for metric in METRICS:
        if metric.kind != "gauge":
            continue
        gauges = [values for one in snapshots if (values := one.values.get(metric.name))]
        if gauges:
            together = _ACROSS[metric.across](gauges)
            width = len(metric.labels)
            numbers.values[metric.name] = {labels: value for labels, value in together.items() if len(labels) == width}


def snapshot_of(path: Path, data: bytes) -> Snapshot | None:
    """Decode a worker's file; where it cannot be read, log that once and return None."""
    with contextlib.suppress(msgspec.MsgspecError):
        snapshot = _SNAPSHOT.decode(data)
        if snapshot.version == VERSION:
            return snapshot
    if path.name not in _unreadable:
        if len(_unreadable) < 64:
            _unreadable.add(path.name)
        log.warning("%s cannot be read; the numbers of that worker are missing in the metrics", path)
    return None


#: Names of unreadable files that have been logged.
_unreadable: set[str] = set()


def ended_of(data: bytes) -> Ended:
    """Decode the sums of ended workers; empty where they cannot be read."""
    with contextlib.suppress(msgspec.MsgspecError):
        if data:
            ended = _ENDED.decode(data)
            if ended.version == VERSION:
                return ended
    return Ended()


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _sum(one: Distribution, other: Distribution) -> Distribution:
    return Distribution(list(map(add, one.counts, other.counts)), one.sum + other.sum)


def _by_labels(gauges: Sequence[Mapping[Labels, float]]) -> dict[Labels, list[float]]:
    found: dict[Labels, list[float]] = {}
    for values in gauges:
        for labels, value in values.items():
            found.setdefault(labels, []).append(value)
    return found


def _newest(gauges: Sequence[Mapping[Labels, float]]) -> dict[Labels, float]:
    return {labels: value for values in gauges for labels, value in values.items()}


def _worst(gauges: Sequence[Mapping[Labels, float]]) -> dict[Labels, float]:
    """Keep the worst of the states, which are the last label, whose value is 1."""
    states: dict[Labels, str] = {}
    for values in gauges:
        for (*of, state), value in values.items():
            known = states.get(tuple(of))
            if value and (known is None or _RANKS.get(state, -1) > _RANKS.get(known, -1)):
                states[tuple(of)] = state
    return {(*of, state): 1 for of, state in states.items()}


def _each(combine: Callable[[list[float]], float]) -> Callable[[Sequence[Mapping[Labels, float]]], dict[Labels, float]]:
    return lambda gauges: {labels: combine(values) for labels, values in _by_labels(gauges).items()}


_ACROSS: Final[dict[str, Callable[[Sequence[Mapping[Labels, float]]], dict[Labels, float]]]] = {
    "sum": _each(sum),
    "min": _each(min),
    "max": _each(max),
    "mean": _each(lambda values: sum(values) / len(values)),
    "newest": _newest,
    "worst": _worst,
}


def _family(metric: Metric, values: Mapping[Labels, float], distributions: Mapping[Labels, Distribution]) -> Family:
    names = metric.labels
    return Family(
        metric.name,
        metric.kind,
        metric.help,
        [(dict(zip(names, labels, strict=True)), value) for labels, value in sorted(values.items())],
        metric.bounds,
        [
            Observed(dict(zip(names, labels, strict=True)), one.counts, one.sum)
            for labels, one in sorted(distributions.items())
        ],
    )
