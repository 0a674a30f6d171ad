"""One simulated gateway worker: its views of the replicas and its policy."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from loadtest.simulation.simulated_replica import Replica
from loadtest.simulation.simulated_requests import TimedRequest
from loadtest.simulation.waiting_queue import Waiter
from protos.types import Role, Work
from routing.contracts.policy import (
    BetterWait,
    Decision,
    Left,
    NoCandidate,
    ReplicaView,
    RouteRequest,
    RoutingPolicy,
    Stepped,
)
from routing.estimates.decode_length import DecodeLength, Origin
from routing.prefix.prefix_directory import PrefixDirectory

_MODEL: Final = "simulated"
#: Seconds after which a waiting request's route request is refreshed, as in the admission queue.
STALE_SECONDS: Final = 0.25


class _Sent:
    """This worker's submits to one replica since its last finished step (routing/transports/unreported.py)."""

    __slots__ = ("kv_tokens", "prompt_tokens", "sequences")

    def __init__(self) -> None:
        self.sequences = self.prompt_tokens = self.kv_tokens = 0


class Worker:
    """A worker with views of the replicas as routing/transports/session_transport.py makes them."""

    def __init__(
        self, replicas: Sequence[Replica], policy: RoutingPolicy, lengths: DecodeLength, workers: int, max_tokens: int
    ) -> None:
        self.policy = policy
        self.prefixes = PrefixDirectory(clock=lambda: self.now) if policy.uses_prefixes else None
        self.now = 0.0
        self._replicas = list(replicas)
        self._lengths = lengths
        self._workers = workers
        self._max_tokens = max_tokens
        self._place = {replica.id: place for place, replica in enumerate(replicas)}
        self._sent = [_Sent() for _ in replicas]
        self._seen = [-1] * len(replicas)
        self._views = [self._view(place) for place in range(len(replicas))]
        self._smallest = min((replica.limits.kv_tokens for replica in replicas), default=0)
        for replica in replicas:
            self._joins_directory(replica)

    def joined(self, replica: Replica) -> None:
        """Route to a further replica."""
        self._replicas.append(replica)
        self._sent.append(_Sent())
        self._seen.append(-1)
        place = self._place[replica.id] = len(self._replicas) - 1
        self._views.append(self._view(place))
        self._smallest = min(known.limits.kv_tokens for known in self._replicas)
        self._joins_directory(replica)

    def left(self, replica_id: str) -> None:
        """Route nothing more to a replica, which drains."""
        place = self._place[replica_id]
        for listed in (self._replicas, self._sent, self._seen, self._views):
            del listed[place]
        self._place = {replica.id: at for at, replica in enumerate(self._replicas)}
        self._smallest = min((known.limits.kv_tokens for known in self._replicas), default=0)
        if self.prefixes:
            self.prefixes.left(replica_id)

    def gone(self, replica_id: str) -> None:
        """Forget a replica that has drained."""
        self.policy.observe(Left(replica_id))

    def _joins_directory(self, replica: Replica) -> None:
        if self.prefixes:
            limits = replica.limits
            self.prefixes.joined(replica.id, limits.tokens_per_block, limits.kv_blocks, True)

    def route_request(self, number: int, timed: TimedRequest, now: float) -> RouteRequest:
        """Return the route request of a request that arrives, or is to be placed anew, at `now`."""
        prompt, self.now = timed.prompt_tokens, now
        return RouteRequest(
            request_id=str(number),
            prompt_tokens=prompt,
            max_tokens=self._max_tokens,
            expected_output=self._lengths.expected(self.origin(number), prompt, self._max_tokens),
            cached=self._cached(timed),
            chain=timed.chain if self.prefixes else (),
            arrived=timed.arrival,
            now=now,
            may_wait=True,
        )

    def refreshed(self, request: RouteRequest, timed: TimedRequest, now: float) -> RouteRequest:
        """Return the refreshed route request of one that has waited."""
        if now - request.now < STALE_SECONDS:
            return request
        self.now = now
        return msgspec.structs.replace(request, cached=self._cached(timed), now=now)

    def pick(self, request: RouteRequest, timed: TimedRequest, kept: frozenset[str] = frozenset()) -> Decision:
        """Ask the policy. Raises NoCandidate when no replica is large enough or the policy does, and BetterWait."""
        candidates = self._candidates(timed.prompt_tokens + timed.output_tokens)
        if kept:
            candidates = [view for view in candidates if view.id not in kept]
            if not any(view.role is Role.BOTH for view in candidates):
                raise BetterWait
        if not candidates:
            raise NoCandidate("no replica can hold so long a request")
        return self.policy.pick(request, candidates)

    def prefers(self, waiter: Waiter) -> Decision | None:
        """Return the decision for a request if it could not wait; None: no replica could hold it."""
        try:
            return self.pick(msgspec.structs.replace(waiter.request, may_wait=False), waiter.timed)
        except NoCandidate:
            return None

    def _cached(self, timed: TimedRequest) -> Mapping[str, int]:
        return self.prefixes.match(timed.chain, timed.prompt_tokens) if self.prefixes and timed.chain else {}

    def origin(self, number: int) -> Origin:
        """Return the origin of a request, without a tenant."""
        return Origin(_MODEL, request_id=str(number))

    def sent(self, replica_id: str, prompt_tokens: int, kv_tokens: int) -> None:
        """Note a leg sent to a replica, with prompt tokens to compute and KV tokens to hold."""
        place = self._place.get(replica_id)
        if place is None:  # it drains, and takes over a prompt that was computed for it
            return
        self._forget_reported(place)
        sent = self._sent[place]
        sent.sequences += 1
        sent.prompt_tokens += prompt_tokens
        sent.kv_tokens += kv_tokens
        self._views[place] = self._view(place)

    def stepped(self, place: int, works: Sequence[Work], worked: Sequence[int]) -> None:
        """Note a replica's steps; `place` is its index, and `worked` the steps that were done by the end of each."""
        view = self._fresh(place)
        for work, steps in zip(works, worked, strict=True):
            # A report counts the steps up to its own: the time of a prompt's step is not that of all since.
            if steps != view.load.steps:
                then = msgspec.structs.replace(view.load, steps=steps)
                self.policy.observe(Stepped(msgspec.structs.replace(view, load=then), work))
            else:
                self.policy.observe(Stepped(view, work))

    def _candidates(self, tokens: int) -> list[ReplicaView]:
        """Return the replicas, in order, that can hold a request of `tokens` tokens."""
        views, seen = self._views, self._seen
        for place, replica in enumerate(self._replicas):
            if replica.version != seen[place]:
                self._fresh(place)
        if tokens <= self._smallest:
            return views.copy()
        fits = zip(self._replicas, views, strict=True)
        return [view for replica, view in fits if tokens <= replica.limits.kv_tokens]

    def _fresh(self, place: int) -> ReplicaView:
        replica = self._replicas[place]
        if replica.version != self._seen[place]:
            self._forget_reported(place)
            self._views[place] = self._view(place)
        return self._views[place]

    def _forget_reported(self, place: int) -> None:
        """Drop submits that a step which ended after them has reported."""
        if self._seen[place] != self._replicas[place].version:
            self._seen[place] = self._replicas[place].version
            self._sent[place] = _Sent()

    def _view(self, place: int) -> ReplicaView:
        replica, sent = self._replicas[place], self._sent[place]
        limits = replica.limits
        return ReplicaView(
            replica.id,
            replica.pool,
            replica.shape,
            replica.role,
            replica.reported(self._workers),
            sent.sequences,
            sent.prompt_tokens,
            sent.kv_tokens,
            limits.max_batch_size,
            limits.tokens_per_block,
            limits.max_num_tokens,
            replica.reserves_output,
        )
