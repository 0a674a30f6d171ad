"""Count a worker's demand of models that scale: a sink of ended requests' records, sampled once a second."""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from math import exp
from typing import Final, Protocol

from gateway.fleets.listing import UNREPORTED_LOAD
from gateway.scaling.demand.demand_reports import BUCKETS, ModelReport, PoolReport, Report, bucket_of
from gateway.scaling.demand.step_watch import StepWatch
from observability.outcome import Outcome
from observability.record import RequestRecord
from replicas.reshape.short_bound import short_bound
from routing.contracts.policy import ReplicaView
from routing.contracts.policy_settings import Targets
from routing.health.replica_status import ReplicaStatus

#: Seconds over which arrivals and latencies are counted.
WINDOW_SECONDS: Final = 30.0
#: Seconds after which a request's tokens count less by e.
MEMORY_SECONDS: Final = 120.0
#: Long requests that wait which are told of at most, those that need most.
MOST_LONG: Final = 64
#: Requests that ended so without a replica wanted one.
_REFUSED: Final = frozenset((Outcome.SHED, Outcome.TIMEOUT, Outcome.REPLICA_ERROR, Outcome.CLIENT_GONE))
_ADMITTED: Final = ("at_once", "waited")


class Fleet(Protocol):
    """A model's replicas, as far as they are counted."""

    def statuses(self) -> Sequence[ReplicaStatus]:
        """The status of every replica."""
        ...

    def candidates(self) -> list[ReplicaView]:
        """The replicas that take requests now."""
        ...

    @property
    def narrow_tokens(self) -> int:
        """KV tokens that the narrowest shape holds which its replicas can take; 0: none of them changes its shape."""
        ...


class AdmissionQueue(Protocol):
    """A model's admission queue, as far as it is counted."""

    @property
    def admissions(self) -> Mapping[tuple[int, str], int]:
        """Admissions by tier's rank and by kind."""
        ...

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        ...

    @property
    def oldest_wait(self) -> float:
        """For how many seconds the oldest one has waited."""
        ...

    def long_waits(self, over: int) -> Sequence[tuple[int, float]]:
        """Return the KV tokens that waiting requests need which need more than `over`, with the seconds waited."""
        ...


class DemandCounter:
    """The demand of one worker: the sink of its records, and its reports.

    A request counts as arrived when it was admitted, while it waits, or when it ended without a replica for want of
    one. What was refused for its own sake, such as a limit, is no demand.
    """

    def __init__(
        self, targets: Mapping[str, Targets], clock: Callable[[], float], relaunched: Collection[str] = ()
    ) -> None:
        """`targets` are by model; `clock` counts seconds.

        Of `relaunched` models requests that a narrow replica holds alone are no long ones: they are not worth a start.
        """
        self._models = {
            name: _Model(of_model, clock(), crowds=name not in relaunched) for name, of_model in targets.items()
        }
        self._clock = clock

    def take(self, records: Sequence[RequestRecord]) -> None:
        """Count ended requests."""
        for record in records:
            model = self._models.get(record.model)
            if model is not None:
                model.take(record)

    async def aclose(self) -> None:
        """Nothing is left to do."""

    def report(
        self, fleets: Mapping[str, Fleet], queues: Mapping[str, AdmissionQueue], watches: Mapping[str, StepWatch]
    ) -> Report:
        """Sample the models and report on them; call it about once a second. All are by model."""
        now = self._clock()
        return {
            name: model.report(now, fleets[name], queues[name], watches[name]) for name, model in self._models.items()
        }


class _Model:
    def __init__(self, targets: Targets, now: float, *, crowds: bool) -> None:
        self._targets, self._crowds = targets, crowds
        self._refused = 0
        #: Sums that fade: requests, prompt, cached and output tokens; then the same of long requests.
        self._sums = [0.0] * 8
        #: KV tokens that a short request needs at most; 0: all are short.
        self._short_bound = 0
        self._faded_at = now
        self._ttft = [0] * BUCKETS
        self._tpot = [0] * BUCKETS
        #: Time, arrivals so far, and the counts by bucket so far.
        self._samples: deque[tuple[float, int, list[int], list[int]]] = deque()
        self._arrived = 0

    def take(self, record: RequestRecord) -> None:
        if not record.replica:
            self._refused += record.outcome in _REFUSED
            return
        if not record.first_token or not record.completion_tokens:
            return
        sums = self._sums
        sums[0] += 1
        sums[1] += record.prompt_tokens
        sums[2] += record.cached_tokens
        sums[3] += record.completion_tokens
        if 0 < self._short_bound < record.prompt_tokens + record.completion_tokens:
            sums[4] += 1
            sums[5] += record.prompt_tokens
            sums[6] += record.cached_tokens
            sums[7] += record.completion_tokens
        if record.background:
            # Nobody waits for it: its times are no reason for more replicas.
            return
        target = self._targets.first_token(record.prompt_tokens)
        self._ttft[bucket_of((record.first_token - record.arrived) / target)] += 1
        tokens = record.completion_tokens / max(record.sequences, 1)
        if tokens > 1 and record.last_token > record.first_token:
            pace = (record.last_token - record.first_token) / (tokens - 1)
            self._tpot[bucket_of(pace / self._targets.tpot)] += 1

    def report(self, now: float, fleet: Fleet, queue: AdmissionQueue, watch: StepWatch) -> ModelReport:
        admitted = sum(count for (_, kind), count in queue.admissions.items() if kind in _ADMITTED)
        # One that left its place is counted as refused only with the next records: what has arrived stays so.
        self._arrived = max(self._arrived, admitted + queue.waiting + self._refused)
        samples = self._samples
        samples.append((now, self._arrived, self._ttft.copy(), self._tpot.copy()))
        while len(samples) > 2 and now - samples[1][0] >= WINDOW_SECONDS:
            samples.popleft()
        since, arrived, ttft, tpot = samples[0]
        fade = exp((self._faded_at - now) / MEMORY_SECONDS)
        self._faded_at = now
        self._sums = [value * fade for value in self._sums]
        ended, prompt, cached, output, *long = self._sums
        narrow = fleet.narrow_tokens
        bound = self._short_bound = short_bound(narrow) if self._crowds else narrow
        statuses = fleet.statuses()
        return ModelReport(
            window=now - since,
            arrivals=self._arrived - arrived,
            ended=ended,
            prompt_tokens=prompt,
            cached_tokens=cached,
            output_tokens=output,
            ttft=_difference(self._ttft, ttft),
            tpot=_difference(self._tpot, tpot),
            waiting=queue.waiting,
            oldest_wait=queue.oldest_wait,
            in_flight=sum(status.in_flight for status in statuses),
            pools=_pools(fleet.candidates(), statuses, watch, now),
            long_waits=sorted(queue.long_waits(bound), reverse=True)[:MOST_LONG] if bound else (),
            long_ended=long[0],
            long_prompt_tokens=long[1],
            long_cached_tokens=long[2],
            long_output_tokens=long[3],
        )


def _difference(now: Sequence[int], before: Sequence[int]) -> list[int]:
    return [after - count for after, count in zip(now, before, strict=True)]


def _pools(
    views: Sequence[ReplicaView], statuses: Sequence[ReplicaStatus], watch: StepWatch, now: float
) -> dict[str, PoolReport]:
    first: dict[str, ReplicaView] = {}
    for view in views:
        first.setdefault(view.pool, view)
    reporting: dict[str, int] = {}
    for status in statuses:
        if status.state not in UNREPORTED_LOAD:
            reporting[status.pool] = reporting.get(status.pool, 0) + 1
    found = {}
    for pool in first.keys() | watch.pools:
        known = first.get(pool)
        found[pool] = PoolReport(
            steps=watch.learned(pool),
            occupancy=watch.occupancy(pool, reporting.get(pool, 0), now),
            kv_tokens=known.load.kv_blocks_total * known.kv_block_tokens if known else 0,
            max_sequences=known.max_batch_size if known else 0,
            max_step_tokens=known.max_num_tokens if known else 0,
        )
    return found
