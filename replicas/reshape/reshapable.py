"""The seam `Reshapable`: between a host group's member and an engine whose shape can change while requests run."""

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import msgspec

from protos.reshape import MemberWidth

#: A part of a share as its receiver has read it.
Opened = Any


class Share(msgspec.Struct, frozen=True):
    """One replica's share of another's work: requests, by handle, and their KV cache in parts, as engine's bytes.

    A part has no more than the receiver should open in one go.
    """

    handles: frozenset[int]
    parts: tuple[bytes, ...]


class AtRest(Protocol):
    """An engine of which no step runs. It takes requests and cancels meanwhile."""

    async def deal(self, widths: Sequence[int], keep: int | None) -> list[Share]:
        """Return the shares of replicas of these widths, in their order; nothing changes here.

        The share at the place `keep` is the one that may stay, of which no parts are made. It lets the loop go on
        between pieces, and can be cancelled. Raises ValueError for a request that fits none of them.
        """
        ...

    def become(self, width: int, gone: Collection[int] | None, taken: Sequence[Opened] = ()) -> None:
        """Go on at this width (0: with nothing), without the requests `gone` (None: any), for which no finish comes.

        Where a share was dealt that stays, nothing else of reusable blocks does. What is `taken` comes in pieces, and
        no step begins before all of it is there.
        """
        ...

    def resume(self) -> None:
        """Go on as before."""
        ...


class Reshapable(Protocol):
    """An engine that can become wider, by the GPUs of others, or narrower."""

    @property
    def widths(self) -> tuple[MemberWidth, ...]:
        """The widths that it can have, and what a change to each would cost now; the narrowest first."""
        ...

    def problem_of(self, widths: Sequence[int]) -> str:
        """Describe why what it runs cannot go on at replicas of these widths in its place; empty if it can."""
        ...

    async def reach(self, width: int) -> AtRest:
        """Move what can be moved beside steps for a change to this width, then let no further step begin.

        Cancelled, it goes on as before.
        """
        ...

    def opened(self, part: bytes) -> Opened:
        """Read a part of another engine's share; nothing changes here. Raises ValueError for other bytes."""
        ...

    def reset(self, width: int, taken: Sequence[Opened] = ()) -> None:
        """Drop all requests, for which no finish comes, and the KV cache; serve at this width with what is `taken`."""
        ...
