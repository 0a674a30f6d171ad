"""The caller of a request: a key and its tenant, and what they permit together."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Final

import msgspec

from gateway.config.models.model_patterns import matches
from gateway.config.tenants import Limits, Tenant, Tier
from gateway.tenancy.auth.key_records import ApiKey
from gateway.tenancy.limits.plan import Plan
from protos.errors import EndpointNotAllowed
from routing.estimates.decode_length import Origin

#: Prefix of a group's name where it stands for a tenant's; no tenant's name begins so.
_GROUP: Final = "/"
#: Suffix of the queue name of background requests; no tenant's name contains a slash.
_BACKGROUND: Final = "/background"
#: Before the digest of a client's own salt; neither a tenant's name nor a group's contains it.
_SALTED: Final = "//"
_NO_LIMITS: Final = Limits()
_PATHS: Final = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "embeddings": "/v1/embeddings",
    "rerank": "/v1/rerank",
    "score": "/v1/score",
    "tokenize": "/v1/tokenize",
    "models": "/v1/models",
    "moderations": "/v1/moderations",
    "feedback": "/v1/feedback",
    "files": "/v1/files",
    "batches": "/v1/batches",
}


@dataclass(frozen=True, slots=True)
class TokenBounds:
    """Token bounds of one request; None is unbounded.

    `max_input` bounds the prompt, `max_output` the output over all sequences. `default_output` is of each sequence if
    a request sets no limit; it is never above `max_output`, which several answers of one request share.
    """

    max_input: int | None
    max_output: int | None
    default_output: int | None

    @classmethod
    def strictest(cls, *scopes: Limits) -> "TokenBounds":
        most = _least(limits.max_output_tokens for limits in scopes)
        default = _least(limits.default_output_tokens for limits in scopes)
        bounds = cls(
            max_input=_least(limits.max_input_tokens for limits in scopes),
            max_output=most,
            default_output=default if default is None or most is None else min(default, most),
        )
        return UNBOUNDED if bounds == UNBOUNDED else bounds


UNBOUNDED: Final = TokenBounds(None, None, None)


class Subscription(msgspec.Struct, frozen=True, eq=False):
    """The limits, queue and cache salt that all requests of one caller to one model share.

    `salt` and `adapter` are the model's where it has a LoRA adapter, else the caller's `cache_owner` and nothing. By
    `origin` answer lengths are learned. The rest is what the admission queue knows of the tenant: `queue_name`, its
    tier's `rank`, `weight` and `reserved` part, and how many of its requests may wait, for how many seconds.
    """

    plan: Plan
    bounds: TokenBounds
    salt: str
    origin: Origin
    queue_name: str
    rank: int
    weight: float
    reserved: float
    max_waiting: int
    max_wait_seconds: float
    adapter: str = ""


@dataclass(frozen=True, slots=True)
class Caller:
    """A key with its tenant, made once for each cached key. `rank` is the tier's, 0 for the highest.

    `cache_owner` says whose cached prefixes its requests use and leave: the tenant's, or its group's. No two are equal.
    A caller without any limit, for whichever model, is not `limited`. `queue_name` is the tenant in the fair queue.
    Requests in the `background` stand in the queue under a name of their own, so that the tenant's others do not wait
    behind them.
    """

    key: ApiKey
    tenant: Tenant
    tier: Tier
    rank: int
    background: bool = False
    #: What `gateway/tenancy/limits/plans.py` has worked out for this caller, by the object that did.
    subscriptions: dict[object, Subscription] = field(init=False, repr=False, compare=False, default_factory=dict)
    cache_owner: str = field(init=False, repr=False, compare=False)
    queue_name: str = field(init=False, repr=False, compare=False)
    limited: bool = field(init=False, repr=False, compare=False)
    _usual: TokenBounds = field(init=False, repr=False, compare=False)
    _of_models: dict[str, TokenBounds] = field(init=False, repr=False, compare=False)
    all_models: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        group = self.tenant.cache_group
        object.__setattr__(self, "cache_owner", self.tenant.name if group is None else f"{_GROUP}{group}")
        queue_name = self.tenant.name + _BACKGROUND if self.background else self.tenant.name
        object.__setattr__(self, "queue_name", queue_name)
        both = (self.key.limits, self.tenant.limits)
        of_models = {name: TokenBounds.strictest(*both, limits) for name, limits in self.tenant.model_limits.items()}
        limited = any(limits != _NO_LIMITS for limits in (*both, *self.tenant.model_limits.values()))
        object.__setattr__(self, "limited", limited)
        object.__setattr__(self, "_usual", TokenBounds.strictest(*both))
        object.__setattr__(self, "_of_models", of_models)
        object.__setattr__(self, "all_models", "*" in self.key.models and "*" in self.tenant.models)

    def apart(self, salt: str) -> "Caller":
        """Give this caller with cached prefixes of its own for each salt that a client names."""
        own = replace(self)
        digest = blake2b(salt.encode(), digest_size=16, person=b"cache salt").hexdigest()
        object.__setattr__(own, "cache_owner", f"{self.cache_owner}{_SALTED}{digest}")
        return own

    def allows_model(self, name: str) -> bool:
        """Whether key and tenant both may use a model."""
        return self.all_models or (matches(self.key.models, name) and matches(self.tenant.models, name))

    def allows_endpoint(self, endpoint: str) -> bool:
        """Whether the key may use an endpoint: `chat`, `completions`, `models` or `moderations`."""
        return not self.key.endpoints or endpoint in self.key.endpoints

    def require_endpoint(self, endpoint: str) -> None:
        """Raise EndpointNotAllowed unless the key may use an endpoint."""
        if self.key.endpoints and not self.allows_endpoint(endpoint):
            raise EndpointNotAllowed(f"This API key may not use {_PATHS[endpoint]}.")

    def bounds(self, model: str) -> TokenBounds:
        """The token bounds of one request for a model."""
        return self._of_models.get(model, self._usual)


def is_background(queue_name: str) -> bool:
    """Whether a queue name is of background requests."""
    return queue_name.endswith(_BACKGROUND)


def _least(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)
