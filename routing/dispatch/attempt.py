"""One decision followed: a submit to the chosen replica, and what comes of it."""

from typing import Protocol

from protos.errors import PenstockError, ReplicaFailed, from_failure
from protos.types import Finish, FinishReason, Submit, Timing
from routing.contracts.policy import Decision, RouteRequest
from routing.contracts.transport import Leg, Relay, Sink
from routing.dispatch.migration import History
from routing.fleet.fleet import Fleet
from routing.transports.inbox import Inbox


class Owner(Protocol):
    """Whose trip it is (routing/dispatch/failover_stream.py)."""

    @property
    def inbox(self) -> Inbox:
        """Where tokens go."""
        ...

    def opened(self, attempt: "Attempt") -> None:
        """A submit of the trip is on its way to `trip.replica_id`."""
        ...

    def started(self, attempt: "Attempt") -> None:
        """Its prompt has been computed."""
        ...

    def relayed(self, attempt: "Attempt", relay: Relay) -> None:
        """Its answer comes as bytes."""
        ...

    def finished(self, attempt: "Attempt", index: int, finish: Finish) -> None:
        """One of its sequences is over."""
        ...

    def parted(self, attempt: "Attempt") -> None:
        """What has not finished must go on, each sequence by itself; nothing went wrong, and the trip is closed."""
        ...

    def lost(self, attempt: "Attempt", error: PenstockError) -> None:
        """It came to nothing; what has not finished must go on elsewhere. The trip has closed itself."""
        ...


class Attempt:
    """A request's way through one replica; the `Receiver` of its leg.

    `left` of its sequences have not finished, and they had `tokens_before` tokens when it began. `cached_tokens` and
    `started_at` are known once the prompt has been computed; the latter and `routed_at` are in seconds.
    """

    __slots__ = (
        "cached_tokens",
        "decision",
        "history",
        "left",
        "leg",
        "owner",
        "relay",
        "replica_id",
        "rival",
        "route",
        "routed_at",
        "sequence",
        "sequences",
        "started_at",
        "submit",
        "timing",
        "tokens_before",
    )

    def __init__(self, owner: Owner, route: RouteRequest, decision: Decision, submit: Submit, history: History) -> None:
        self.owner = owner
        self.route = route
        self.decision = decision
        self.submit = submit
        self.history = history
        self.sequence = submit.sequence
        self.sequences = self.left = submit.sampling.n
        self.tokens_before = submit.generated
        self.replica_id = decision.entry.id
        #: The other attempt at the same, while nobody knows which of them answers first.
        self.rival: Attempt | None = None
        self.leg: Leg | None = None
        #: The answer's bytes, where it is not one of tokens.
        self.relay: Relay | None = None
        self.cached_tokens = 0
        self.routed_at = 0.0
        self.started_at: float | None = None
        self.timing = Timing()

    @property
    def sink(self) -> Sink:
        """Where its tokens go."""
        return self.owner.inbox

    @property
    def indices(self) -> range:
        """Its sequences, as the request numbers them."""
        return range(self.sequence, self.sequence + self.sequences)

    @property
    def tokens(self) -> int:
        """What its sequences have by now, with what they had before."""
        if self.relay is not None:
            return self.relay.seen
        tokens = self.owner.inbox.tokens
        if self.sequences == 1:
            return len(tokens[self.sequence])
        return sum(len(tokens[index]) for index in self.indices)

    def open(self, fleet: Fleet, kv_tokens: int | None) -> None:
        """Send the submit, which is expected to fill so much KV cache. Raises ReplicaUnavailable."""
        route = self.route
        to_compute = route.prompt_tokens - route.cached.get(self.replica_id, 0)
        self.leg = fleet.open(self.replica_id, self.submit, kv_tokens, to_compute, self)
        self.owner.opened(self)

    def started(self, cached_tokens: int) -> None:
        """The prompt has been computed."""
        # A tenant pays by this, so that it is never more than can be.
        self.cached_tokens = min(cached_tokens, self.route.prompt_tokens)
        self.owner.started(self)

    def relayed(self, relay: Relay) -> None:
        """The answer comes as bytes."""
        self.relay = relay
        self.owner.relayed(self, relay)

    def finished(self, index: int, finish: Finish) -> None:
        """A sequence has ended, well or with a failure."""
        error = error_of(finish)
        if error is not None:
            self.lost(error)
        else:
            self.deliver(index, finish)

    def deliver(self, index: int, finish: Finish) -> None:
        """A sequence has ended well."""
        self.left -= 1
        self.timing = finish.timing
        self.owner.finished(self, index, finish)

    def lost(self, error: PenstockError) -> None:
        """The replica is gone or gives the request up."""
        self.close()
        self.owner.lost(self, error)

    def close(self) -> None:
        """Cancel upstream what has not finished. Idempotent."""
        if self.leg is not None:
            self.leg.close()


def error_of(finish: Finish) -> PenstockError | None:
    """What a finish says went wrong, if anything did."""
    if finish.failure is not None:
        return from_failure(finish.failure.code, finish.failure.message, finish.failure.param)
    if finish.reason not in (FinishReason.STOP, FinishReason.LENGTH):
        return ReplicaFailed("The model's engine ended this request.")
    return None
