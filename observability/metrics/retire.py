"""Merge the files of ended workers into one, so that nothing grows with the number of restarts."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from observability.metrics.declarations import METRICS
from observability.metrics.merge import add_totals, ended_of, snapshot_of
from observability.metrics.metrics_folder import (
    ENDED,
    LOCK_SUFFIX,
    lives,
    remove_stray_locks,
    replace,
    shared_lock,
    worker_files,
)
from observability.metrics.snapshot import Ended, Numbers, Snapshot

#: Ended workers' counts of replicas that no worker knows any more are dropped: replicas come and go.
_OF_REPLICAS: Final = [metric for metric in METRICS if metric.kind == "counter" and "replica" in metric.labels]


def retire(folder: Path) -> None:
    """Add the files of ended workers to `ended`, and remove them. Raises OSError.

    A kill at any point loses nothing and counts nothing twice: `ended` names the workers whose files it includes.
    """
    with shared_lock(folder) as mine:
        if not mine:
            return
        files = worker_files(folder)
        gone = [path for path in files if not lives(path)]
        before = (folder / ENDED).read_bytes() if (folder / ENDED).exists() else b""
        ended = ended_of(before)
        read = {path: snapshot for path in files if (snapshot := snapshot_of(path, path.read_bytes())) is not None}
        new = [read[path] for path in gone if path in read and path.stem not in ended.names]
        if new:
            _add(ended, new, [one for path, one in read.items() if path not in gone])
            ended.names = [path.stem for path in gone]
            replace(folder / ENDED, msgspec.msgpack.encode(ended))
        for path in gone:
            path.unlink(missing_ok=True)
            path.with_suffix(LOCK_SUFFIX).unlink(missing_ok=True)
        remove_stray_locks(folder)


def _add(ended: Ended, new: list[Snapshot], living: Iterable[Snapshot]) -> None:
    numbers = Numbers(ended.values, ended.distributions)
    add_totals(numbers, new)
    for metric in _OF_REPLICAS:
        known = {labels for one in (*new, *living) for labels in one.values.get(metric.name, ())}
        totals = numbers.values.get(metric.name, {})
        numbers.values[metric.name] = {labels: value for labels, value in totals.items() if labels in known}
    ended.started = min([one.started for one in new] + ([ended.started] if ended.workers else []))
    ended.workers += len(new)
    ended.meant = max(ended.meant, *(one.workers for one in new))
