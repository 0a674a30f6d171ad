"""Paces prompts: decides when a replica may get a further prompt without slowing running answers beyond the target.

An engine computes waiting prompts in every step, as many tokens as fit, and each running answer waits for that step. If
prompts are sent as they come, a burst slows all answers down; if each engine gets only as much at a time as a step can
take beside its answers, they keep the pace at hardly any loss of throughput: reading the weights costs the same
whatever the batch.
"""

from typing import Final

from protos.types import Role, Work
from routing.contracts.policy import ReplicaView, RouteRequest
from routing.estimates.replica_class import ReplicaClass
from routing.estimates.silent_steps import is_silent
from routing.estimates.step_means import StepMeans

#: Shares of the target TPOT: the aim for the mean step, and the most for a single step.
MEAN_PART, STEP_PART = 0.95, 1.4
#: Where even a lone answer misses the target, the aim is its time times this: an aim out of reach would let nothing
#: run beside anything.
LEAST_ROOM: Final = 1.25
#: Share of the target TPOT: up to this mean step a replica without prompts takes a prompt of any length.
REST_PART: Final = 0.85
#: Share of an answer's expected length over which it may make up for a standstill.
HORIZON_PART: Final = 0.1
#: Weight of one step in how many prompt tokens are computed for each token of an answer.
RATIO_RATE: Final = 1e-4
#: Full steps of prompts up to which a prefill replica takes one more: one is being computed, as its last report shows
#: it, and the next must be there when that ends.
PREFILL_STEPS: Final = 2
#: Requests in an engine's own queue from which on its scheduler is stuck for lack of room, where it does not only
#: compute prompts: there they are the step to come.
ENGINE_QUEUE: Final = 4


class Pacing:
    """Tracks the mean step of each replica, by id; `tpot` is the target in seconds."""

    def __init__(self, tpot: float) -> None:
        self._tpot = tpot
        self._means = StepMeans()
        # Means of a step, which both begin at 0: their ratio is right from the first step on.
        self._prompt_tokens = self._answer_tokens = 0.0
        #: Prompt tokens that are computed for each token of an answer.
        self._ratio = 0.0

    def stepped(self, view: ReplicaView, work: Work) -> None:
        """Note steps of a replica, of which `work` was the last."""
        self._means.stepped(view, work)
        self._prompt_tokens += RATIO_RATE * (work.prefill_tokens - self._prompt_tokens)
        self._answer_tokens += RATIO_RATE * (work.sequences - self._answer_tokens)
        if self._answer_tokens:
            self._ratio = self._prompt_tokens / self._answer_tokens

    def left(self, replica_id: str) -> None:
        """Drop a replica that is gone for good."""
        self._means.left(replica_id)

    def ready(self, view: ReplicaView, replicas: ReplicaClass, request: RouteRequest, strain: float = 1.0) -> bool:
        """Whether the replica may compute the request's prompt now, or take it over for decoding.

        Answers may take `strain` times the target.
        """
        if view.role is Role.DECODE:
            return has_room(view, request)
        load, fresh = view.load, request.prompt_tokens - request.cached.get(view.id, 0)
        workers = load.workers or 1
        # Every worker sees the same report, so each uses its share of the room that it shows.
        backlog = load.prefill_tokens + view.sent_prompt_tokens * workers
        if not (load.running or load.waiting or view.sent):
            return True
        if not has_room(view, request):
            return False
        if is_silent(view):
            return True  # the engine's step size and step times are unknown
        if view.role is Role.PREFILL:
            return backlog <= PREFILL_STEPS * view.max_num_tokens
        lone, usual = replicas.decode(1), self._ratio * replicas.token_seconds
        tpot = max(self._tpot * strain, LEAST_ROOM * lone)
        if lone + usual > self._tpot:
            # No two usual requests keep the target together: to aim at it would have all wait for a replica that runs
            # nothing. This aim lets a usual prompt in beside a lone answer.
            tpot = max(tpot, lone + usual / HORIZON_PART)
        ahead = (backlog + fresh) * replicas.token_seconds
        if ahead <= STEP_PART * tpot - replicas.context_seconds * load.tokens_in_flight:
            return True
        # A prompt longer than a step may come once the running answers can make up for its standstill.
        mean = self._means.of(view.id)
        if not backlog and mean <= REST_PART * tpot:
            return True
        credit = (MEAN_PART * tpot - mean) * request.expected_output * HORIZON_PART
        return backlog <= view.max_num_tokens and ahead <= credit


def has_room(view: ReplicaView, request: RouteRequest) -> bool:
    """Whether the KV cache has room for what the engine must reserve for the request, or what it will need."""
    load, block = view.load, view.kv_block_tokens
    if load.waiting > ENGINE_QUEUE and view.role is not Role.PREFILL:
        return False
    if not block or not load.kv_blocks_total:
        return True
    if view.role is Role.PREFILL:
        output = 1.0
    else:
        output = request.max_tokens if view.reserves_output else min(request.expected_output, request.max_tokens)
    free = (load.kv_blocks_total - load.kv_blocks_used - load.kv_blocks_reserved) * block - view.sent_kv_tokens
    return request.prompt_tokens + output * request.n <= free
