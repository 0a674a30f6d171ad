"""Fold ended requests into counters and histograms, in a few microseconds each and with a bounded number of series."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from observability.metrics import declarations as declared
from observability.metrics.metric import OTHER
from observability.metrics.names import FirstNames, KnownNames
from observability.metrics.recent import failed_view, routed_view
from observability.metrics.record_fold import ModelSeries, PoolSeries, TenantSeries
from observability.metrics.snapshot import Distribution, Labels, Numbers, empty
from observability.metrics.tenant_series import TenantNames, Wanted
from observability.outcome import FAILED, Outcome
from observability.record import RequestRecord

#: Bounds against surprises: names of rules come from the configuration, and endpoints are few.
MOST_RULES: Final = 1024
MOST_ENDPOINTS: Final = 32
#: Recent requests that are remembered: clients' errors do not push out the service's own failures.
FAILURES_KEPT: Final = 48
MISTAKES_KEPT: Final = 16
ROUTED_KEPT: Final = 32
#: Between the model and the adapter in a requested model's name.
_SEPARATOR: Final = ":"
_FINE: Final = (Outcome.OK, Outcome.CUT)


class MetricsSink:
    """A worker's `observability.sink.Sink` for metrics. Nothing here waits or touches a disk."""

    def __init__(self, pools: Mapping[str, Collection[str]], tiers: Collection[str], tenants: TenantNames) -> None:
        """`pools` are the configured ones, by model."""
        self.tenants = tenants
        self._models = KnownNames(pools)
        self._pool_names = {model: KnownNames(names) for model, names in pools.items()}
        self._tiers = KnownNames(tiers)
        self._endpoints = FirstNames(MOST_ENDPOINTS)
        self._rules = FirstNames(MOST_RULES)
        self._requests: dict[Labels, float] = {}
        self._verdicts: dict[Labels, float] = {}
        self._queues: dict[Labels, Distribution] = {}
        self._by_pool: dict[tuple[str, str], PoolSeries] = {}
        self._by_model: dict[str, ModelSeries] = {}
        self._by_tenant: dict[tuple[str, str], TenantSeries] = {}
        self._failures: deque[RequestRecord] = deque(maxlen=FAILURES_KEPT)
        self._mistakes: deque[RequestRecord] = deque(maxlen=MISTAKES_KEPT)
        self._routed: deque[RequestRecord] = deque(maxlen=ROUTED_KEPT)

    def take(self, records: Sequence[RequestRecord]) -> None:
        """Fold a batch of records."""
        for record in records:
            self._fold(record)
        self._routed.extend([record for record in records[-ROUTED_KEPT:] if record.replica])

    async def aclose(self) -> None:
        """Do nothing: no resource is open."""

    def settle(self, wanted: Wanted, placed: Collection[str]) -> None:
        """Give these tenants series of their own; `wanted` tenants without a place count as `other`."""
        refused = self.tenants.settle(wanted, placed)
        if not refused:
            return
        for key in [key for key in self._requests if key[2] in refused]:
            endpoint, model, _, outcome = key
            to = (endpoint, model, OTHER, outcome)
            self._requests[to] = self._requests.get(to, 0) + self._requests.pop(key)
        for model, tenant in [pair for pair in self._by_tenant if pair[1] in refused]:
            self._of_tenant(model, OTHER).add(self._by_tenant.pop((model, tenant)))

    def collect(self, numbers: Numbers) -> None:
        """Put all numbers in; they are not copied and change with the next batch."""
        pending = self.tenants.pending
        numbers.values[declared.REQUESTS.name] = (
            {key: count for key, count in self._requests.items() if key[2] not in pending}
            if pending
            else self._requests
        )
        numbers.values[declared.FILTER_VERDICTS.name] = self._verdicts
        numbers.distributions[declared.QUEUE_SECONDS.name] = self._queues
        for (model, pool), pool_series in self._by_pool.items():
            pool_series.collect(numbers, model, pool)
        for model, model_series in self._by_model.items():
            model_series.collect(numbers, model)
        for (model, tenant), tenant_series in self._by_tenant.items():
            if tenant not in pending:
                tenant_series.collect(numbers, model, tenant)

    def recent(self) -> list[dict[str, Any]]:
        """Return the last requests that failed and that were routed, in no order."""
        failed = [failed_view(record) for record in (*self._failures, *self._mistakes)]
        return failed + [routed_view(record) for record in self._routed]

    def _fold(self, record: RequestRecord) -> None:
        outcome = record.outcome
        if outcome not in _FINE:
            (self._failures if outcome in FAILED else self._mistakes).append(record)
        model, tenant = self._models[record.model], self.tenants.shown(record.tenant)
        if model == OTHER and (base := record.model.rpartition(_SEPARATOR)[0]):
            model = self._models[base]
        key = (self._endpoints[record.endpoint], model, tenant, outcome.value)
        self._requests[key] = self._requests.get(key, 0) + 1
        for rule, action, where, _, times in record.verdicts:
            labels = (self._rules[rule], action, where)
            self._verdicts[labels] = self._verdicts.get(labels, 0) + times
        pools = self._pool_names.get(model)
        if pools is None:
            # The request named no configured model.
            return
        pair = (model, pools[record.pool])
        pool_series = self._by_pool.get(pair)
        if pool_series is None:
            pool_series = self._by_pool[pair] = PoolSeries()
        pool_series.fold(record)
        if record.admitted:
            of_tier = (model, self._tiers[record.tier])
            queue = self._queues.get(of_tier)
            if queue is None:
                queue = self._queues[of_tier] = empty(declared.QUEUE_SECONDS)
            queue.add(record.admitted - record.reserved, declared.QUEUE_SECONDS.bounds)
        model_series = self._by_model.get(model)
        if model_series is None:
            model_series = self._by_model[model] = ModelSeries()
        model_series.fold(record)
        self._of_tenant(model, tenant).fold(record)

    def _of_tenant(self, model: str, tenant: str) -> TenantSeries:
        pair = (model, tenant)
        series = self._by_tenant.get(pair)
        if series is None:
            series = self._by_tenant[pair] = TenantSeries()
        return series
