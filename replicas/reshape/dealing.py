"""Which of the new replicas goes on with which sequences."""

from collections.abc import Sequence as Items
from typing import TypeVar

from replicas.sequence import Carried, Sequence

S = TypeVar("S", bound=Sequence)


def dealt(carried: Items[Carried[S]], rooms: Items[int]) -> list[list[Carried[S]]]:
    """Deal sequences to replicas with KV caches of `rooms` tokens, in order, each where most room is left.

    The largest are dealt first, so that they find room whole; each part keeps the order in which sequences are served.
    Raises ValueError for one that none could ever hold.
    """
    left = list(rooms)
    place: dict[int, int] = {}
    for one in sorted(carried, key=_most, reverse=True):
        able = [at for at, room in enumerate(rooms) if room >= _longest(one)]
        if not able:
            raise ValueError(f"no replica holds a sequence of {_longest(one)} tokens")
        at = max(able, key=left.__getitem__)
        left[at] -= _most(one)
        place[id(one)] = at
    return [[one for one in carried if place[id(one)] == at] for at in range(len(rooms))]


def _longest(one: Carried[S]) -> int:
    return max(s.prompt + s.limit for s in (one.sequence, *one.siblings))


def _most(one: Carried[S]) -> int:
    return sum(s.prompt + s.limit for s in (one.sequence, *one.siblings))
