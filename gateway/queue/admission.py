"""What a fleet can take now: pure functions over the replicas' views.

A request that no replica has room for is better kept here than in an engine's queue, where it can no longer go
elsewhere, cannot be overtaken by a tenant whose turn it is, and holds up whatever comes behind it.

The room of a replica is what its engine's report leaves below the watermark. All workers read that report at the
same time, so between two reports each takes only its part of the room, or one request if its part is smaller.
"""

from collections.abc import Mapping, Sequence

import msgspec

from gateway.queue.shares import ActiveTenant
from routing.policy import ReplicaView

#: Prompt tokens that a tenant may have before their first token on replicas of its choice, while others are active
#: too; a quarter of a step of TensorRT-LLM's default size. Also what may stand before a prompt of any length.
ALLOWANCE_TOKENS = 2048
#: Steps that only prompts fill: as much backlog as keeps an engine busy until the next report.
BACKLOG_STEPS = 2
#: Requests in an engine's own queue, and their part of its running slots, from which on its scheduler is stuck. Until
#: the next step begins, what has just arrived waits there too.
ENGINE_QUEUE = 4
ENGINE_QUEUE_PART = 0.02


class Need(msgspec.Struct, frozen=True):
    """What a request will take: sequences, prompt tokens to compute, tokens in the KV cache as expected and at most."""

    sequences: int
    prompt_tokens: int
    kv_tokens: int
    most_kv_tokens: int

    def kv_at(self, view: ReplicaView) -> int:
        """Tokens in the KV cache that this replica must have room for."""
        return self.most_kv_tokens if view.reserves_output else self.kv_tokens


def sum_of(one: Need, other: Need, sign: int = 1) -> Need:
    """Both together, or with sign -1 the one without the other."""
    return Need(
        one.sequences + sign * other.sequences,
        one.prompt_tokens + sign * other.prompt_tokens,
        one.kv_tokens + sign * other.kv_tokens,
        one.most_kv_tokens + sign * other.most_kv_tokens,
    )


def with_promised(view: ReplicaView, promised: Need) -> ReplicaView:
    """The view as it will be once everything that has leave to run there has been sent."""
    return ReplicaView(
        view.id,
        view.pool,
        view.shape,
        view.role,
        view.load,
        view.sent + promised.sequences,
        view.sent_prompt_tokens + promised.prompt_tokens,
        view.sent_kv_tokens + promised.kv_at(view),
        view.max_batch_size,
        view.kv_block_tokens,
        view.max_num_tokens,
        view.reserves_output,
    )


def fits(view: ReplicaView, need: Need, watermark: float) -> bool:
    """Whether the replica has room for the request now. An empty one has room for whatever it can hold at all."""
    load, sent, slots = view.load, view.sent, view.max_batch_size
    occupied = load.running + load.waiting
    if not occupied and not sent:
        return could_ever(view, need)
    workers = load.workers or 1
    if slots:
        if load.waiting > ENGINE_QUEUE and load.waiting > ENGINE_QUEUE_PART * slots:
            return False
        if not _within(watermark * slots - occupied, sent, need.sequences, workers):
            return False
    if load.kv_blocks_total:
        free = watermark * load.kv_blocks_total - load.kv_blocks_used - load.kv_blocks_reserved
        if not _within(free * view.kv_block_tokens, view.sent_kv_tokens, need.kv_at(view), workers):
            return False
    backlog, sent_prompts = load.prefill_tokens, view.sent_prompt_tokens
    if not view.max_num_tokens or backlog + sent_prompts <= ALLOWANCE_TOKENS:
        return True
    return _within(BACKLOG_STEPS * view.max_num_tokens - backlog, sent_prompts, need.prompt_tokens, workers)


def _within(room: float, sent: int, more: int, workers: int) -> bool:
    """Whether `more` fits beside what was sent: into this worker's part of the room, if it sent anything yet."""
    return sent + more <= (room / workers if sent else room)


def could_ever(view: ReplicaView, need: Need) -> bool:
    """Whether the replica could hold the request if it had nothing else."""
    kv_total = view.load.kv_blocks_total * view.kv_block_tokens
    return (not kv_total or need.kv_at(view) <= kv_total) and (
        not view.max_batch_size or need.sequences <= view.max_batch_size
    )


def has_long_backlog(view: ReplicaView) -> bool:
    """Whether a small request would wait noticeably for prompts before it."""
    most = view.max_num_tokens // 2 or ALLOWANCE_TOKENS
    return view.load.prefill_tokens + view.sent_prompt_tokens > most


def feasible(
    views: Sequence[ReplicaView], need: Need, watermark: float, avoid: frozenset[str] = frozenset()
) -> list[ReplicaView]:
    """The replicas with room, reduced to the best kind of which there are any.

    Best are those that are not to be avoided and have no long backlog, then those without a long backlog.
    """
    room = [view for view in views if fits(view, need, watermark)]
    quick = [view for view in room if not has_long_backlog(view)]
    return [view for view in quick if view.id not in avoid] or quick or room


def usable(
    views: Sequence[ReplicaView], need: Need, lanes: frozenset[str] | None, outside_tokens: int
) -> list[ReplicaView]:
    """The replicas that a tenant may use at all for a request: outside its lanes only within its allowance.

    `outside_tokens` of its prompts are being computed outside already. `lanes` None: everywhere. Where none of its
    lanes could ever hold the request, all replicas that could are its lanes; empty if there is none at all.
    """
    able = [view for view in views if could_ever(view, need)]
    if lanes is None or outside_tokens + need.prompt_tokens <= ALLOWANCE_TOKENS:
        return able
    return [view for view in able if view.id in lanes] or able


def use_of(views: Sequence[ReplicaView]) -> float:
    """How full the fleet is, 0 to 1: of its running slots or of its KV cache, whichever is fuller."""
    slots = slots_used = kv = kv_used = 0
    for view in views:
        load = view.load
        slots += view.max_batch_size
        slots_used += load.running + load.waiting + view.sent
        kv += load.kv_blocks_total * view.kv_block_tokens
        kv_used += (load.kv_blocks_used + load.kv_blocks_reserved) * view.kv_block_tokens + view.sent_kv_tokens
    return max(slots_used / slots if slots else 0.0, kv_used / kv if kv else 0.0)


class Reserve:
    """What part of the fleet must stay free of which tenant; made once for every reading of the fleet's use."""

    #: Of the fleet, what is left to tenants below their share, whatever is reserved for their tiers.
    SPARE = 0.1
    #: Of the fleet, at most so much is kept from anybody: who has no share still gets something through.
    MOST = 0.9

    def __init__(self, active: Sequence[ActiveTenant], share: Mapping[str, float], used: Mapping[str, float]) -> None:
        """`used` is each tenant's part of the fleet now, as far as this worker can tell."""
        missing = {member.name: share[member.name] - used.get(member.name, 0.0) for member in active}
        self._above = {name for name, some in missing.items() if some <= 0.0}
        self._spare = min(sum(max(0.0, some) for some in missing.values()), self.SPARE)
        self._unused: dict[int, float] = {}
        for member in active:
            rest = self._unused.get(member.rank, member.reserved)
            self._unused[member.rank] = rest - used.get(member.name, 0.0)
        self._all_unused = sum(max(0.0, rest) for rest in self._unused.values())

    def kept_from(self, tenant: str, rank: int) -> float:
        """What a tenant at or above its share must leave free, and nothing for one below.

        That is what the other active tiers have reserved and do not use, and at least `SPARE` while any tenant is
        below its share. Not all that the others miss of their shares: they may never ask for it.
        """
        if tenant not in self._above:
            return 0.0
        return min(self.MOST, max(self._all_unused - max(0.0, self._unused.get(rank, 0.0)), self._spare))
