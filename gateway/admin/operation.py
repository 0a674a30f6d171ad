"""One operation of the admin API: everything that its route and its documentation are made from."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec

from gateway.admin.live.feed import Feed
from gateway.config.base import Record
from gateway.fleets.replica_registry import ReplicaRegistry
from gateway.tenancy.limits.usage_reading import ReadingStore
from gateway.tenancy.providers.vault import ProviderVault
from gateway.tenancy.tenants.tenant_registry import Registry
from protos.errors import PenstockError

Q = TypeVar("Q")
B = TypeVar("B")

#: Prometheus' text format.
METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
#: Server-sent events.
EVENTS: Final = "text/event-stream"


class NoQuery(Record, frozen=True, kw_only=True):
    """No query parameters."""


@dataclass(frozen=True, slots=True)
class Service:
    """What operations work on."""

    registry: Registry
    store: ReadingStore
    replicas: ReplicaRegistry
    providers: ProviderVault
    live: Feed
    metrics: Callable[[], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Call(Generic[Q, B]):
    """One request, checked: `path` has the parts of the address that vary, `actor` is for the audit trail."""

    service: Service
    path: Mapping[str, str]
    query: Q
    body: B
    actor: str
    #: The entity tags of which the record must have one before it is changed; None: whatever it is.
    if_match: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """`body` and `answer` are msgspec types, `body` None where there is none; an answer that is `str` is `METRICS`.

    `public`: without the admin key. `conditional`: `if-match` may be given. `tagged`: the answer has an `etag`.
    `secret`: no error shows what the body has. `streamed`: the answer may also be a response of its own, which sends
    several such values as server-sent events.
    """

    method: str
    path: str
    name: str
    summary: str
    handler: Callable[[Call[Any, Any]], Awaitable[Any]]
    answer: Any
    query: type[msgspec.Struct] = NoQuery
    body: Any = None
    status: int = 200
    errors: tuple[type[PenstockError], ...] = ()
    public: bool = False
    conditional: bool = False
    tagged: bool = False
    secret: bool = False
    streamed: bool = False
