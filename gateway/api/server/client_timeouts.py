"""Read a client's time limits from its headers."""

import math
import re

from protos.errors import InvalidRequest

_DURATION = re.compile(rb"(?P<number>\d{1,9}(?:\.\d{1,9})?)(?P<unit>ms|s)?")


def request_timeout(value: bytes | None) -> float | None:
    """Parse `x-request-timeout`, the limit of the whole request: `30`, `1.5s`, `500ms`. Raises InvalidRequest."""
    if value is None:
        return None
    match = _DURATION.fullmatch(value)
    seconds = float(match["number"]) / (1000 if match["unit"] == b"ms" else 1) if match else 0.0
    if not seconds:
        raise InvalidRequest(
            "Invalid value for the header 'x-request-timeout': expected seconds above 0, such as 30, 1.5s or 500ms.",
            param="x-request-timeout",
        )
    return seconds


def read_timeout(value: bytes | None) -> float | None:
    """Parse the seconds that an OpenAI client waits for the first byte (`x-stainless-read-timeout`); None: unknown."""
    if value is None or len(value) > 32:
        return None
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if seconds > 0 and math.isfinite(seconds) else None
