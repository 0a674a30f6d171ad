"""Acts that a member of a host group returns for its owner to carry out; links between replicas go by numbers."""

from collections.abc import Mapping

import msgspec

from protos.join import Join


class Tell(msgspec.Struct, frozen=True):
    """Say on all sessions how the replica stands."""


class Refuse(msgspec.Struct, frozen=True):
    """Say to whoever sent an order, and to nobody else, why nothing comes of this change."""

    change: int
    failure: str


class Open(msgspec.Struct, frozen=True):
    """Open a link to the replica at an address."""

    link: int
    address: str


class Close(msgspec.Struct, frozen=True):
    """Close a link once all is sent; nothing more is heard of it."""

    link: int


class Send(msgspec.Struct, frozen=True):
    """Send a message."""

    link: int
    message: Join


class Reach(msgspec.Struct, frozen=True):
    """Move what can be moved while steps go on, then let none begin, and call `rested`."""

    width: int


class Give(msgspec.Struct, frozen=True):
    """At rest: deal out what runs to replicas of these widths, and send each link what the replica at its place gets.

    After that comes a message that says that this was all. Call `dealt` then, or `unable` where something fits none
    of them.
    """

    widths: tuple[int, ...]
    links: Mapping[int, int]


class Resume(msgspec.Struct, frozen=True):
    """Go on as before the change, with all that runs."""


class Become(msgspec.Struct, frozen=True):
    """Go on as a replica of this width (0: as none) with what came over the links in `take`.

    Of what runs, all stays, or without `keeps_all` what was dealt to the place `keep` (None: nothing). `End` says what
    becomes of the rest.
    """

    width: int
    keep: int | None = None
    keeps_all: bool = False
    take: tuple[int, ...] = ()


class End(msgspec.Struct, frozen=True):
    """End the requests that were dealt to a place (None: all), as moved to the replica of this epoch."""

    place: int | None
    epoch: int


class Reset(msgspec.Struct, frozen=True):
    """Serve at this width with nothing: what ran, if anything did, has lost its KV cache and goes on elsewhere."""

    width: int


Act = Tell | Refuse | Open | Close | Send | Reach | Give | Resume | Become | End | Reset
