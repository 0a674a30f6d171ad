"""Maps an upstream's error status to an error for the client, and to what becomes of the upstream."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

from observability.redacted_words import name_or_redacted, redacted_words
from protos.errors import (
    BodyTooLarge,
    ContentFiltered,
    ContextLengthExceeded,
    InvalidRequest,
    PenstockError,
    ReplicaFailed,
    ReplicaUnavailable,
    UpstreamRateLimited,
    UpstreamRefuses,
    UpstreamRefusesKey,
)
from routing.transports.openai.refusal_cause import Cause, ErrorWords, cause_of, error_words

#: Length to which an upstream's message is cut for clients.
MAX_MESSAGE: Final = 512
#: Back-off in seconds of an upstream over its limit: the default, the least and the most.
BACK_OFF_SECONDS: Final = 2.0
LEAST_BACK_OFF_SECONDS: Final = 0.25
LONGEST_BACK_OFF_SECONDS: Final = 300.0
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]+")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal. `what` is for the log; `back_off` are seconds for which the upstream asks to get no requests."""

    error: PenstockError
    what: str
    cause: Cause
    back_off: float = 0.0


def refusal(status: int, headers: Mapping[bytes, bytes], body: bytes, renamed: tuple[str, str]) -> Refusal:
    """Interpret an answer that is not 200. `renamed`: the model's name at the upstream, and the one clients know."""
    words = error_words(body)
    cause = cause_of(status, words)
    # The message may quote the prompt, or repeat the key.
    said = ", ".join(filter(None, (name_or_redacted(words.code), redacted_words(words.message or body))))
    what = f"status {status}{f': {said}' if said else ''}"
    if cause in (Cause.CONTENT, Cause.CONTEXT, Cause.SIZE, Cause.REQUEST):
        return Refusal(_client_error(cause, words, renamed), what, cause)
    if cause is Cause.LIMIT:
        seconds = max(LEAST_BACK_OFF_SECONDS, retry_after(headers, BACK_OFF_SECONDS))
        return Refusal(_limited(seconds), what, cause, seconds)
    if cause is Cause.FUNDS:
        return Refusal(_limited(None), f"{what}: its account cannot pay", cause, retry_after(headers, 0.0))
    if cause is Cause.TOO_DEAR:
        return Refusal(_limited(None), f"{what}: its account can pay for smaller requests alone", cause)
    if cause is Cause.KEY:
        refused = UpstreamRefusesKey("The model's provider refuses this gateway.")
        return Refusal(refused, f"status {status}: it refuses our key", cause)
    if cause is Cause.MODEL:
        return Refusal(UpstreamRefuses("The model's upstream does not serve the model."), what, cause)
    if cause is Cause.UNCLEAR:
        return Refusal(UpstreamRefuses("The model's upstream refuses this request."), what, cause)
    if cause is Cause.AWAY:
        seconds = retry_after(headers, 0.0)
        unavailable = ReplicaUnavailable("The model's upstream is not available.", retry_after=seconds or 1.0)
        return Refusal(unavailable, what, cause, seconds)
    if 300 <= status < 400:
        what = f"status {status}, a redirect, which is not followed"
    return Refusal(ReplicaFailed("The model's upstream failed on this request."), what, cause)


def refusal_within(error: bytes, renamed: tuple[str, str]) -> Refusal | None:
    """Interpret an error object that came with a good status; None: it blames nobody, so the upstream has failed.

    OpenRouter and others answer so, also within streams, with the status in the object's `code`.
    """
    body = b'{"error":%b}' % error
    words = error_words(body)
    status = words.status or 400
    cause = cause_of(status, words)
    if cause is Cause.FAULT or (not words.status and cause is Cause.REQUEST):
        return None
    return refusal(status, {}, body, renamed)


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


def _limited(seconds: float | None) -> UpstreamRateLimited:
    return UpstreamRateLimited("The model's provider takes no more requests now.", retry_after=seconds)


def _client_error(cause: Cause, words: ErrorWords, renamed: tuple[str, str]) -> PenstockError:
    theirs, ours = renamed
    message = _CONTROL.sub(" ", words.message).strip()
    if theirs and theirs != ours:
        message = message.replace(theirs, ours)
    if len(message) > MAX_MESSAGE:
        message = message[: MAX_MESSAGE - 1] + "…"
    param = words.param if words.param is not None and len(words.param) <= 64 and words.param.isprintable() else None
    if cause is Cause.SIZE:
        return BodyTooLarge(message or "The request is larger than the model's upstream takes.")
    if cause is Cause.CONTEXT:
        return ContextLengthExceeded(message or "The request is longer than this model's context.", param=param)
    if cause is Cause.CONTENT:
        return ContentFiltered(message or "The model's provider refuses the content of this request.", param=param)
    return InvalidRequest(message or "The model's upstream does not take this request.", param=param)
