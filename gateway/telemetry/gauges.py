"""Gauges of a worker's parts, read once a second, so that requests pay nothing for them."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

from gateway.fleets.listing import UNREPORTED_LOAD
from observability.metrics import declarations as declared
from observability.metrics.names import label
from observability.metrics.snapshot import Distribution, Numbers
from routing.health.replica_status import ReplicaStatus, State

_SERVES: Final = (State.READY, State.RETURNING)
#: Counters of sinks by their metric name without prefix; the first has the sink's name as its label.
_DROPPED: Final = declared.TELEMETRY_DROPPED
_JOURNAL: Final = {
    metric.short: metric
    for metric in (
        declared.JOURNAL_RECORDS,
        declared.JOURNAL_BYTES,
        declared.JOURNAL_FAILURES,
        declared.JOURNAL_UNWRITTEN,
    )
}


class Fleet(Protocol):
    """A model's replicas, as far as gauges read them."""

    def statuses(self) -> Sequence[ReplicaStatus]:
        """Return the status of every replica; the same object only where none has changed."""
        ...


class AdmissionQueue(Protocol):
    """A model's admission queue, as far as gauges read it."""

    @property
    def admissions(self) -> Mapping[tuple[int, str], int]:
        """Admissions by tier's rank and by kind."""
        ...

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        ...


class Versions(Protocol):
    """A model's versions, as far as gauges read them."""

    @property
    def missed(self) -> int:
        """Requests that the stable version answered in place of a candidate."""
        ...


class Model(Protocol):
    """A served model, as far as gauges read it."""

    @property
    def fleet(self) -> Fleet:
        """The model's replicas."""
        ...

    @property
    def admission_queue(self) -> AdmissionQueue:
        """The model's queue."""
        ...

    @property
    def versions(self) -> Versions | None:
        """The model's versions; None where requests do not go by version."""
        ...


class Record(Protocol):
    """A request's record, as far as gauges read it."""

    @property
    def model(self) -> str:
        """The model's name; empty where it is not known."""
        ...


class Request(Protocol):
    """A running request, as far as gauges read it."""

    @property
    def record(self) -> Record:
        """Its record."""
        ...


class LimitsBatcher(Protocol):
    """The limits batcher, as far as gauges read it."""

    @property
    def seconds(self) -> Distribution:
        """The times of round trips."""
        ...

    @property
    def errors(self) -> int:
        """The number of failed round trips."""
        ...


class Limiter(Protocol):
    """The limiter, as far as gauges read it."""

    @property
    def reservations(self) -> Mapping[str, int]:
        """The number of reservations by their end."""
        ...


class Counting(Protocol):
    """A sink with counters."""

    def counts(self) -> Mapping[str, float]:
        """Return the counts by the metric's name without its prefix."""
        ...


class Gauges:
    """The gauges of one worker; it only reads what it is given."""

    def __init__(
        self,
        models: Mapping[str, Model],
        tiers: Sequence[str],
        in_flight: Collection[Request],
        limits_batcher: LimitsBatcher,
        limiter: Limiter,
    ) -> None:
        """`models` are by configured name, `tiers` names by rank; `in_flight` are the running requests."""
        self._tiers = tiers
        self._in_flight = in_flight
        self._limits_batcher = limits_batcher
        self._limiter = limiter
        self.use(models)
        #: Sinks by the label of their losses.
        self.sinks: dict[str, Counting] = {}

    def use(self, models: Mapping[str, Model]) -> None:
        """Read these models from now on."""
        self._models = models
        self._labels = {name: label(name) for name in models}
        #: The statuses that were last seen of each model, what was made of them, and that of all models.
        self._seen: dict[str, Sequence[ReplicaStatus]] = {}
        self._of_model: dict[str, Numbers] = {}
        self._of_replicas = Numbers()

    def collect(self, numbers: Numbers) -> None:
        """Add all gauges to the numbers."""
        numbers.set(declared.IN_FLIGHT, len(self._in_flight))
        in_flight = Counter([exchange.record.model for exchange in self._in_flight])
        for name, model in self._models.items():
            shown = self._labels[name]
            numbers.set(declared.MODEL_IN_FLIGHT, in_flight[name], shown)
            numbers.set(declared.QUEUE_DEPTH, model.admission_queue.waiting, shown)
            if model.versions is not None:
                numbers.set(declared.VERSION_MISSED, model.versions.missed, shown)
            for (rank, result), count in model.admission_queue.admissions.items():
                numbers.set(declared.ADMISSIONS, count, shown, label(self._tiers[rank]), result)
            self._note_replicas(name, model.fleet.statuses())
        # They are not copied, and change with the next collection.
        numbers.values |= {name: series for name, series in self._of_replicas.values.items() if series}
        numbers.put(declared.STORE_SECONDS, self._limits_batcher.seconds)
        numbers.set(declared.STORE_ERRORS, self._limits_batcher.errors)
        for result, count in self._limiter.reservations.items():
            numbers.set(declared.RESERVATIONS, count, result)
        for sink, counting in self.sinks.items():
            for short, counted in counting.counts().items():
                if short == _DROPPED.short:
                    numbers.set(_DROPPED, counted, sink)
                elif short in _JOURNAL:
                    numbers.set(_JOURNAL[short], counted)

    def _note_replicas(self, model: str, statuses: Sequence[ReplicaStatus]) -> None:
        """Renew the series of a model's replicas, if they have changed."""
        if statuses is self._seen.get(model):
            return
        self._seen[model] = statuses
        before, after = self._of_model.get(model, Numbers()), Numbers()
        for status in statuses:
            _collect_replica(after, status, self._labels[model])
        self._of_model[model] = after
        of_all = self._of_replicas.values
        for name, series in before.values.items():
            for labels in series.keys() - after.values.get(name, {}).keys():
                of_all[name].pop(labels, None)
        for name, series in after.values.items():
            of_all.setdefault(name, {}).update(series)


def _collect_replica(numbers: Numbers, status: ReplicaStatus, model: str) -> None:
    of = (model, label(status.pool), label(status.id))
    numbers.set(declared.REPLICA_UP, int(status.state in _SERVES), *of)
    numbers.set(declared.REPLICA_STATE, 1, *of, status.state.value)
    numbers.set(declared.REPLICA_IN_FLIGHT, status.in_flight, *of)
    numbers.set(declared.REPLICA_SHARE, status.share, *of)
    numbers.set(declared.REPLICA_BREAKER, status.breaker_seconds, *of)
    numbers.set(declared.REPLICA_FAILURES, status.faults, *of)
    numbers.set(declared.REPLICA_EJECTIONS, status.ejections, *of)
    if status.group is not None:
        group, span = status.group, status.group.span
        name, gpus = label(group.group), f"{span.start}-{span.end - 1}"
        numbers.set(declared.REPLICA_GROUP, 1, *of, name, gpus, group.state.value)
        numbers.set(declared.REPLICA_GROUP_FAILED, int(bool(group.failure)), *of, name)
    if status.accuracy is not None:
        numbers.set(declared.REPLICA_ACCURACY, status.accuracy, *of)
    if status.state not in UNREPORTED_LOAD:
        numbers.set(declared.REPLICA_RUNNING, status.running, *of)
        numbers.set(declared.REPLICA_WAITING, status.waiting, *of)
        numbers.set(declared.REPLICA_KV_USED, status.kv_blocks_used, *of)
        numbers.set(declared.REPLICA_KV_TOTAL, status.kv_blocks_total, *of)
