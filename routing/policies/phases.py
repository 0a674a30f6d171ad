"""Chooses between a pair and a colocated replica for a request: DeepFlow's heatmap, corrected by the current load.

DeepFlow (section 5.3) takes the pair wherever the map's cell is positive, and so overloads it at high rates, as its
authors say. Here the cell counts as seconds gained: once a pair's load delays a request by more than that compared with
the colocated replicas, the request goes to those, and vice versa.
"""

from typing import Final

import msgspec

from routing.contracts.heatmap import Heatmap
from routing.contracts.policy import Left, Report, RouteRequest, Stepped
from routing.contracts.units import Unit
from routing.estimates.replica_class import ReplicaClasses
from routing.estimates.step_means import StepMeans
from routing.policies.measures import backlog, kv_free, kv_need, sequences

#: Conditional disaggregation, with Dynamo's figures: a prompt with fewer tokens than this to compute, and less than
#: this share of it, is not worth a transfer of its KV.
LOCAL_TOKENS: Final = 2048
LOCAL_SHARE: Final = 0.7


class Estimate(msgspec.Struct, frozen=True):
    """Seconds on one unit: `delay` from its load, `compute` for the request by itself."""

    delay: float
    compute: float

    @property
    def seconds(self) -> float:
        """Sum of both."""
        return self.delay + self.compute


class Preference(msgspec.Struct, frozen=True):
    """The better group for a request, and why. `bonus` are the seconds that the heatmap credits to a pair."""

    pair: bool
    reason: str
    bonus: float = 0.0


def stays_local(prompt_tokens: int, cached_tokens: int) -> bool:
    """Whether a prompt has so little left to compute that it is computed where it is decoded."""
    uncached = prompt_tokens - cached_tokens
    return uncached < LOCAL_TOKENS and uncached < LOCAL_SHARE * prompt_tokens


class Phases:
    """Learns the replicas' speed from their steps and compares pairs with colocated replicas."""

    def __init__(self, heatmap: Heatmap | None) -> None:
        self._heatmap = heatmap
        self._classes = ReplicaClasses()
        self._means = StepMeans()

    def observe(self, report: Report) -> None:
        """Learn from a step."""
        if isinstance(report, Stepped):
            self._classes.of(report.view).learn(report.work)
            self._means.stepped(report.view, report.work)
        elif isinstance(report, Left):
            self._classes.left(report.replica_id)
            self._means.left(report.replica_id)

    def estimate(self, unit: Unit, request: RouteRequest) -> Estimate:
        """Estimate the seconds of a request on a unit."""
        entry, replica = unit.entry, unit.replica
        answers = self._classes.of(replica)
        prompts = answers if unit.prefill is None else self._classes.of(entry)
        output = min(request.expected_output, request.max_tokens)
        context = replica.load.tokens_in_flight + replica.sent_kv_tokens
        alone = answers.decode(1)
        step = answers.decode(sequences(replica) + request.n) + answers.context_seconds * context
        if backlog(replica):
            # Other prompts are computed between the answer's tokens, assumed as often as lately.
            step = max(step, self._means.of(replica.id))
        delay = prompts.token_seconds * backlog(entry) + prompts.pair_seconds * entry.load.prefill_pairs
        delay += output * max(step - alone, 0.0)
        shortage = kv_need(replica, request) - kv_free(replica)
        if shortage > 0 and replica.load.kv_blocks_total:
            # This share of the running sequences must end first; each is assumed to last as long as this request.
            delay += min(shortage / max(context, 1), 1.0) * output * step
        uncached = request.prompt_tokens - request.cached.get(entry.id, 0)
        return Estimate(delay, prompts.token_seconds * uncached + output * alone)

    def prefer(self, whole: Unit | None, pair: Unit | None, request: RouteRequest) -> Preference:
        """Return the better of the two units that the groups would use; None for an empty group."""
        if pair is None or whole is None:
            return Preference(pair is not None, "no pairs" if pair is None else "only pairs")
        cached = request.cached.get(whole.entry.id, 0)
        if stays_local(request.prompt_tokens, cached):
            return Preference(False, "short or cached prompt stays local")
        here, there = self.estimate(whole, request), self.estimate(pair, request)
        bonus = self._bonus(whole, pair, request, cached)
        if bonus is None:
            # The heatmap lacks these shapes: use the estimates alone.
            bonus = here.compute - there.compute
        if there.delay - here.delay < bonus:
            return Preference(True, "heatmap: pair" if bonus > 0 else "colocated overloaded", bonus)
        return Preference(False, "heatmap: colocated" if bonus <= 0 else "pair overloaded", bonus)

    def _bonus(self, whole: Unit, pair: Unit, request: RouteRequest, cached: int) -> float | None:
        if self._heatmap is None:
            return None
        shapes = (whole.replica.shape, pair.entry.shape, pair.replica.shape)
        output = min(request.expected_output, request.max_tokens)
        return self._heatmap.gain(*shapes, request.prompt_tokens - cached, output)
