"""One simulated request from its arrival to its end, and what is kept of it."""

from dataclasses import dataclass, field

import msgspec

from loadtest.simulation.simulated_requests import TimedRequest
from protos.types import Timing
from replicas.model import Sequence
from routing.contracts.policy import Decision, RouteRequest
from routing.estimates.decode_length import Origin


class Outcome(msgspec.Struct, frozen=True):
    """How one request went. Times are in seconds; `ttft` is None for a refused request, `tpot` also without a second
    token.
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
    """A request under way: what was decided, and when its tokens came."""

    number: int
    timed: TimedRequest
    worker: int
    request: RouteRequest
    decision: Decision
    origin: Origin
    predicted: int  # prompt tokens that were believed to be cached where it went
    first_token: float = field(default=0.0, init=False)
    cached: int = field(default=0, init=False)
    queued: float = field(default=0.0, init=False)  # s before its prompt was computed, and until its KV had moved
    prefilled: float = field(default=0.0, init=False)  # s in which its prompt was computed

    def note_prompt(self, leg: Sequence) -> None:
        """Its prompt has been computed, which gives the first token."""
        admitted, self.first_token = leg.admitted or 0.0, leg.first_token or 0.0
        self.cached = leg.cached or 0
        self.queued = admitted - leg.arrived
        self.prefilled = self.first_token - admitted

    def note_transfer(self, leg: Sequence) -> None:
        """Its KV had to reach another replica, and there was perhaps no room at first."""
        self.queued += (leg.first_token or 0.0) - leg.arrived

    def timing(self, leg: Sequence) -> Timing:
        """What the replicas' servers say, when its last leg has ended."""
        decoded = leg.ended - (leg.first_token or 0.0)
        return Timing(round(self.queued * 1e6), round(self.prefilled * 1e6), round(decoded * 1e6))

    def outcome(self, ended: float) -> Outcome:
        """How it went, when its last token came at `ended`."""
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
    """A request that no replica could take."""
    return Outcome(timed.arrival, timed.prompt_tokens, timed.output_tokens, 0, None, None)
