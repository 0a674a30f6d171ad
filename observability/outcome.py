"""How requests end: a closed set, which metrics, traces and the journal share."""

import enum
from typing import Final

from protos.errors import PenstockError, Source


class Outcome(enum.Enum):
    """What became of a request. A stream that broke after its status went out counts as what broke it."""

    OK = "ok"
    #: The answer, or the rest of it, was cut off by a filter.
    CUT = "cut"
    #: A filter refused the prompt.
    FILTERED = "filtered"
    #: The request was at fault in another way.
    INVALID = "invalid"
    #: No valid key, or not for this.
    DENIED = "denied"
    #: A limit of the tenant or the key, or a budget.
    LIMITED = "limited"
    #: Shed: more work than is admitted.
    SHED = "shed"
    CLIENT_GONE = "client_gone"
    TIMEOUT = "timeout"
    REPLICA_ERROR = "replica_error"
    STORE_ERROR = "store_error"
    INTERNAL_ERROR = "internal_error"


#: Those that are the service's own failures: what service levels count against it.
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


def outcome_of(error: PenstockError) -> Outcome:
    """What an error makes of a request."""
    known = _BY_CODE.get(error.code or "")
    if known is not None and error.source is not Source.REPLICA:
        return known
    if error.source is Source.REPLICA:
        return Outcome.REPLICA_ERROR
    if error.source is Source.STORE:
        return Outcome.STORE_ERROR
    if error.status in (401, 403):
        return Outcome.DENIED
    if error.status == 429:
        return Outcome.LIMITED
    return Outcome.INVALID if error.source is Source.CLIENT else Outcome.INTERNAL_ERROR
