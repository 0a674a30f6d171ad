"""What a question to DNS is answered with, whoever asks it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["A", "AAAA", "SRV"]


class LookupFailure(Exception):
    """No answer; the message is one line."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a record names: an address of a host, or of SRV a host's name and its port."""

    host: str
    port: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """In a steady order, each target once. None where the name or its records do not exist. `ttl` in seconds."""

    targets: Sequence[Target]
    ttl: float
