"""Build one metrics page from the workers' counts, the store's limits and the other processes' gauges."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.admin.limit_operations import ScopeLimits, limits_of, tenant_scopes
from gateway.admin.metrics.drift_metrics import drift_families
from gateway.admin.metrics.reshape_metrics import reshape_families
from gateway.admin.metrics.rollout_metrics import rollout_families
from gateway.admin.metrics.scaling_metrics import scaling_families
from gateway.admin.operation import Call, NoQuery, Operation
from gateway.config.observability.metrics import MetricsOtlp
from gateway.config.settings import Config
from gateway.reshaping.shape_records import ShapeRecords
from gateway.rollouts.drift.drift_view import DriftView
from gateway.rollouts.rollout_records import Records
from gateway.rollouts.shadow.shadow_sums import ShadowReport
from gateway.scaling.status import ScalingStatus
from gateway.telemetry.batched_reads import BatchedReads
from gateway.telemetry.metrics_publisher import FOLDER
from gateway.telemetry.process_usage import collect_others
from gateway.tenancy.limits.usage_reading import ReadingStore
from gateway.tenancy.tenants.tenant_registry import Registry
from observability.exposition import Family, exposition
from observability.metrics import declarations as declared
from observability.metrics import merge
from observability.metrics.genai import genai_families
from observability.metrics.metric import Metric
from observability.metrics.names import label
from protos.errors import StoreUnavailable

if TYPE_CHECKING:
    from observability.metrics.otlp import MetricsExporter

RolloutReader = Callable[[], Awaitable[tuple[Records, Sequence[ShadowReport]]]]
ScalingReader = Callable[[], Awaitable[tuple[float, ScalingStatus | None]]]
DriftReader = Callable[[], Awaitable[DriftView]]
ShapeReader = Callable[[], Awaitable[ShapeRecords]]

#: The number of series is bounded: keys have none of their own, and only so many tenants are shown by name.
MOST_TENANTS: Final = 1000
#: Seconds to wait for the store; without it all other metrics are shown.
STORE_SECONDS: Final = 2.0
#: Seconds that the exporter's thread waits for this process's event loop.
GATHER_SECONDS: Final = 10.0


class MetricsPage:
    """Collect all declared metrics. Concurrent readers share one collection."""

    def __init__(
        self,
        config: Config,
        registry: Registry,
        store: ReadingStore,
        scaling: ScalingReader | None = None,
        rollouts: RolloutReader | None = None,
        drift: DriftReader | None = None,
        shapes: ShapeReader | None = None,
    ) -> None:
        """`scaling`, `rollouts` and `shapes` read what controllers have told, `drift` how traffic has moved; None:
        there is none of it.
        """
        self._scaling, self._rollouts, self._drift, self._shapes = scaling, rollouts, drift, shapes
        self._folder = config.state_dir / FOLDER
        self._store_lock = config.state_dir / "store" / "lock" if config.store.embedded else None
        self._registry = registry
        self._store = BatchedReads(store)
        self._building: asyncio.Task[bytes] | None = None
        self._exporter: MetricsExporter | None = None

    def use(
        self,
        registry: Registry,
        scaling: ScalingReader | None,
        rollouts: RolloutReader | None,
        drift: DriftReader | None,
        shapes: ShapeReader | None,
    ) -> None:
        """Read the limits of these tenants from now on, and all else through the others."""
        self._registry, self._scaling, self._rollouts, self._drift = registry, scaling, rollouts, drift
        self._shapes = shapes

    def start_export(self, otlp: MetricsOtlp) -> None:
        """Send all families to a collector too, from a thread, until `aclose`."""
        # Workers, and an admin API without a collector, do not load the SDK.
        from observability.metrics.otlp import Gathered, MetricsExporter

        loop = asyncio.get_running_loop()

        def gather() -> Gathered:
            families, started = asyncio.run_coroutine_threadsafe(self.families(), loop).result(GATHER_SECONDS)
            return Gathered(families, started)

        self._exporter = MetricsExporter(gather, otlp.endpoint, otlp.headers, otlp.interval_seconds)
        self._exporter.start()

    async def aclose(self) -> None:
        """End the export. Idempotent."""
        if self._exporter is not None:
            exporter, self._exporter = self._exporter, None
            await asyncio.to_thread(exporter.close)

    async def text(self) -> bytes:
        """Return the page in Prometheus' text format."""
        if self._building is None or self._building.done():
            self._building = asyncio.create_task(self._text())
        # A reader that leaves does not cancel the page of the others.
        return await asyncio.shield(self._building)

    async def families(self) -> tuple[list[Family], float]:
        """Return all families with series, and when the workers began to count, in seconds since 1970."""
        (counted, started), *others = await asyncio.gather(
            asyncio.to_thread(self._counted),
            store_families(self._registry, self._store),
            read_scaling_families(self._scaling),
            read_rollout_families(self._rollouts),
            read_drift_families(self._drift),
            read_shape_families(self._shapes),
        )
        return [*counted, *(family for families in others for family in families)], started

    async def _text(self) -> bytes:
        families, _ = await self.families()
        return await asyncio.to_thread(lambda: exposition(families).encode())

    def _counted(self) -> tuple[list[Family], float]:
        merged = merge.read(self._folder)
        collect_others(merged.numbers, {"supervisor": merged.parent, "store": _pid_in(self._store_lock)})
        if (exporter := self._exporter) is not None:
            merged.numbers.set(declared.TELEMETRY_DROPPED, exporter.failures, "otlp")
        families = merged.families()
        return [*families, *genai_families(families)], merged.started


async def store_families(registry: Registry, store: ReadingStore) -> list[Family]:
    """Read limits and budgets from the store; also return whether it answered."""
    up = _family(declared.STORE_UP)
    try:
        async with asyncio.timeout(STORE_SECONDS):
            entries = [entry.tenant for entry in await registry.tenants()]
            limited = [scopes for tenant in entries if (scopes := list(tenant_scopes(tenant)))]
            shown = [scope for scopes in limited[:MOST_TENANTS] for scope in scopes]
            found = await limits_of(store, shown)
    except (StoreUnavailable, TimeoutError):
        up.add(0)
        return [up]
    up.add(1)
    return [up, *_limits(found, max(0, len(limited) - MOST_TENANTS))]


async def read_scaling_families(read: ScalingReader | None) -> list[Family]:
    """Read what the controller has told; nothing where nothing scales, or the store does not answer."""
    if read is None:
        return []
    try:
        async with asyncio.timeout(STORE_SECONDS):
            now, status = await read()
    except (StoreUnavailable, TimeoutError):
        return []
    return scaling_families(now, status)


async def read_rollout_families(read: RolloutReader | None) -> list[Family]:
    """Read what the controller of rollouts has told; nothing where nothing goes by version, or without the store."""
    if read is None:
        return []
    try:
        async with asyncio.timeout(STORE_SECONDS):
            records, shadows = await read()
    except (StoreUnavailable, TimeoutError):
        return []
    return rollout_families(records, shadows)


async def read_drift_families(read: DriftReader | None) -> list[Family]:
    """Read how models drift; nothing where none is looked at, or the store does not answer."""
    if read is None:
        return []
    try:
        async with asyncio.timeout(STORE_SECONDS):
            return drift_families(await read())
    except (StoreUnavailable, TimeoutError):
        return []


async def read_shape_families(read: ShapeReader | None) -> list[Family]:
    """Read what the controller of shapes has told; nothing where no shape changes, or the store does not answer."""
    if read is None:
        return []
    try:
        async with asyncio.timeout(STORE_SECONDS):
            return reshape_families(await read())
    except (StoreUnavailable, TimeoutError):
        return []


async def get_metrics(call: Call[NoQuery, None]) -> bytes:
    """Return all metrics, as a scrape."""
    return await call.service.metrics()


def _pid_in(path: Path | None) -> int | None:
    """Read the process id from an embedded store's lock file."""
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_bytes()[:16]) if path is not None else None
    return None


def _family(metric: Metric) -> Family:
    return Family(metric.name, metric.kind, metric.help)


def _limits(found: Sequence[ScopeLimits], left_out: int) -> list[Family]:
    limit, used, refused = _family(declared.LIMIT), _family(declared.LIMIT_USED), _family(declared.LIMIT_REFUSALS)
    in_flight, hidden = _family(declared.LIMITED_IN_FLIGHT), _family(declared.TENANTS_LEFT_OUT)
    budget, spent = _family(declared.BUDGET), _family(declared.BUDGET_SPENT)
    reserved, alerts = _family(declared.BUDGET_RESERVED), _family(declared.BUDGET_ALERTS)
    for scope in found:
        of = {"tenant": label(scope.tenant), "scope": label(scope.scope)}
        if scope.in_flight is not None:
            in_flight.add(scope.in_flight, **of)
        for one in scope.limits:
            limit.add(one.limit, **of, limit=one.name)
            used.add(one.used, **of, limit=one.name)
            refused.add(one.refused, **of, limit=one.name)
        if scope.budget is not None:
            money = {**of, "period": "day" if len(scope.budget.period) > len("2026-11") else "month"}
            budget.add(scope.budget.limit_usd, **money)
            spent.add(scope.budget.spent_usd, **money)
            reserved.add(scope.budget.reserved_usd, **money)
            alerts.add(len(scope.budget.alerts_passed), **money)
            refused.add(scope.budget.refused, **of, limit="budget")
    hidden.add(left_out)
    return [limit, used, refused, in_flight, budget, spent, reserved, alerts, hidden]


OPERATIONS: Final = (
    Operation(
        "GET",
        "/metrics",
        "getMetrics",
        "Everything that the gateway counts, in Prometheus' text format",
        get_metrics,
        str,
        scraped=True,
    ),
)
