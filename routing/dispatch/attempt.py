"""One attempt at a request: a submit to the chosen replica, and its events."""

from typing import Final, Protocol

from protos.errors import PenstockError, ReplicaFailed
from protos.failures import from_failure
from protos.types import Finish, FinishReason, Submit, Timing
from routing.contracts.policy import Decision, RouteRequest
from routing.contracts.transport import Leg, Relay, Sink
from routing.dispatch.migration import History
from routing.fleet.fleet import Fleet

_SOUND: Final = (FinishReason.STOP, FinishReason.LENGTH)
_NO_TIMING: Final = Timing()


class Owner(Sink, Protocol):
    """The stream that an attempt belongs to (routing/dispatch/failover_stream.py): it takes the attempt's tokens."""

    tokens: list[list[int]]

    @property
    def failed(self) -> bool:
        """Whether the stream has failed."""
        ...

    def opened(self, attempt: "Attempt") -> None:
        """A submit of the attempt was sent to `attempt.replica_id`."""
        ...

    def started(self, attempt: "Attempt") -> None: ...

    def relayed(self, attempt: "Attempt", relay: Relay) -> None: ...

    def finished(self, attempt: "Attempt", index: int, finish: Finish) -> None:
        """One of its sequences has ended."""
        ...

    def parted(self, attempt: "Attempt") -> None:
        """The attempt closed without a fault; each unfinished sequence must go on by itself."""
        ...

    def lost(self, attempt: "Attempt", error: PenstockError) -> None:
        """The attempt failed and closed itself; unfinished sequences must go on elsewhere."""
        ...


class Attempt:
    """A request at one replica; the `Receiver` of its leg.

    `left` of its sequences have not finished; they had `tokens_before` tokens when it began. `cached_tokens` and
    `started_at` are known once the prompt has been computed; `started_at` and `routed_at` are in seconds.
    """

    #: The other attempt at the same request while both race to answer first.
    rival: "Attempt | None" = None
    leg: Leg | None = None
    #: The answer's bytes, for an answer that is relayed.
    relay: Relay | None = None
    #: Indices of its sequences that go on at a wider replica, as no more of them fit here.
    grown: frozenset[int] = frozenset()
    cached_tokens = 0
    routed_at = 0.0
    started_at: float | None = None
    timing = _NO_TIMING

    def __init__(self, owner: Owner, route: RouteRequest, decision: Decision, submit: Submit, history: History) -> None:
        self.owner = owner
        #: Sink of its tokens.
        self.sink: Sink = owner
        self.route = route
        self.decision = decision
        self.submit = submit
        self.history = history
        self.sequence = submit.sequence
        self.sequences = self.left = submit.sampling.n
        self.replica_id = (decision.prefill or decision.replica).id

    @property
    def tokens_before(self) -> int:
        """Tokens of its sequences that an earlier attempt generated."""
        return self.submit.generated

    @property
    def indices(self) -> range:
        """Indices of its sequences in the request."""
        return range(self.sequence, self.sequence + self.sequences)

    @property
    def most_tokens(self) -> int:
        """KV tokens that each of its sequences may take."""
        return self.route.prompt_tokens + self.submit.max_tokens

    @property
    def tokens(self) -> int:
        """Tokens that its sequences have by now, including those from before."""
        if self.relay is not None:
            return self.relay.seen
        tokens = self.owner.tokens
        if self.sequences == 1:
            return len(tokens[self.sequence])
        return sum(len(tokens[index]) for index in self.indices)

    def open(self, fleet: Fleet, kv_tokens: int | None) -> None:
        """Send the submit, which is expected to fill `kv_tokens` of KV cache. Raises ReplicaUnavailable."""
        route, replica_id = self.route, self.replica_id
        to_compute = route.prompt_tokens
        if route.cached:
            to_compute -= route.cached.get(replica_id, 0)
        self.leg = fleet.open(replica_id, self.submit, kv_tokens, to_compute, self)
        self.owner.opened(self)

    def started(self, cached_tokens: int) -> None:
        if cached_tokens:
            # Tenants are billed by this, so it is bounded by what is possible.
            self.cached_tokens = min(cached_tokens, self.route.prompt_tokens)
        self.owner.started(self)

    def relayed(self, relay: Relay) -> None:
        self.relay = relay
        self.owner.relayed(self, relay)

    def finished(self, index: int, finish: Finish) -> None:
        """End a sequence, whether it succeeded or failed."""
        error = None if finish.failure is None and finish.reason in _SOUND else error_of(finish)
        if error is None:
            self.left -= 1
            self.timing = finish.timing
            self.owner.finished(self, index, finish)
        else:
            self.lost(error)

    def lost(self, error: PenstockError) -> None:
        self.close()
        self.owner.lost(self, error)

    def close(self) -> None:
        """Cancel upstream what has not finished. Idempotent."""
        if self.leg is not None:
            self.leg.close()


def error_of(finish: Finish) -> PenstockError | None:
    """Return the error of a finish, if it has one."""
    if finish.failure is not None:
        return from_failure(finish.failure)
    if finish.reason in _SOUND:
        return None
    return ReplicaFailed("The model's engine ended this request.")
