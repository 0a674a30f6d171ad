"""DNS answers, independent of the resolver library."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["A", "AAAA", "SRV"]


class LookupFailure(Exception):
    """A lookup without an answer; the message is one line."""


@dataclass(frozen=True, slots=True)
class Target:
    """A record's target: a host's address, or of an SRV record a host name and a port."""

    host: str
    port: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """Targets in a stable order without repetition; None if the name or its records do not exist. `ttl` in seconds."""

    targets: Sequence[Target]
    ttl: float
