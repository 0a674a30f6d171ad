"""When a replica should be given a further prompt, so that those who are being answered there keep their pace.

An engine computes whatever prompts it has with every step, as many tokens as fit, and every running answer waits for
that step. A gateway that sends prompts as they come lets a burst of them slow all answers down; one that gives each
engine only as much at a time as a step can take beside them keeps the pace, and hardly loses throughput: reading the
weights costs the same whatever the batch.
"""

from typing import Final

from protos.types import Role, Work
from routing.contracts.policy import ReplicaView, RouteRequest
from routing.estimates.replica_class import ReplicaClass
from routing.estimates.silent_steps import is_silent
from routing.estimates.step_means import StepMeans

#: Of the target's TPOT, what is aimed at in the mean, and what a single step may take.
MEAN_PART, STEP_PART = 0.95, 1.4
#: Where even an answer alone takes longer than the target, the aim is what it takes, times this: an aim out of reach
#: would let nothing run beside anything.
LEAST_ROOM: Final = 1.25
#: Of the target's TPOT, up to which mean a replica without any prompt takes one of any length.
REST_PART: Final = 0.85
#: Of an answer's expected length, over how much of it a standstill may be made good.
HORIZON_PART: Final = 0.1
#: Requests in an engine's own queue from which on its scheduler is stuck for lack of room.
ENGINE_QUEUE: Final = 4


class Pacing:
    """Knows the mean step of each replica, by id; `tpot` is the target in seconds."""

    def __init__(self, tpot: float) -> None:
        self._tpot = tpot
        self._means = StepMeans()

    def stepped(self, view: ReplicaView, work: Work) -> None:
        """A replica has done steps, of which this was the last."""
        self._means.stepped(view, work)

    def left(self, replica_id: str) -> None:
        """A replica is gone for good."""
        self._means.left(replica_id)

    def ready(self, view: ReplicaView, replicas: ReplicaClass, request: RouteRequest, strain: float = 1.0) -> bool:
        """Whether the request may have its prompt computed there now, or be handed over to a replica that decodes.

        Answers may take `strain` times the target.
        """
        if view.role is Role.DECODE:
            return has_room(view, request)
        load, fresh = view.load, request.prompt_tokens - request.cached.get(view.id, 0)
        workers = load.workers or 1
        # Every worker sees the same report: of the room that it shows, each takes its part.
        backlog = load.prefill_tokens + view.sent_prompt_tokens * workers
        if not (load.running or load.waiting or view.sent):
            return True
        if not has_room(view, request):
            return False
        if is_silent(view):
            return True  # what its engine computes in a step nobody knows, nor how long that takes
        if view.role is Role.PREFILL:
            return backlog <= view.max_num_tokens
        tpot = max(self._tpot * strain, LEAST_ROOM * replicas.decode(1))
        ahead = (backlog + fresh) * replicas.token_seconds
        if ahead <= STEP_PART * tpot - replicas.context_seconds * load.tokens_in_flight:
            return True
        # A prompt that is longer than a step comes when the answers under way can make its standstill good.
        mean = self._means.of(view.id)
        if not backlog and mean <= REST_PART * tpot:
            return True
        credit = (MEAN_PART * tpot - mean) * request.expected_output * HORIZON_PART
        return backlog <= view.max_num_tokens and ahead <= credit


def has_room(view: ReplicaView, request: RouteRequest) -> bool:
    """Whether the engine would start the request: its KV cache has room for what it must set aside, or will need."""
    load, block = view.load, view.kv_block_tokens
    if load.waiting > ENGINE_QUEUE:
        return False
    if not block or not load.kv_blocks_total:
        return True
    if view.role is Role.PREFILL:
        output = 1.0
    else:
        output = request.max_tokens if view.reserves_output else min(request.expected_output, request.max_tokens)
    free = (load.kv_blocks_total - load.kv_blocks_used - load.kv_blocks_reserved) * block - view.sent_kv_tokens
    return request.prompt_tokens + output * request.n <= free
