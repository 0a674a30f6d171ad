"""One simulated request in flight, and its outcome."""

from dataclasses import dataclass, field

import msgspec

from loadtest.simulation.simulated_requests import TimedRequest
from protos.types import Timing
from replicas.sequence import Sequence
from routing.contracts.policy import Decision, RouteRequest
from routing.estimates.decode_length import Origin


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of one request. Times are in seconds; `ttft` is None for a refused request, `tpot` also without a
    second token.
    """

    arrival: float
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    ttft: float | None
    tpot: float | None
    replica: str = ""
    prefill: str = ""


@dataclass(slots=True, eq=False)
class Flight:
    """A request in flight: its decision and the times of its tokens."""

    number: int
    timed: TimedRequest
    worker: int
    request: RouteRequest
    decision: Decision
    origin: Origin
    predicted: int  # prompt tokens predicted to be cached on its replica
    first_token: float = field(default=0.0, init=False)
    cached: int = field(default=0, init=False)
    queued: float = field(default=0.0, init=False)  # s in queues and until its KV was transferred
    prefilled: float = field(default=0.0, init=False)  # s of prefill
    produced: int = field(default=0, init=False)  # tokens of its answer by replicas that have gone since
    left: TimedRequest = field(init=False)  # what its replica is asked for: all of it, unless it has moved

    def __post_init__(self) -> None:
        self.left = self.timed

    def move(self, leg: Sequence, produced: int) -> None:
        """Take it off a replica that goes, which gave `produced` tokens of the answer."""
        if produced and not leg.transferred:
            self.note_prompt(leg)
        self.produced += produced
        timed = self.timed
        self.left = msgspec.structs.replace(
            timed,
            prompt_tokens=timed.prompt_tokens + self.produced,
            output_tokens=timed.output_tokens - self.produced,
        )

    def note_prompt(self, leg: Sequence) -> None:
        """Note that its prompt has been computed, which gives the first token, unless another replica gave that."""
        if self.produced:
            return
        admitted, self.first_token = leg.admitted or 0.0, leg.first_token or 0.0
        self.cached = leg.cached or 0
        self.queued = admitted - leg.arrived
        self.prefilled = self.first_token - admitted

    def note_transfer(self, leg: Sequence) -> None:
        """Note that its KV was transferred to another replica, maybe after a wait for room."""
        self.queued += (leg.first_token or 0.0) - leg.arrived

    def timing(self, leg: Sequence) -> Timing:
        """Return the timing that replicas report, once its last leg has ended."""
        decoded = leg.ended - (leg.first_token or 0.0)
        return Timing(round(self.queued * 1e6), round(self.prefilled * 1e6), round(decoded * 1e6))

    def outcome(self, ended: float) -> Outcome:
        """Return its outcome, with its last token at `ended`."""
        timed = self.timed
        further = timed.output_tokens - 1
        return Outcome(
            timed.arrival,
            timed.prompt_tokens,
            timed.output_tokens,
            self.cached,
            self.first_token - timed.arrival,
            (ended - self.first_token) / further if further else None,
            self.decision.replica.id,
            self.decision.prefill.id if self.decision.prefill else "",
        )


def refused(timed: TimedRequest) -> Outcome:
    """Return the outcome of a request that no replica could take."""
    return Outcome(timed.arrival, timed.prompt_tokens, timed.output_tokens, 0, None, None)
