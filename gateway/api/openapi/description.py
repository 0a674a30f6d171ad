"""What the document says of a route beside what the route itself says."""

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
#: Of what takes a key.
WITH_KEY: Final[Errors] = (AuthenticationFailed, EndpointNotAllowed, TenantGone, StoreUnavailable, DeadlineExceeded)
#: Of what takes a body.
WITH_BODY: Final[Errors] = (InvalidRequest, RequestTimeout, BodyTooLarge, UnsupportedEncoding)
#: Of what asks a model.
ASKING: Final[Errors] = (
    *(ContextLengthExceeded, TokenLimitExceeded, UnsupportedParameter, ModelNotFound, PermissionDenied),
    *(RateLimited, QuotaExceeded, UpstreamRateLimited, Overloaded, SlowClient),
    *(ReplicaFailed, ReplicaUnavailable, FilterFailed, DeadlineExceeded),
)


@dataclass(frozen=True, slots=True)
class Description:
    """`body`, `answer` and `event` are msgspec types: of the request, of the answer with status 200, and of the data of
    each event where the answer may also be a stream; of the last two, a published shape too. An answer whose media
    type is not JSON has no type.

    `query`: the parameters of the query string, as fields. `errors` are those beside what every such route has.
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
