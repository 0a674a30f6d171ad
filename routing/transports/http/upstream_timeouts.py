"""Timeouts of an upstream."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds until connected (TLS included), until the first byte of an answer's body, and between its parts."""

    connect: float = 5.0
    first_byte: float = 600.0
    between_bytes: float = 120.0
