"""Read one live snapshot of the gateway: the workers' counts, the fleet, tenants and limits, each from its source."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from gateway.admin.limit_operations import ScopeLimits, limits_of, tenant_scopes
from gateway.admin.live.counters import WorkerCounts, read_counts
from gateway.admin.live.live_snapshot import PoolFacts, SnapshotInputs, busiest, rollouts_live, scaling_live, snapshot
from gateway.admin.live.totals import Growth
from gateway.admin.live.view import Live, RolloutLive, ScalingLive
from gateway.admin.live.window import Window
from gateway.config.settings import Config
from gateway.config.tenants import Tenant
from gateway.fleets.configured import FoundReplica, configured_replicas
from gateway.fleets.listing import ReplicaView, ShapeView, listing
from gateway.fleets.replica_registry import ReplicaRegistry
from gateway.reshaping.reshape_registry import ShapesView
from gateway.rollouts.rollout_registry import ModelVersions
from gateway.scaling.status import ScalingStatus
from gateway.telemetry.metrics_publisher import FOLDER
from gateway.tenancy.limits.usage_reading import ReadingStore
from gateway.tenancy.tenants.tenant_registry import Registry
from protos.errors import PenstockError
from protos.types import Shape

#: Seconds that the store gets to answer all reads of one snapshot.
STORE_SECONDS: Final = 2.0
#: Seconds for which a list of tenants is reused: it may be long.
TENANTS_SECONDS: Final = 10.0

NO_COUNTS: Final = "No worker tells its counts: rates, times, errors and routes are not known."
COUNTS_UNREADABLE: Final = "The workers' counts cannot be read: rates, times, errors and routes are not known."
STORE_AWAY: Final = (
    "The store does not answer: limits, budgets and drains are not known, and replicas are shown as the workers' "
    "metrics have them."
)


class _FromStore(NamedTuple):
    """The parts of one live snapshot that are read from the store."""

    scaling: ScalingLive | None
    rollouts: Sequence[RolloutLive] | None
    shapes: ShapesView | None
    replicas: Sequence[ReplicaView]
    scopes: Mapping[str, list[ScopeLimits]]


class LiveReader:
    """Take a snapshot when called; keep the last seconds' counts for rates, and the list of tenants."""

    def __init__(
        self,
        config: Config,
        registry: Registry,
        store: ReadingStore,
        replicas: ReplicaRegistry,
        *,
        scaling: Callable[[], Awaitable[tuple[float, ScalingStatus | None]]] | None = None,
        rollouts: Callable[[], Awaitable[Sequence[ModelVersions]]] | None = None,
        shapes: Callable[[], Awaitable[ShapesView]] | None = None,
        read: Callable[[], WorkerCounts] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`read` returns the workers' counts; it is called in a thread. `scaling` reads what the controller has told,
        with the store's time, `rollouts` models that go by version, `shapes` those with `reshape`; None: nothing
        scales, no model does.
        """
        self._scaling = scaling
        self._rollouts = rollouts
        self._shapes = shapes
        self._config = config
        self._registry = registry
        self._store = store
        self._replicas = replicas
        self._read = read or (lambda: read_counts(config.state_dir / FOLDER, clock()))
        self._clock = clock
        self._wall = wall
        self._window = Window()
        self._tenants: dict[str, Tenant] = {}
        self._tenants_at = float("-inf")
        self._pools = [
            PoolFacts(model.name, pool.name, _shape(pool.shape.value), pool.role)
            for model in config.models
            for pool in model.pools
        ]

    async def __call__(self) -> Live:
        """Return everything that is known now, and the problems of what is not."""
        problems: list[str] = []
        counts, growth = await self._counts(problems)
        stored = await self._from_store(counts, growth, problems)
        return snapshot(
            SnapshotInputs(
                time=self._wall(),
                totals=counts.totals,
                growth=growth,
                pools=self._pools,
                replicas=self._fleet_without_store(counts) if stored is None else stored.replicas,
                tiers={name: tenant.tier for name, tenant in self._tenants.items()} or None,
                scopes=None if stored is None else stored.scopes,
                errors=counts.errors,
                routes=counts.routes,
                problems=problems,
                scaling=None if stored is None else stored.scaling,
                rollouts=None if stored is None else stored.rollouts,
                shapes=None if stored is None else stored.shapes,
            )
        )

    async def _counts(self, problems: list[str]) -> tuple[WorkerCounts, Growth | None]:
        try:
            counts = await asyncio.to_thread(self._read)
        except (OSError, ValueError):
            problems.append(COUNTS_UNREADABLE)
            return WorkerCounts(), None
        if counts.totals.in_flight is None:
            problems.append(NO_COUNTS)
            return counts, None
        return counts, self._window.add(counts.totals)

    async def _from_store(self, counts: WorkerCounts, growth: Growth | None, problems: list[str]) -> _FromStore | None:
        try:
            async with asyncio.timeout(STORE_SECONDS):
                return _FromStore(
                    scaling=None if self._scaling is None else scaling_live(*await self._scaling()),
                    rollouts=None if self._rollouts is None else rollouts_live(await self._rollouts()),
                    shapes=None if self._shapes is None else await self._shapes(),
                    replicas=await self._replicas.replicas(),
                    scopes=await self._scopes(counts, growth),
                )
        except (PenstockError, TimeoutError):
            problems.append(STORE_AWAY)
            return None

    async def _scopes(self, counts: WorkerCounts, growth: Growth | None) -> dict[str, list[ScopeLimits]]:
        """Return the limits of the tenants that will be shown."""
        if self._clock() - self._tenants_at >= TENANTS_SECONDS:
            self._tenants = {entry.tenant.name: entry.tenant for entry in await self._registry.tenants()}
            self._tenants_at = self._clock()
        shown = [name for name in busiest(counts.totals, growth, self._tenants) if name in self._tenants]
        scopes = [scope for name in sorted(shown) for scope in tenant_scopes(self._tenants[name])]
        found: dict[str, list[ScopeLimits]] = {}
        for scope in await limits_of(self._store, scopes):
            found.setdefault(scope.tenant, []).append(scope)
        return found

    def _fleet_without_store(self, counts: WorkerCounts) -> list[ReplicaView]:
        by_model = counts.replicas
        found = [
            FoundReplica(model, status.pool, status.id, status.address)
            for model, statuses in by_model.items()
            for status in statuses
        ]
        return listing(configured_replicas(self._config, found), [by_model] if by_model else [], [])


def _shape(shape: Shape) -> ShapeView:
    return ShapeView(tp=shape.tp, ep=shape.ep, pp=shape.pp)
