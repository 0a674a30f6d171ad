"""The seam `Reshapable`: between a host group's member and an engine whose shape can change while requests run."""

from collections.abc import Collection, Sequence
from typing import Protocol

import msgspec

from protos.reshape import MemberWidth


class Share(msgspec.Struct, frozen=True):
    """One replica's share of another's work: requests, by handle, and their KV cache in the engine's own bytes."""

    handles: frozenset[int]
    content: bytes


class AtRest(Protocol):
    """An engine of which no step runs. It takes requests and cancels meanwhile."""

    def deal(self, widths: Sequence[int]) -> list[Share]:
        """Return the shares of replicas of these widths, in their order; nothing changes here.

        Raises ValueError for a request that fits none of them.
        """
        ...

    def become(
        self, width: int, gone: Collection[int] | None, kept: bytes | None = None, taken: Sequence[bytes] = ()
    ) -> None:
        """Go on at this width (0: with nothing), without the requests `gone` (None: any), for which no finish comes.

        Of reusable blocks only those of the share `kept` stay, where it is given; those of the shares `taken` come.
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

    def reset(self, width: int, taken: Sequence[bytes] = ()) -> None:
        """Drop all requests, for which no finish comes, and the KV cache; serve at this width with what is `taken`."""
        ...
