"""Fold ended requests into counters and histograms, by batches and with a bounded number of series."""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final

from observability.metrics import declarations as declared
from observability.metrics.metric import OTHER
from observability.metrics.names import FirstNames, KnownNames, ModelNames
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
#: Not among the last failures: an answer, or another try.
_FINE: Final = (Outcome.OK, Outcome.CUT, Outcome.DEFERRED)

_TENANT: Final = attrgetter("tenant")
_MODEL: Final = attrgetter("model")
_POOL: Final = attrgetter("pool")
_TIER: Final = attrgetter("tier")
_REPLICA: Final = attrgetter("replica")
_ADMITTED: Final = attrgetter("admitted")
_VERDICTS: Final = attrgetter("verdicts")
_ENDING: Final = attrgetter("endpoint", "model", "tenant", "outcome")


class MetricsSink:
    """A worker's `observability.sink.Sink` for metrics. Nothing here waits or touches a disk."""

    def __init__(self, pools: Mapping[str, Collection[str]], tiers: Collection[str], tenants: TenantNames) -> None:
        """`pools` are the configured ones, by model."""
        self.tenants = tenants
        self._models = ModelNames(pools)
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

    def know(self, pools: Mapping[str, Collection[str]]) -> None:
        """Let requests of these models and pools, too, count under their names."""
        self._models.add(pools)
        for model, names in pools.items():
            self._pool_names.setdefault(model, KnownNames(())).add(names)

    def take(self, records: Sequence[RequestRecord]) -> None:
        """Fold a batch of records."""
        tenants = self.tenants.labels(list(map(_TENANT, records)))
        self._count(records, tenants)
        for model, of_model in _grouped(records, _MODEL, self._models):
            self._fold(model, of_model, tenants)
        self._routed.extend(filter(_REPLICA, records[-ROUTED_KEPT:]))

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

    def _count(self, records: Sequence[RequestRecord], tenants: Mapping[str, str]) -> None:
        """Count the endings of requests, and their filters' verdicts; keep those that failed."""
        failed = False
        for (endpoint, model, tenant, outcome), count in Counter(map(_ENDING, records)).items():
            failed = failed or outcome not in _FINE
            key = (self._endpoints[endpoint], self._models[model], tenants[tenant], outcome.value)
            self._requests[key] = self._requests.get(key, 0) + count
        if failed:
            for record in records:
                if record.outcome not in _FINE:
                    (self._failures if record.outcome in FAILED else self._mistakes).append(record)
        for rule, action, where, _, times in chain.from_iterable(map(_VERDICTS, records)):
            labels = (self._rules[rule], action, where)
            self._verdicts[labels] = self._verdicts.get(labels, 0) + times

    def _fold(self, model: str, records: Sequence[RequestRecord], tenants: Mapping[str, str]) -> None:
        """Add a model's requests to its series."""
        pools = self._pool_names.get(model)
        if pools is None:
            # The requests named no configured model.
            return
        for pool, of_pool in _grouped(records, _POOL, pools):
            pair = (model, pool)
            pool_series = self._by_pool.get(pair)
            if pool_series is None:
                pool_series = self._by_pool[pair] = PoolSeries()
            pool_series.fold(of_pool)
        for tier, of_tier in _grouped(list(filter(_ADMITTED, records)), _TIER, self._tiers):
            queue = self._queues.get((model, tier))
            if queue is None:
                queue = self._queues[model, tier] = empty(declared.QUEUE_SECONDS)
            queue.add_all([record.admitted - record.reserved for record in of_tier], declared.QUEUE_SECONDS.bounds)
        model_series = self._by_model.get(model)
        if model_series is None:
            model_series = self._by_model[model] = ModelSeries()
        model_series.fold(records)
        for tenant, of_tenant in _grouped(records, _TENANT, tenants):
            self._of_tenant(model, tenant).fold(of_tenant)

    def _of_tenant(self, model: str, tenant: str) -> TenantSeries:
        pair = (model, tenant)
        series = self._by_tenant.get(pair)
        if series is None:
            series = self._by_tenant[pair] = TenantSeries()
        return series


def _grouped(
    records: Sequence[RequestRecord], name_of: Callable[[RequestRecord], str], labels: Mapping[str, str]
) -> Iterable[tuple[str, Sequence[RequestRecord]]]:
    """Group records, in their order, by the label of a name: most batches have one or few."""
    found = dict.fromkeys(map(labels.__getitem__, map(name_of, records)))
    if len(found) == 1:
        return ((found.popitem()[0], records),)
    groups: dict[str, list[RequestRecord]] = {label: [] for label in found}
    for record in records:
        groups[labels[name_of(record)]].append(record)
    return groups.items()
