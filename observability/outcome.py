"""Classify how requests end: a closed set, which metrics, traces and the journal share."""

import enum
from typing import Final

from protos.errors import PenstockError, Source


class Outcome(enum.Enum):
    """The outcome of a request. A stream that broke after its status was sent counts as what broke it."""

    OK = "ok"
    #: A filter cut off the answer, or the rest of it.
    CUT = "cut"
    #: A filter refused the prompt.
    FILTERED = "filtered"
    #: The request was invalid in another way.
    INVALID = "invalid"
    #: The key is invalid, or may not do this.
    DENIED = "denied"
    #: A limit of the tenant or the key, or a budget, refused.
    LIMITED = "limited"
    #: Shed: more work than is admitted.
    SHED = "shed"
    #: No room for a request in the background, which takes what others leave and is tried again.
    DEFERRED = "deferred"
    CLIENT_GONE = "client_gone"
    TIMEOUT = "timeout"
    REPLICA_ERROR = "replica_error"
    STORE_ERROR = "store_error"
    INTERNAL_ERROR = "internal_error"

    # An enumeration's own hash is that of its name, in Python; members are equal only to themselves.
    __hash__ = object.__hash__


#: The service's own failures, which service levels count.
FAILED: Final = frozenset(
    (Outcome.SHED, Outcome.TIMEOUT, Outcome.REPLICA_ERROR, Outcome.STORE_ERROR, Outcome.INTERNAL_ERROR)
)

_BY_CODE: Final = {
    "content_filter": Outcome.FILTERED,
    "invalid_api_key": Outcome.DENIED,
    "rate_limit_exceeded": Outcome.LIMITED,
    "insufficient_quota": Outcome.LIMITED,
    "server_is_overloaded": Outcome.SHED,
    "client_closed_request": Outcome.CLIENT_GONE,
    "slow_client": Outcome.CLIENT_GONE,
    "timeout": Outcome.TIMEOUT,
}


def outcome_of(error: PenstockError, *, background: bool = False) -> Outcome:
    """Map the error of a request, in the background or not, to its outcome."""
    known = _BY_CODE.get(error.code or "")
    if known is not None and error.source is not Source.REPLICA:
        return Outcome.DEFERRED if background and known is Outcome.SHED else known
    if error.source is Source.REPLICA:
        return Outcome.REPLICA_ERROR
    if error.source is Source.STORE:
        return Outcome.STORE_ERROR
    if error.status in (401, 403):
        return Outcome.DENIED
    if error.status == 429:
        return Outcome.LIMITED
    return Outcome.INVALID if error.source is Source.CLIENT else Outcome.INTERNAL_ERROR
