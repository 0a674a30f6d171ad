"""The counts of slices in the store, which all workers add to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, cast

import msgspec

from gateway.rollouts.drift.subject import DAY_SECONDS, SUBJECTS, Subject
from gateway.store.lua_script import Script
from gateway.store.unreadable import readable
from gateway.tenancy.tenants.transactions import Storage

#: Seconds for which the slices of a reference are kept without a worker that renews that, and other slices: those of
#: the widest window, and the time until they are looked at.
KEPT_SECONDS: Final = 60 * DAY_SECONDS
ROLLING_SECONDS: Final = 1 * DAY_SECONDS

_COUNT: Final = Script.load("gateway.rollouts.drift", "lua/count.lua")
_KEEP: Final = Script.load("gateway.rollouts.drift", "lua/keep.lua")
_BEGIN: Final = Script("redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) return 1")
_FORGET: Final = Script("redis.call('HDEL', KEYS[1], ARGV[1]) return 1")
_DECODER: Final = msgspec.json.Decoder(Subject)

#: By feature: counts by bin.
Counts = dict[str, dict[str, int]]


class SliceStorage(Storage, Protocol):
    """The store operations for slices; all raise StoreUnavailable."""

    async def hgetall_many(self, keys: Sequence[str]) -> list[dict[bytes, bytes]]: ...


async def add_counts(
    storage: Storage, subject: Subject, number: int, counts: Mapping[tuple[str, str], int]
) -> tuple[float, int]:
    """Add counts by feature and bin to a slice; returns the store's time, and the slice that the subject began with.

    Raises:
        StoreUnavailable: The store did not answer; the counts may have been added.
    """
    arguments = [subject.name, str(number), str(subject.layout.slices), str(KEPT_SECONDS), str(ROLLING_SECONDS)]
    for (feature, bin_), count in counts.items():
        arguments += [f"{feature}:{bin_}", str(count)]
    reply = cast("list[bytes]", await storage.run(_COUNT, [SUBJECTS, subject.slice_key(number)], arguments))
    return float(reply[0]), int(reply[1])


async def keep_reference(storage: Storage, subject: Subject, since: int) -> None:
    """Have the slices of a reference kept for their whole time again.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    keys = [subject.slice_key(number) for number in reference_slices(subject, since)]
    await storage.run(_KEEP, keys, [str(KEPT_SECONDS)])


async def begin_reference(storage: Storage, subject: Subject, number: int) -> None:
    """Have a subject's reference begin after the slice of this number.

    Raises:
        StoreUnavailable: The store did not answer; it may have been done.
    """
    await storage.run(_BEGIN, [SUBJECTS], [subject.name, str(number)])


async def forget(storage: Storage, subject: Subject) -> None:
    """Forget a subject; where it is counted again, its reference begins anew.

    Raises:
        StoreUnavailable: The store did not answer; it may have been done.
    """
    await storage.run(_FORGET, [SUBJECTS], [subject.name])


async def subjects(storage: Storage) -> dict[Subject, int]:
    """The subjects that were ever counted, with the slice that each began with.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    found = await storage.hgetall(SUBJECTS)
    return {subject: int(found[name]) for name in found for subject in readable([name], _DECODER.decode)}


async def slices(storage: SliceStorage, subject: Subject, numbers: Iterable[int]) -> dict[int, Counts]:
    """The slices of these numbers that have counts.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    wanted = list(numbers)
    rows = await storage.hgetall_many([subject.slice_key(number) for number in wanted])
    return {number: _counts(row) for number, row in zip(wanted, rows, strict=True) if row}


def reference_slices(subject: Subject, since: int) -> range:
    """The numbers of a reference's slices; the first slice is left out, since it was counted in part."""
    return range(since + 1, since + 1 + subject.layout.slices)


def _counts(row: Mapping[bytes, bytes]) -> Counts:
    found: Counts = {}
    for name, count in row.items():
        feature, _, bin_ = name.decode().partition(":")
        found.setdefault(feature, {})[bin_] = int(count)
    return found
