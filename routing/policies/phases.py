"""Whether a request is better off on a pair or on a colocated replica: DeepFlow's heatmap, corrected by what is there.

DeepFlow (section 5.3) takes the pair wherever the map's cell is positive, and so overloads it at high rates, as its
authors say. Here the cell is worth the seconds that it promises: once a pair's load delays a request by more than that
beyond what colocated replicas would, the request goes there, and the other way round.
"""

from typing import Final

import msgspec

from routing.contracts.heatmap import Heatmap
from routing.contracts.policy import Left, Report, RouteRequest, Stepped
from routing.contracts.units import Unit
from routing.estimates.replica_class import ReplicaClasses
from routing.estimates.step_means import StepMeans
from routing.policies.measures import backlog, kv_free, kv_need, sequences

#: Conditional disaggregation, with Dynamo's figures: a prompt of which fewer tokens than this are to be computed, and
#: less than this share, is not worth sending its KV from one replica to another.
LOCAL_TOKENS: Final = 2048
LOCAL_SHARE: Final = 0.7


class Estimate(msgspec.Struct, frozen=True):
    """One unit, in seconds: `delay` is what its load adds, `compute` what the request takes there by itself."""

    delay: float
    compute: float

    @property
    def seconds(self) -> float:
        """Both."""
        return self.delay + self.compute


class Preference(msgspec.Struct, frozen=True):
    """Which group is better for a request, and why. `bonus` are the seconds that the map gives a pair."""

    pair: bool
    reason: str
    bonus: float = 0.0


def stays_local(prompt_tokens: int, cached_tokens: int) -> bool:
    """Whether a prompt is so short and so well cached that it is computed where it is answered."""
    uncached = prompt_tokens - cached_tokens
    return uncached < LOCAL_TOKENS and uncached < LOCAL_SHARE * prompt_tokens


class Phases:
    """Learns how fast the replicas are from their steps, and weighs pairs against colocated ones with that."""

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
            self._means.left(report.replica_id)

    def estimate(self, unit: Unit, request: RouteRequest) -> Estimate:
        """What a unit would take for a request."""
        entry, replica = unit.entry, unit.replica
        answers = self._classes.of(replica)
        prompts = answers if unit.prefill is None else self._classes.of(entry)
        output = min(request.expected_output, request.max_tokens)
        context = replica.load.tokens_in_flight + replica.sent_kv_tokens
        alone = answers.decode(1)
        step = answers.decode(sequences(replica) + request.n) + answers.context_seconds * context
        if backlog(replica):
            # Others' prompts are computed between the answer's tokens, and will be as they were of late.
            step = max(step, self._means.of(replica.id))
        delay = prompts.token_seconds * backlog(entry) + prompts.pair_seconds * entry.load.prefill_pairs
        delay += output * max(step - alone, 0.0)
        shortage = kv_need(replica, request) - kv_free(replica)
        if shortage > 0 and replica.load.kv_blocks_total:
            # So much of what runs must end first; each stays about as long as this request would.
            delay += min(shortage / max(context, 1), 1.0) * output * step
        uncached = request.prompt_tokens - request.cached.get(entry.id, 0)
        return Estimate(delay, prompts.token_seconds * uncached + output * alone)

    def prefer(self, whole: Unit | None, pair: Unit | None, request: RouteRequest) -> Preference:
        """The better one of the unit that each group would use; None for a group that is not there."""
        if pair is None or whole is None:
            return Preference(pair is not None, "no pairs" if pair is None else "only pairs")
        cached = request.cached.get(whole.entry.id, 0)
        if stays_local(request.prompt_tokens, cached):
            return Preference(False, "short or cached prompt stays local")
        here, there = self.estimate(whole, request), self.estimate(pair, request)
        bonus = self._bonus(whole, pair, request, cached)
        if bonus is None:
            # Shapes that nobody compared: what is known of the two without a map.
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
