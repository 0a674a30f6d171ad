"""The measures of a rollout in the store: what workers write, and the controller reads and puts together.

Each worker has fields of its own, by version and slice, which it writes whole. So whatever is written twice counts
once, and a worker that dies loses what it had not yet written.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from gateway.store.lua_script import Script
from gateway.store.unreadable import UNREADABLE
from gateway.tenancy.tenants.transactions import Storage
from routing.rollouts.measures.measures import Measures, begin_of
from routing.rollouts.measures.slice import Slice
from routing.rollouts.measures.version_counter import LATE_SECONDS

_PREFIX: Final = "penstock:{rollouts}:measures:"
#: Seconds that a rollout's measures are kept after the last report.
_KEPT_SECONDS: Final = 7 * 86_400
_REPORT: Final = Script.load("gateway.rollouts.measures", "lua/report.lua")
_MERGE: Final = Script.load("gateway.rollouts.measures", "lua/merge.lua")
_CLOSE: Final = Script("return redis.call('HSET', KEYS[1], 'closed', ARGV[1])")
_CLOSED: Final = b"closed"
#: Slices of that age in seconds are complete: no worker writes them any more, but for one that could not for as long.
_COMPLETE_SECONDS: Final = LATE_SECONDS + 60
#: Fields of a rollout from which on complete slices of all workers are put together.
_MANY_FIELDS: Final = 256
_SLICE: Final = msgspec.msgpack.Decoder(Slice)


class Field(msgspec.Struct, array_like=True, frozen=True):
    """The name of a field: a version, a worker (empty: several), and the begin of a slice."""

    version: str
    worker: str
    begin: int


_FIELD: Final = msgspec.json.Decoder(Field)


async def report_measures(
    storage: Storage, worker: str, rollout: str, measures: Mapping[str, Measures], changed: Iterable[tuple[str, int]]
) -> None:
    """Write a worker's measures by version; `changed` are versions and begins of slices.

    Raises:
        StoreUnavailable: The store did not answer; they may have been written.
    """
    arguments: list[str | bytes] = [str(_KEPT_SECONDS * 1000)]
    for version, begin in changed:
        value = msgspec.msgpack.encode(measures[version].slices[begin])
        arguments += [str(begin), msgspec.json.encode(Field(version, worker, begin)), value]
    await storage.run(_REPORT, [_PREFIX + rollout], arguments)


class StoredMeasures(msgspec.Struct, frozen=True):
    """A rollout's measures by version, and how many slices this program version cannot read, which are left out."""

    by_version: dict[str, Measures]
    unreadable: int

    def of(self, version: str) -> Measures:
        """Return those of a version, of which there may be none."""
        return self.by_version.get(version, Measures())


def measures_key(rollout: str) -> str:
    """Return the key of the store that has a rollout's measures."""
    return _PREFIX + rollout


async def read_measures(storage: Storage, rollout: str, now: float) -> StoredMeasures:
    """Read the measures of a rollout. Whoever reads also puts old slices together.

    `now` is seconds since 1970.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    stored = await storage.hgetall(_PREFIX + rollout)
    found: dict[str, Measures] = {}
    slices: dict[tuple[str, int], list[tuple[bytes, bytes, Slice]]] = {}
    unreadable = 0
    for name, value in stored.items():
        try:
            field = _FIELD.decode(name)
            piece = _SLICE.decode(value)
        except UNREADABLE:
            unreadable += name != _CLOSED
            continue
        begin = begin_of(field.begin, now)
        slices.setdefault((field.version, begin), []).append((name, value, piece))
    for (version, begin), pieces in slices.items():
        merged = found.setdefault(version, Measures()).slices[begin] = Slice()
        for _, _, piece in pieces:
            merged.merge(piece)
    if len(stored) > _MANY_FIELDS:
        await _compact(storage, rollout, found, slices, now)
    return StoredMeasures(found, unreadable)


async def _compact(
    storage: Storage,
    rollout: str,
    found: Mapping[str, Measures],
    slices: Mapping[tuple[str, int], list[tuple[bytes, bytes, Slice]]],
    now: float,
) -> None:
    """Write complete slices once in place of once for each worker."""
    # Slices are by workers' clocks: where the store's is ahead of them, as in a jump, nothing of now may be closed.
    last = max(_FIELD.decode(name).begin for pieces in slices.values() for name, _, _ in pieces)
    key, newest = _PREFIX + rollout, min(int(now), last) - _COMPLETE_SECONDS
    # From now on no worker writes them; what one has written since they were read makes the merge do nothing.
    await storage.run(_CLOSE, [key], [str(newest)])
    for (version, begin), pieces in slices.items():
        if len(pieces) > 1 and all(_FIELD.decode(name).begin <= newest for name, _, _ in pieces):
            merged = Field(version, "", begin)
            arguments = [msgspec.json.encode(merged), msgspec.msgpack.encode(found[version].slices[begin])]
            await storage.run(
                _MERGE, [key], [*arguments, *(part for name, value, _ in pieces for part in (name, value))]
            )
