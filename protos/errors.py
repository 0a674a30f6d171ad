"""The one tree of errors: each failure is translated into it at its source and rendered once per API.

`message` is written for the client: no internal text, address or path goes into it. Codes, types and status follow
the OpenAI API reference (error codes) so that its clients raise the class their users expect.
"""

import enum
from typing import ClassVar, Final


class Source(enum.Enum):
    """Who caused an error."""

    CLIENT = "client"
    GATEWAY = "gateway"
    REPLICA = "replica"
    STORE = "store"


class PenstockError(Exception):
    """Root of the tree: an HTTP status, an API error object and whether the client should retry by itself."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    code: str | None = "internal_error"
    source: ClassVar[Source] = Source.GATEWAY
    retryable: bool = False

    def __init__(self, message: str, *, param: str | None = None, retry_after: float | None = None) -> None:
        """`param` names the request's parameter at fault, `retry_after` is in seconds."""
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after = retry_after
        #: Details for the log that only operators may see.
        self.detail = ""


class InternalError(PenstockError):
    """A defect of ours."""


class ClientError(PenstockError):
    """The request is at fault; sending it again unchanged fails again."""

    status = 400
    type = "invalid_request_error"
    code: str | None = None
    source = Source.CLIENT


class InvalidRequest(ClientError):
    """The body does not conform to the API: syntax, type, range or an unknown field."""


class UnsupportedParameter(ClientError):
    """The API has this parameter, but this deployment cannot honour it."""

    code = "unsupported_parameter"


class ContentFiltered(ClientError):
    """A filter, or the model's provider, has refused the prompt."""

    code = "content_filter"


class TokenLimitExceeded(ClientError):
    """The request has more tokens than its tenant or key may use at once."""

    code = "token_limit_exceeded"


class ContextLengthExceeded(ClientError):
    """Prompt and requested output do not fit in the model's context."""

    code = "context_length_exceeded"


class AuthenticationFailed(ClientError):
    """There is no key, or it is unknown."""

    status = 401
    code = "invalid_api_key"


class KeyExpired(AuthenticationFailed):
    """The key has expired."""


class PermissionDenied(ClientError):
    """The key is valid but may not do this."""

    status = 403
    code = "model_not_allowed"


class EndpointNotAllowed(PermissionDenied):
    """The key is valid but its scope excludes this endpoint."""

    code = "endpoint_not_allowed"


class ExplainNotAllowed(PermissionDenied):
    """The key is valid but may not see why its requests are routed as they are."""

    code = "explain_not_allowed"


class VersionNotAllowed(PermissionDenied):
    """The key is valid but may not choose the version of a model that answers."""

    code = "version_not_allowed"


class TenantGone(PermissionDenied):
    """The key is valid but its tenant no longer exists."""

    code = "tenant_gone"


class ModelNotFound(ClientError):
    """There is no such model."""

    status = 404
    code = "model_not_found"


class TenantNotFound(ClientError):
    """There is no such tenant."""

    status = 404
    code = "tenant_not_found"


class KeyNotFound(ClientError):
    """There is no such API key."""

    status = 404
    code = "key_not_found"


class ProviderKeyNotFound(ClientError):
    """There is no such provider key."""

    status = 404
    code = "provider_key_not_found"


class ReplicaNotFound(ClientError):
    """The configuration has no such replica, pool or model."""

    status = 404
    code = "replica_not_found"


class FileMissing(ClientError):
    """The tenant has no such file."""

    status = 404
    code = "file_not_found"


class BatchMissing(ClientError):
    """The tenant has no such batch."""

    status = 404
    code = "batch_not_found"


class RolloutNotFound(ClientError):
    """The model has no rollout that is under way, or no versions to roll out."""

    status = 404
    code = "rollout_not_found"


class GroupNotFound(ClientError):
    """There is no such host group, or no model with any."""

    status = 404
    code = "group_not_found"


class AnswerNotFound(ClientError):
    """The tenant has no such answer, or none that anything can be told of."""

    status = 404
    code = "answer_not_found"


class ResponseNotFound(ClientError):
    """The tenant has no such response."""

    status = 404
    code = "response_not_found"


class PreviousResponseNotFound(ClientError):
    """The response that a request continues does not exist, or no longer."""

    code = "previous_response_not_found"


class ConversationNotFound(ClientError):
    """The tenant has no such conversation."""

    status = 404
    code = "conversation_not_found"


class ItemNotFound(ClientError):
    """The response or conversation has no such item."""

    status = 404
    code = "item_not_found"


class RouteNotFound(ClientError):
    """There is no such path."""

    status = 404
    code = "unknown_url"


class MethodNotAllowed(ClientError):
    """The path exists, the method does not."""

    status = 405
    code = "method_not_allowed"


class RequestTimeout(ClientError):
    """The client did not send its request in time."""

    status = 408
    code = "request_timeout"


class Conflict(ClientError):
    """The change contradicts what exists: a taken name, or a record that others own or have changed meanwhile."""

    status = 409
    code = "conflict"


class PreconditionFailed(ClientError):
    """The record is no longer the one that the change was meant for."""

    status = 412
    code = "precondition_failed"


class BodyTooLarge(ClientError):
    """The body exceeds the configured limit."""

    status = 413
    code = "request_too_large"


class UnsupportedEncoding(ClientError):
    """The body has an encoding that is not supported."""

    status = 415
    code = "unsupported_content_encoding"


class ClientGone(ClientError):
    """The client closed its connection; nobody reads this error."""

    status = 499
    code = "client_closed_request"


class SlowClient(ClientError):
    """The client read its stream too slowly for the bounded mailbox in front of it."""

    status = 408
    code = "slow_client"


class RateLimited(PenstockError):
    """A limit per minute, or on concurrent requests, refuses; `code` names it."""

    status = 429
    type = "rate_limit_exceeded"
    code = "rate_limit_exceeded"
    source = Source.CLIENT

    def __init__(
        self, message: str, *, param: str | None = None, retry_after: float | None = None, code: str = code
    ) -> None:
        """`retry_after` None: waiting does not help, the request is larger than the limit."""
        super().__init__(message, param=param, retry_after=retry_after)
        self.code = code
        self.retryable = retry_after is not None


class QuotaExceeded(PenstockError):
    """A budget is spent. Clients must not retry by themselves: the period may have weeks to go."""

    status = 429
    type = "insufficient_quota"
    code = "insufficient_quota"
    source = Source.CLIENT


class Overloaded(PenstockError):
    """There is more work than is admitted; the code is the API's `server_is_overloaded`."""

    status = 503
    code = "server_is_overloaded"
    retryable = True


class FilterFailed(PenstockError):
    """A filter that must not be skipped came to no verdict."""

    status = 503
    code = "filter_failed"
    retryable = True
    #: The filter's configured name.
    filter: str = ""

    @classmethod
    def of(cls, name: str, error: BaseException | str) -> "FilterFailed":
        """Make the error of a filter. The log gets only the class of `error`, whose text may quote the filtered
        text.
        """
        failed = cls("A content filter did not come to a verdict. Try again shortly.", retry_after=1.0)
        failed.filter = name
        failed.detail = f"filter {name}: {error if isinstance(error, str) else type(error).__name__}"
        return failed


class StoreUnavailable(PenstockError):
    """The store that holds keys and limits did not answer."""

    status = 503
    code = "store_unavailable"
    source = Source.STORE
    retryable = True

    def __init__(
        self,
        message: str = "The gateway's store did not answer. Try again shortly.",
        *,
        param: str | None = None,
        retry_after: float | None = 1.0,
    ) -> None:
        """The store is retried all the time, so by default a second is long enough to wait."""
        super().__init__(message, param=param, retry_after=retry_after)


class StorageFull(PenstockError):
    """There is no space for files. A retry does not help."""

    status = 507
    code = "storage_full"


class ContentUnavailable(PenstockError):
    """The content of a file cannot be read or written now."""

    status = 503
    code = "content_unavailable"
    retryable = True


class ReplicaUnavailable(PenstockError):
    """No replica can take the request now, or the one that had it is gone."""

    status = 503
    code = "replica_unavailable"
    source = Source.REPLICA
    retryable = True

    def __init__(self, message: str, *, param: str | None = None, retry_after: float | None = 1.0) -> None:
        """Replicas are retried all the time, so by default a second is long enough to wait."""
        super().__init__(message, param=param, retry_after=retry_after)


class ReplicaDraining(ReplicaUnavailable):
    """The replica takes no more requests, or gives up those that it has: it is being taken out of service."""


class SequenceMoved(ReplicaDraining):
    """The replica has handed the request, with its KV cache, to another one of its host group."""

    #: The epoch of that replica; 0: not known.
    moved_to = 0


class AnswerLost(ReplicaUnavailable):
    """The replica of an answer is gone, which has begun and cannot go on elsewhere."""

    code = "answer_lost"


class UpstreamRateLimited(ReplicaUnavailable):
    """An upstream's own rate limit refuses, and it asked to be left alone for a while."""

    status = 429
    type = "rate_limit_exceeded"
    code = "upstream_rate_limited"


class ReplicaFailed(PenstockError):
    """A replica's engine reported an error. Another replica was tried already, so the client need not retry."""

    status = 502
    code = "replica_failed"
    source = Source.REPLICA


class UpstreamRefuses(ReplicaFailed):
    """An upstream refuses a request, and does not say whether for the request or for the gateway's key."""

    code = "upstream_refuses"


class UpstreamRefusesKey(UpstreamRefuses):
    """An upstream rejects the gateway's key: an operator must fix it."""

    code = "upstream_refuses_key"


class DeadlineExceeded(PenstockError):
    """The request exceeded its time limit."""

    status = 504
    code = "timeout"


#: The engines' name of a request's guide, which may come from any of several parameters: the gateway knows which.
GUIDE_PARAM: Final = "guide"
