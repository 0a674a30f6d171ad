"""Records of API keys, and requests to create or change one."""

from typing import Annotated, Final, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from gateway.config.base import Record
from gateway.config.tenants import DEFAULT_TENANT, MODEL_PATTERN, Limits

Endpoint = Literal[
    "chat",
    "completions",
    "responses",
    "messages",
    "embeddings",
    "rerank",
    "score",
    "tokenize",
    "models",
    "moderations",
    "feedback",
    "files",
    "batches",
]
#: Paths that a key's scope may name, subpaths included (gateway/tenancy/tenants/caller.py). `responses` includes
#: conversations, and `tokenize` includes `detokenize`.
ENDPOINTS: Final[tuple[Endpoint, ...]] = get_args(Endpoint)
#: The end of the year 9999, the last date that can be written.
_LAST_SECOND: Final = 253_402_300_799

_Name = Annotated[str, Meta(description="What the key is for: 1 to 64 printable characters, unique in its tenant.")]
_Models = Annotated[
    tuple[Annotated[str, Meta(pattern=MODEL_PATTERN)], ...],
    Meta(
        min_length=1,
        max_length=256,
        description="Models it may use, of those that its tenant may; `*` and `?` match any characters.",
    ),
]
_Endpoints = Annotated[tuple[Endpoint, ...], Meta(description="Endpoints it may use; none named: all.")]
_Explain = Annotated[
    bool,
    Meta(description="Whether it may ask why its requests go where they go: names and loads of replicas are shown."),
]
_Limits = Annotated[Limits, Meta(description="Bounds of this key alone; those of its tenant hold as well.")]
_Metadata = Annotated[
    dict[str, str],
    Meta(description="Anything: up to 16 names of 1 to 64 printable characters, with values of up to 512."),
]
_Expiry = Annotated[
    Annotated[float, Meta(gt=0, le=_LAST_SECOND)] | None,
    Meta(description="When it ends, in seconds since 1970 by the store's clock; unset: never."),
]


class ApiKey(Record, frozen=True, kw_only=True):
    """A key's public record; times are seconds since the epoch, by the store's clock."""

    key_id: str = msgspec.field(name="id")
    name: str
    tenant: str = DEFAULT_TENANT
    models: tuple[str, ...] = ("*",)
    endpoints: tuple[Endpoint, ...] = ()
    explain: bool = False
    limits: Limits = Limits()
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    #: The id of the key that this one replaced, and of the first key of that series.
    replaces: str | None = None
    lineage: str | None = None

    @property
    def limit_scope(self) -> str:
        """The scope under which the key's own limits are counted, shared with the keys that replace it."""
        return f"key:{self.lineage or self.key_id}"

    @property
    def revoked(self) -> bool:
        return self.revoked_at is not None

    def expired(self, now: float) -> bool:
        """Whether the key's expiry has passed."""
        return self.expires_at is not None and now >= self.expires_at

    def active(self, now: float) -> bool:
        """Whether the key is neither revoked nor expired."""
        return not self.revoked and not self.expired(now)


class KeyRequest(Record, frozen=True, kw_only=True):
    """A request to create a key."""

    name: _Name
    tenant: Annotated[str, Meta(min_length=1, description="The tenant that it belongs to.")] = DEFAULT_TENANT
    models: _Models = ("*",)
    endpoints: _Endpoints = ()
    explain: _Explain = False
    limits: _Limits = Limits()
    metadata: _Metadata = msgspec.field(default_factory=dict)
    expires_at: _Expiry = None


class KeyChange(Record, frozen=True, kw_only=True):
    """A request to change a key; fields left out stay as they are."""

    name: _Name | UnsetType = UNSET
    models: _Models | UnsetType = UNSET
    endpoints: _Endpoints | UnsetType = UNSET
    explain: _Explain | UnsetType = UNSET
    limits: _Limits | UnsetType = UNSET
    metadata: _Metadata | UnsetType = UNSET
    expires_at: _Expiry | UnsetType = UNSET

    def applied_to(self, key: ApiKey) -> ApiKey:
        """The key with the change applied."""
        asked = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not UNSET}
        return msgspec.structs.replace(key, **asked)
