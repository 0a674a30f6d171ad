"""Maps an upstream's error status to an error for the client and a back-off time."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

import msgspec

from observability.redacted_words import name_or_redacted, redacted_words
from protos.errors import (
    BodyTooLarge,
    ContextLengthExceeded,
    InvalidRequest,
    PenstockError,
    ReplicaFailed,
    ReplicaUnavailable,
    UpstreamRateLimited,
    UpstreamRefusesKey,
)

#: Length to which an upstream's message is cut for clients.
MAX_MESSAGE: Final = 512
#: Back-off in seconds of an upstream over its limit: the default, the least and the most.
BACK_OFF_SECONDS: Final = 2.0
LEAST_BACK_OFF_SECONDS: Final = 0.25
LONGEST_BACK_OFF_SECONDS: Final = 300.0
#: Default back-off where the account behind the key has no quota left.
NO_QUOTA_SECONDS: Final = 60.0
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]+")
_OVERLOADED: Final = (408, 409, 425, 502, 503, 504, 529)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal. `what` is for the log; `back_off` are seconds for which the upstream gets no requests."""

    error: PenstockError
    what: str
    back_off: float = 0.0


class _Words(msgspec.Struct, frozen=True):
    """The members that are read of an error's body."""

    message: str = ""
    param: str | None = None
    code: str | None = None


def refusal(status: int, headers: Mapping[bytes, bytes], body: bytes, renamed: tuple[str, str]) -> Refusal:
    """Interpret an answer that is not 200. `renamed`: the model's name at the upstream, and the one clients know."""
    words = _words(body)
    # The message may quote the prompt.
    said = ", ".join(filter(None, (name_or_redacted(words.code or ""), redacted_words(words.message or body))))
    what = f"status {status}{f': {said}' if said else ''}"
    if status in (400, 413, 422):
        return Refusal(_client_error(status, words, renamed), what)
    if status == 429:
        default = NO_QUOTA_SECONDS if words.code == "insufficient_quota" else BACK_OFF_SECONDS
        seconds = max(LEAST_BACK_OFF_SECONDS, retry_after(headers, default))
        error = UpstreamRateLimited("The model's provider takes no more requests now.", retry_after=seconds)
        return Refusal(error, what, seconds)
    if status in (401, 403):
        # The message may repeat the key.
        return Refusal(
            UpstreamRefusesKey("The model's provider refuses this gateway."), f"status {status}: it refuses our key"
        )
    if status in _OVERLOADED:
        seconds = retry_after(headers, 0.0)
        unavailable = ReplicaUnavailable("The model's upstream is not available.", retry_after=seconds or 1.0)
        return Refusal(unavailable, what, seconds)
    if 300 <= status < 400:
        what = f"status {status}, a redirect, which is not followed"
    return Refusal(ReplicaFailed("The model's upstream failed on this request."), what)


def retry_after(headers: Mapping[bytes, bytes], default: float) -> float:
    """Return the seconds of `retry-after-ms`, else of `retry-after`, within bounds."""
    for name, unit in ((b"retry-after-ms", 0.001), (b"retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        seconds = _seconds(value.decode("latin-1"), unit)
        if seconds is not None:
            return min(max(seconds, 0.0), LONGEST_BACK_OFF_SECONDS)
    return default


def _seconds(value: str, unit: float) -> float | None:
    try:
        seconds = float(value) * unit
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError, OSError):
            return None
    return seconds if seconds == seconds else None


def _client_error(status: int, words: _Words, renamed: tuple[str, str]) -> PenstockError:
    theirs, ours = renamed
    message = _CONTROL.sub(" ", words.message).strip()
    if theirs and theirs != ours:
        message = message.replace(theirs, ours)
    if len(message) > MAX_MESSAGE:
        message = message[: MAX_MESSAGE - 1] + "…"
    param = words.param if words.param is not None and len(words.param) <= 64 and words.param.isprintable() else None
    if status == 413:
        return BodyTooLarge(message or "The request is larger than the model's upstream takes.")
    if words.code == "context_length_exceeded" or "maximum context length" in message:
        return ContextLengthExceeded(message or "The request is longer than this model's context.", param=param)
    return InvalidRequest(message or "The model's upstream does not take this request.", param=param)


def _words(body: bytes) -> _Words:
    """Parse `{"error": {"message": ...}}`, or the inner object alone, as older engines write it."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return _Words()
    if isinstance(value, dict) and isinstance(value.get("error"), dict | str):
        value = value["error"]
    if isinstance(value, str):
        return _Words(value)
    if not isinstance(value, dict):
        return _Words()
    message = value.get("message") or value.get("detail")
    named = {name: value[name] for name in ("param", "code") if isinstance(value.get(name), str)}
    return _Words(message if isinstance(message, str) else "", **named)
