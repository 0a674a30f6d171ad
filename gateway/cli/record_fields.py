"""Command-line flags for the fields of tenants and keys, converted to plain values from which records are read.

A flag that is not given changes nothing; `none` removes a value. The record checks whether a value fits.
"""

import argparse
import re
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from gateway.config.errors import echo
from gateway.config.tenants import Limits
from protos.errors import InvalidRequest

NONE: Final = "none"

_LIMITS: Final = {
    "rpm": "requests per minute",
    "tpm": "tokens per minute, input and output together",
    "input_tpm": "input tokens per minute",
    "output_tpm": "output tokens per minute",
    "concurrency": "requests under way at one time",
    "max_input_tokens": "longest prompt of a request",
    "max_output_tokens": "most output tokens of a request",
    "default_output_tokens": "output tokens of an answer when the request names no limit",
}
_DURATION: Final = re.compile(r"(?P<count>[0-9]{1,9})(?P<unit>[smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def add_limit_flags(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each limit."""
    group = parser.add_argument_group("limits", "a number, or none for no such limit")
    for name, meaning in _LIMITS.items():
        group.add_argument(f"--{name.replace('_', '-')}", metavar="N", help=meaning)
    group.add_argument("--budget", metavar="USD/PERIOD", help="money per calendar day or month, as in 50/day")
    group.add_argument("--budget-alerts", metavar="PERCENTS", help="what is announced when it is spent, as in 75,90")


def limits_from(arguments: argparse.Namespace, current: Limits) -> dict[str, Any] | None:
    """Apply the flags to the limits, as plain values; None where no flag is given."""
    given = {name: number(text) for name in _LIMITS if (text := getattr(arguments, name)) is not None}
    plain: dict[str, Any] = {**msgspec.to_builtins(current), **given}
    if arguments.budget is not None:
        given["budget"] = plain["budget"] = _budget(arguments.budget, plain["budget"])
    if arguments.budget_alerts is not None:
        alerts = [number(part) for part in names(arguments.budget_alerts)]
        given["budget"] = plain["budget"] = {**(plain["budget"] or {}), "alerts": alerts}
    return plain if given else None


def _budget(text: str, current: dict[str, Any] | None) -> dict[str, Any] | None:
    if text == NONE:
        return None
    usd, slash, period = text.partition("/")
    return {**(current or {}), "usd": number(usd), **({"period": period} if slash else {})}


def number(text: str) -> object:
    """Parse a number; None for `none`, or the text itself where it is neither."""
    if text == NONE:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def names(text: str) -> list[str]:
    """Split a text at its commas; empty for `none`."""
    return [] if text == NONE else [part.strip() for part in text.split(",")]


def metadata_from(pairs: list[str], current: dict[str, str]) -> dict[str, str]:
    """Add the pairs of `--metadata NAME=VALUE` to the metadata; `none` removes all that was there before it.

    Raises:
        InvalidRequest: A pair has no `=`.
    """
    metadata = dict(current)
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if pair == NONE:
            metadata.clear()
        elif not separator:
            raise InvalidRequest(f"metadata: expected NAME=VALUE, got {echo(pair)}", param="metadata")
        else:
            metadata[name] = value
    return metadata


def duration(text: str, field: str) -> float:
    """Return the seconds of a duration such as 30d, 12h, 45m or 0s.

    Raises:
        InvalidRequest: The text is no duration; the message names the field.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise InvalidRequest(f"{field}: expected a duration such as 24h, 30d or 0s, got {echo(text)}", param=field)
    return float(int(match["count"]) * _SECONDS[match["unit"]])


def expiry(text: str, now: float) -> float | None:
    """Return seconds since 1970 for a duration from now, a date or a time (UTC by default); None for `never`.

    Raises:
        InvalidRequest: The text is none of these.
    """
    if text in (NONE, "never"):
        return None
    if match := _DURATION.fullmatch(text):
        return now + int(match["count"]) * _SECONDS[match["unit"]]
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(
            f"expires_at: expected 30d, 12h, a date such as 2030-01-31 or never, got {echo(text)}", param="expires_at"
        ) from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
