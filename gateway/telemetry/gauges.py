"""What a worker's own parts know of now, read once a second: nothing is spent on it while requests are served."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

from gateway.fleets.listing import UNREPORTED_LOAD
from observability.metrics import declarations as declared
from observability.metrics.names import label
from observability.metrics.snapshot import Distribution, Numbers
from routing.health.replica_status import ReplicaStatus, State

_SERVES: Final = (State.READY, State.RETURNING)
#: What sinks may count, by the name that is exposed without its prefix; the first has the sink's own name as its label.
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
    """What is asked of a model's replicas."""

    def statuses(self) -> list[ReplicaStatus]:
        """How every replica is."""
        ...


class AdmissionQueue(Protocol):
    """What is asked of a model's queue."""

    @property
    def admissions(self) -> Mapping[tuple[int, str], int]:
        """Turns, by tier's rank and by how."""
        ...

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        ...


class Model(Protocol):
    """What is asked of a model that is served."""

    @property
    def fleet(self) -> Fleet:
        """Its replicas."""
        ...

    @property
    def admission_queue(self) -> AdmissionQueue:
        """Its queue."""
        ...


class LimitsBatcher(Protocol):
    """What is asked of the way to the store."""

    @property
    def seconds(self) -> Distribution:
        """How long round trips took."""
        ...

    @property
    def errors(self) -> int:
        """How many failed."""
        ...


class Limiter(Protocol):
    """What is asked of the limits."""

    @property
    def reservations(self) -> Mapping[str, int]:
        """How many ended how."""
        ...


class Counting(Protocol):
    """A sink that has counted something."""

    def counts(self) -> Mapping[str, float]:
        """By the metric's name without its prefix."""
        ...


class Gauges:
    """One of a worker. Everything it is given is only read."""

    def __init__(
        self,
        models: Mapping[str, Model],
        tiers: Sequence[str],
        in_flight: Collection[object],
        limits_batcher: LimitsBatcher,
        limiter: Limiter,
    ) -> None:
        """`models` go by their configured names, `tiers` are names by rank; `in_flight` are the requests under way."""
        self._models = models
        self._tiers = tiers
        self._in_flight = in_flight
        self._limits_batcher = limits_batcher
        self._limiter = limiter
        #: By the name that their losses are told apart by.
        self.sinks: dict[str, Counting] = {}

    def collect(self, numbers: Numbers) -> None:
        """Put all in."""
        numbers.set(declared.IN_FLIGHT, len(self._in_flight))
        for name, model in self._models.items():
            shown = label(name)
            numbers.set(declared.QUEUE_DEPTH, model.admission_queue.waiting, shown)
            for (rank, result), count in model.admission_queue.admissions.items():
                numbers.set(declared.ADMISSIONS, count, shown, label(self._tiers[rank]), result)
            for status in model.fleet.statuses():
                _collect_replica(numbers, status, shown)
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


def _collect_replica(numbers: Numbers, status: ReplicaStatus, model: str) -> None:
    of = (model, label(status.pool), label(status.id))
    numbers.set(declared.REPLICA_UP, int(status.state in _SERVES), *of)
    numbers.set(declared.REPLICA_STATE, 1, *of, status.state.value)
    numbers.set(declared.REPLICA_IN_FLIGHT, status.in_flight, *of)
    numbers.set(declared.REPLICA_SHARE, status.share, *of)
    numbers.set(declared.REPLICA_BREAKER, status.breaker_seconds, *of)
    numbers.set(declared.REPLICA_FAILURES, status.faults, *of)
    numbers.set(declared.REPLICA_EJECTIONS, status.ejections, *of)
    if status.accuracy is not None:
        numbers.set(declared.REPLICA_ACCURACY, status.accuracy, *of)
    if status.state not in UNREPORTED_LOAD:
        numbers.set(declared.REPLICA_RUNNING, status.running, *of)
        numbers.set(declared.REPLICA_WAITING, status.waiting, *of)
        numbers.set(declared.REPLICA_KV_USED, status.kv_blocks_used, *of)
        numbers.set(declared.REPLICA_KV_TOTAL, status.kv_blocks_total, *of)
