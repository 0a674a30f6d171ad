"""Describe one operation of the admin API: the source of its route and its documentation."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec

from gateway.admin.live.feed import Feed
from gateway.config.base import Record
from gateway.fleets.replica_registry import ReplicaRegistry
from gateway.reload.messages import Outcome
from gateway.reshaping.reshape_registry import ReshapeRegistry
from gateway.rollouts.drift.drift_registry import DriftRegistry
from gateway.rollouts.rollout_registry import RolloutRegistry
from gateway.scaling.scaling_registry import ScalingRegistry
from gateway.tenancy.limits.usage_reading import ReadingStore
from gateway.tenancy.providers.vault import ProviderVault
from gateway.tenancy.tenants.tenant_registry import Registry
from protos.errors import PenstockError

Q = TypeVar("Q")
B = TypeVar("B")

#: Media type of Prometheus' text format.
METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
#: Media type of server-sent events.
EVENTS: Final = "text/event-stream"


class NoQuery(Record, frozen=True, kw_only=True):
    """No query parameters."""


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of the admin process that operations act on."""

    registry: Registry
    store: ReadingStore
    replicas: ReplicaRegistry
    providers: ProviderVault
    live: Feed
    metrics: Callable[[], Awaitable[bytes]]
    scaling: ScalingRegistry
    drift: DriftRegistry
    rollouts: RolloutRegistry
    shapes: ReshapeRegistry
    #: Has the supervisor read the configuration again; None in a process that has no supervisor.
    reload: Callable[[], Awaitable[Outcome]] | None = None


@dataclass(frozen=True, slots=True)
class Call(Generic[Q, B]):
    """A validated request: `path` has the variable parts of the address, `actor` is for the audit trail."""

    service: Service
    path: Mapping[str, str]
    query: Q
    body: B
    actor: str
    #: The record must have one of these entity tags to be changed; None: no condition.
    if_match: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. `body` and `answer` are msgspec types, `body` None without one; an answer `str` has the type
    `METRICS`.

    `public`: no admin key is needed. `scraped`: the scrape key suffices. `conditional`: `if-match` is allowed.
    `tagged`: the answer has an `etag`.
    `secret`: no error shows values of the body. `streamed`: the answer may also be a response of its own, which sends
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
    scraped: bool = False
    conditional: bool = False
    tagged: bool = False
    secret: bool = False
    streamed: bool = False
