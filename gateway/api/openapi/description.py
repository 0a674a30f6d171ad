"""The description of a route in the OpenAPI document, beside the route itself."""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gateway.api.server.openai_errors import Error
from protos.errors import (
    AuthenticationFailed,
    BodyTooLarge,
    ContextLengthExceeded,
    DeadlineExceeded,
    EndpointNotAllowed,
    FilterFailed,
    InternalError,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    PenstockError,
    PermissionDenied,
    QuotaExceeded,
    RateLimited,
    ReplicaFailed,
    ReplicaUnavailable,
    RequestTimeout,
    SlowClient,
    StoreUnavailable,
    TenantGone,
    TokenLimitExceeded,
    UnsupportedEncoding,
    UnsupportedParameter,
    UpstreamRateLimited,
)

JSON: Final = "application/json"
FORM: Final = "multipart/form-data"
OCTETS: Final = "application/octet-stream"
EVENTS: Final = "text/event-stream"

Errors = tuple[type[PenstockError], ...]
EVERYWHERE: Final[Errors] = (InternalError,)
#: Errors of routes that need a key.
WITH_KEY: Final[Errors] = (AuthenticationFailed, EndpointNotAllowed, TenantGone, StoreUnavailable, DeadlineExceeded)
#: Errors of routes with a body.
WITH_BODY: Final[Errors] = (InvalidRequest, RequestTimeout, BodyTooLarge, UnsupportedEncoding)
#: Errors of routes that send a request to a model.
WITH_MODEL: Final[Errors] = (
    *(ContextLengthExceeded, TokenLimitExceeded, UnsupportedParameter, ModelNotFound, PermissionDenied),
    *(RateLimited, QuotaExceeded, UpstreamRateLimited, Overloaded, SlowClient),
    *(ReplicaFailed, ReplicaUnavailable, FilterFailed, DeadlineExceeded),
)


@dataclass(frozen=True, slots=True)
class Description:
    """The types and errors of a route. `body`, `answer` and `event` are msgspec types: of the request, of the answer
    with status 200, and of each event's data where the answer may be a stream; the last two may be published shapes. An
    answer whose media type is not JSON has no type.

    `query`: the parameters of the query string, as fields. `errors`: those beside the ones of every such route.
    `public`: without a key. `error`: the form of its errors.
    """

    summary: str
    body: Any = None
    answer: Any = None
    event: Any = None
    query: type[msgspec.Struct] | None = None
    errors: Errors = ()
    tag: str = ""
    media: str = JSON
    answer_media: str = JSON
    public: bool = False
    error: Any = Error
    #: Whether its streams end with `[DONE]`.
    done: bool = False
    #: Further statuses with the same body as 200.
    also: tuple[int, ...] = ()
