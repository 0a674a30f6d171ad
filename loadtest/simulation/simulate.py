"""The fleet simulator: requests arrive in virtual time, a policy places each or lets it wait, engines serve them."""

import contextlib
import gc
import heapq
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Final

import msgspec

from loadtest.simulation.flight import Flight, Outcome, refused
from loadtest.simulation.rounds import Rounds
from loadtest.simulation.simulated_fleet import Fleet
from loadtest.simulation.simulated_replica import NEVER, Leg, Replica
from loadtest.simulation.simulated_requests import TimedRequest
from loadtest.simulation.simulated_worker import Worker
from loadtest.simulation.waiting_queue import Waiter, WaitingQueue
from replicas.reshape.dealing import dealt
from routing.contracts.policy import BetterWait, Ended, NoCandidate, Routed, RoutingPolicy
from routing.estimates.decode_length import DecodeLength, Oracle, QuantileDecodeLength

#: Virtual seconds after all requests' ends, but before "never".
_END: Final = 1e15


class ReplicaUse(msgspec.Struct, frozen=True):
    """The use of one replica: `busy` seconds of steps."""

    id: str
    gpus: int
    busy: float
    steps: int


class Result(msgspec.Struct, frozen=True):
    """A finished simulation. `seconds` is its virtual time, `wall` its real time."""

    outcomes: list[Outcome]
    replicas: list[ReplicaUse]
    seconds: float
    wall: float
    complete: bool = True


class Simulation:
    """One run. `workers` gateway workers get the requests in turn and share no state."""

    def __init__(
        self,
        fleet: Fleet | None,
        policy: Callable[[], RoutingPolicy],
        *,
        max_tokens: int,
        lengths: Callable[[], DecodeLength] = QuantileDecodeLength,
        workers: int = 1,
        give_up: Callable[[Outcome], bool] | None = None,
        rounds: Rounds | None = None,
        largest: int = 0,
    ) -> None:
        """`max_tokens` is every request's limit. `give_up` ends the run when it returns True for an outcome.

        `rounds` may change the fleet; without, it stays as it is. Without a fleet all replicas join later. A request of
        at most `largest` tokens that no replica could hold waits for one that can.
        """
        self._replicas = _replicas(fleet) if fleet else []
        self._by_id = {replica.id: replica for replica in self._replicas}
        self._lengths = [lengths() for _ in range(workers)]
        self._workers = [Worker(self._replicas, policy(), known, workers, max_tokens) for known in self._lengths]
        self._queues = [WaitingQueue() for _ in range(workers)]
        self._uses_prefixes = any(worker.prefixes for worker in self._workers)
        self._max_tokens = max_tokens
        self._give_up = give_up
        self._rounds = rounds
        self._draining: list[Replica] = []
        self._gone: list[Replica] = []
        self._outcomes: list[Outcome] = []
        self._handing_off: list[tuple[float, int, Replica]] = []  # a heap by the end of the step in progress
        self._over: list[Leg] = []  # legs that ended while others were handed off
        self._order = count()
        self._largest = largest
        self._unplaced: list[tuple[int, Waiter]] = []  # by worker: no replica could hold them
        self._stop = False

    def run(self, requests: Sequence[TimedRequest]) -> Result:
        """Run all requests, by arrival, to their ends."""
        began = time.perf_counter()
        with _without_collector():
            self._play(requests)
        replicas = [*self._replicas, *self._draining, *self._gone]
        last = max((replica.last for replica in replicas), default=0.0)
        uses = [ReplicaUse(r.id, r.shape.gpus, r.busy, r.steps) for r in replicas]
        return Result(self._outcomes, uses, last, time.perf_counter() - began, not self._stop)

    def _play(self, requests: Sequence[TimedRequest]) -> None:
        for number, timed in enumerate(requests):
            if self._rounds is not None:
                self._hold_rounds(self._rounds, timed.arrival)
            self._advance(timed.arrival)
            if self._stop:
                return
            self._arrive(number, timed)
        if self._rounds is not None:
            while self.unfinished and self._rounds.due < _END:
                self._hold_rounds(self._rounds, self._rounds.due)
        self._advance(_END)

    def _hold_rounds(self, rounds: Rounds, until: float) -> None:
        while (due := rounds.due) <= until and not self._stop:
            self._advance(due)
            rounds.hold(due)

    @property
    def replicas(self) -> list[Replica]:
        """The replicas that take requests."""
        return self._replicas

    @property
    def unfinished(self) -> int:
        """Requests that wait or run."""
        replicas = (*self._replicas, *self._draining)
        return (
            self.waiting
            + len(self._unplaced)
            + sum(replica.model.load.running + replica.model.load.waiting for replica in replicas)
        )

    @property
    def waiting(self) -> int:
        """Requests in the gateway workers' queues."""
        return sum(len(queue) for queue in self._queues)

    @property
    def waiting_since(self) -> float | None:
        """The arrival of the oldest request in the gateway workers' queues."""
        return min((oldest for queue in self._queues if (oldest := queue.oldest_arrival) is not None), default=None)

    @property
    def waiters(self) -> list[Waiter]:
        """The requests that wait at gateway workers, with those that no replica could hold."""
        return [waiter for queue in self._queues for waiter in queue] + [waiter for _, waiter in self._unplaced]

    def join(self, replica: Replica, now: float) -> None:
        """Let a replica serve from `now` on."""
        self._joined(replica)
        self._serve_queues(now)

    def _joined(self, replica: Replica) -> None:
        self._replicas.append(replica)
        self._by_id[replica.id] = replica
        for worker in self._workers:
            worker.joined(replica)
        unplaced, self._unplaced = self._unplaced, []
        for at, waiter in unplaced:
            self._queues[at].add(waiter)

    def transform(self, old: Sequence[Replica], new: Sequence[Replica], now: float) -> None:
        """Let replicas take the place of others from the end of their steps on, with all that these have."""
        at = max(now, *(replica.halt() for replica in old))
        carried = []
        for replica in old:
            self._report(self._replicas.index(replica), replica)
            self._over += replica.ended
            replica.ended = []
            carried += replica.model.take_out()
            self._replicas.remove(replica)
            self._gone.append(replica)
            del self._by_id[replica.id]
            for worker in self._workers:
                worker.left(replica.id)
                worker.gone(replica.id)
        for replica, part in zip(new, dealt(carried, [replica.limits.kv_tokens for replica in new]), strict=True):
            replica.model.take_in(part, at)
            replica.start(at)
            self._joined(replica)
        self._serve_queues(now)

    def drain(self, replica: Replica) -> None:
        """Send a replica nothing more; what it has goes on."""
        self._replicas.remove(replica)
        self._draining.append(replica)
        for worker in self._workers:
            worker.left(replica.id)

    def is_drained(self, replica: Replica) -> bool:
        """Whether a draining replica has ended all that it had."""
        return replica.due == NEVER

    def remove(self, replica: Replica, now: float, *, moves: bool) -> None:
        """End a draining replica. What it has moves to others, prompt and answer so far, or is lost."""
        self._draining.remove(replica)
        self._gone.append(replica)
        for leg in replica.model.unfinished:
            produced, flight = leg.produced_at(replica.model.clock), leg.flight
            replica.model.cancel([leg], now)
            if not moves:
                self._finished(refused(flight.timed))
                continue
            self._move(leg, produced, now)
        del self._by_id[replica.id]
        replica.prefilling = 0
        replica.due = NEVER
        for worker in self._workers:
            worker.gone(replica.id)
        self._serve_queues(now)

    def _move(self, leg: Leg, produced: int, now: float) -> None:
        """Queue what is left of a leg's request after `produced` further tokens."""
        flight = leg.flight
        flight.move(leg, produced)
        request = self._workers[flight.worker].route_request(flight.number, flight.left, now)
        self._queues[flight.worker].add(Waiter(flight.number, flight.left, request, flight))

    def _arrive(self, number: int, timed: TimedRequest) -> None:
        """Send a request where its worker decides, or queue it there."""
        at = number % len(self._workers)
        request = self._workers[at].route_request(number, timed, timed.arrival)
        queue, waiter = self._queues[at], Waiter(number, timed, request)
        if queue or not self._place(at, waiter, timed.arrival):
            queue.add(waiter)

    def _place(self, at: int, waiter: Waiter, now: float, kept: frozenset[str] = frozenset()) -> bool:
        """Send a request, or refuse it; False: it should wait."""
        if not self._replicas and self._rounds is not None:
            return False
        worker, timed = self._workers[at], waiter.timed
        request = waiter.request = worker.refreshed(waiter.request, timed, now)
        try:
            decision = worker.pick(request, timed, kept)
        except BetterWait:
            return False
        except NoCandidate:
            if timed.prompt_tokens + timed.output_tokens <= self._largest:
                self._unplaced.append((at, waiter))
            else:
                self._finished(refused(timed))
            return True
        entry = decision.entry.id
        flight = waiter.flight
        if flight is None:
            origin = worker.origin(waiter.number)
            flight = Flight(waiter.number, timed, at, request, decision, origin, request.cached.get(entry, 0))
        else:
            flight.request, flight.decision, flight.predicted = request, decision, request.cached.get(entry, 0)
        worker.policy.observe(Routed(request, decision))
        if worker.prefixes and timed.chain:
            worker.prefixes.routed(entry, timed.chain)
        prefill = decision.prefill is not None and decision.prefill.id != decision.replica.id
        self._send(flight, self._by_id[entry], now, hands_off=prefill)
        return True

    def _serve_queues(self, now: float) -> None:
        """Retry waiting requests after the end of a step."""
        if not self._replicas:
            return
        for at, queue in enumerate(self._queues):
            if queue:
                worker = self._workers[at]
                queue.serve(
                    now,
                    lambda waiter, kept, at=at: self._place(at, waiter, now, kept),  # type: ignore[misc]
                    worker.prefers,
                )

    def _send(
        self, flight: Flight, replica: Replica, now: float, *, hands_off: bool = False, transferred: bool = False
    ) -> None:
        """Submit a leg of a request to a replica."""
        prompt, output = flight.left.prompt_tokens, flight.left.output_tokens
        room = max(output, min(self._max_tokens, replica.limits.kv_tokens - prompt))
        leg = Leg(
            prompt=prompt,
            steps=1 if hands_off else output,
            limit=1 if hands_off else room,
            chain=flight.timed.chain,
            transferred=transferred,
            flight=flight,
            hands_off=hands_off,
        )
        replica.submit(leg, now)
        if hands_off and replica.prefilling == 1:
            heapq.heappush(self._handing_off, (replica.due, next(self._order), replica))
        expected = leg.limit if replica.reserves_output else min(leg.limit, flight.request.expected_output)
        to_compute = 0 if transferred else prompt - flight.predicted
        self._workers[flight.worker].sent(replica.id, to_compute, prompt + round(expected))

    def _advance(self, now: float) -> None:
        """Advance everything to `now`, step by step while requests wait for ends of steps."""
        while any(self._queues) and not self._stop:
            due = min((replica.due for replica in self._replicas), default=NEVER)
            if self._handing_off:
                due = min(due, self._handing_off[0][0])
            if due > now:
                break
            self._advance_to(due)
            self._serve_queues(due)
        self._advance_to(now)

    def _advance_to(self, now: float) -> None:
        """Advance every replica to `now` and report its steps to the workers."""
        self._hand_off(now)
        ended, self._over = self._over, []
        for place, replica in enumerate(self._replicas):
            if replica.due <= now:
                replica.advance(now)
            if replica.works:
                self._report(place, replica)
            if replica.ended:
                ended += replica.ended
                replica.ended = []
        for replica in self._draining:
            if replica.due <= now:
                replica.advance(now)
            replica.drain_kv(wanted=False)
            works, _ = replica.take_works()
            if works and self._rounds is not None:
                self._rounds.stepped(replica, works)
            ended += replica.ended
            replica.ended = []
        ended.sort(key=lambda leg: leg.ended)
        for leg in ended:
            self._ended(leg)

    def _hand_off(self, now: float) -> None:
        """Step the prefill replicas, and hand each request over when its prompt is computed."""
        while self._handing_off and self._handing_off[0][0] <= now:
            due, _, replica = heapq.heappop(self._handing_off)
            replica.advance(due)
            ended, replica.ended = replica.ended, []
            for leg in ended:
                replica.prefilling -= leg.hands_off
                if leg.hands_off and leg.flight.left.output_tokens > 1:
                    target = self._by_id.get(leg.flight.decision.replica.id)
                    if target is None:  # it has gone since
                        self._move(leg, 1, due)
                        continue
                    leg.flight.note_prompt(leg)
                    target.advance(due)
                    self._send(leg.flight, target, due, transferred=True)
                else:
                    self._over.append(leg)
            if replica.prefilling:
                heapq.heappush(self._handing_off, (replica.due, next(self._order), replica))

    def _report(self, place: int, replica: Replica) -> None:
        works, worked = replica.take_works()
        updates = replica.drain_kv(wanted=self._uses_prefixes)
        for worker in self._workers:
            if worker.prefixes:
                for update in updates:
                    worker.prefixes.updated(replica.id, update)
            worker.stepped(place, works, worked)
        if self._rounds is not None:
            self._rounds.stepped(replica, works)

    def _ended(self, leg: Leg) -> None:
        flight = leg.flight
        if leg.transferred:
            flight.note_transfer(leg)
        else:
            flight.note_prompt(leg)
        outcome = flight.outcome(leg.ended)
        timed, worker = flight.timed, self._workers[flight.worker]
        if worker.prefixes and timed.chain:
            worker.prefixes.record_cached(flight.decision.entry.id, flight.predicted, flight.cached)
        self._lengths[flight.worker].learn(flight.origin, timed.prompt_tokens, timed.output_tokens)
        worker.policy.observe(
            Ended(flight.request, flight.decision, flight.cached, timed.output_tokens, outcome.ttft, flight.timing(leg))
        )
        self._finished(outcome)

    def _finished(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        if self._give_up is not None and self._give_up(outcome):
            self._stop = True


def simulate(
    fleet: Fleet,
    requests: Sequence[TimedRequest],
    policy: Callable[[], RoutingPolicy],
    *,
    workers: int = 1,
    oracle: bool = False,
    max_tokens: int | None = None,
    give_up: Callable[[Outcome], bool] | None = None,
) -> Result:
    """Simulate the requests on the fleet; each worker makes its own policy.

    `max_tokens` unset is the least power of two that no answer exceeds. With `oracle` the policy gets each answer's
    true length, else what a predictor has learned in the run so far.
    """
    longest = max((request.output_tokens for request in requests), default=1)
    known = {str(number): request.output_tokens for number, request in enumerate(requests)} if oracle else {}
    return Simulation(
        fleet,
        policy,
        max_tokens=max_tokens or 1 << (longest - 1).bit_length(),
        lengths=(lambda: Oracle(known)) if oracle else QuantileDecodeLength,
        workers=workers,
        give_up=give_up,
    ).run(requests)


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Disable the cyclic garbage collector: it would scan millions of blocks, and there are no cycles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _replicas(fleet: Fleet) -> list[Replica]:
    found = []
    for pool in fleet.pools:
        timer, limits = fleet.timer(pool), fleet.limits(pool)
        found += [
            Replica(f"{pool.name}-{number}", pool.name, pool.value, pool.role, limits, timer)
            for number in range(pool.replicas)
        ]
    return found
