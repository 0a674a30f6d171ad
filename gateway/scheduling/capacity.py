"""Capacity of a fleet: pure functions over the replicas' views.

A request that no replica has room for is better kept here than in an engine's queue, where it can no longer go
elsewhere, cannot be overtaken by a tenant who is next, and holds up the requests behind it.

The room of a replica is what its engine's report leaves below the watermark. All workers read that report at the
same time, so between two reports each takes only its part of the room, or one request if its part is smaller.
"""

from collections.abc import Mapping, Sequence

import msgspec

from gateway.scheduling.shares import ActiveTenant
from protos.types import Role
from routing.contracts.policy import Decision, ReplicaView

#: Prompt tokens before their first token that a tenant may have on any replicas while others are active too: a
#: quarter of a step of TensorRT-LLM's default size. Also the backlog that a prompt of any length may be added to.
ALLOWANCE_TOKENS = 2048
#: Backlog in steps filled with prompts that keeps an engine busy until its next report.
BACKLOG_STEPS = 2
#: An engine's scheduler is stuck from so many queued requests on, which are also such a part of its slots. Requests
#: that have just arrived are queued too, until the next step begins.
ENGINE_QUEUE = 4
ENGINE_QUEUE_PART = 0.02


class Need(msgspec.Struct, frozen=True):
    """A request's need at one replica: sequences, prompt tokens to compute, KV cache tokens as expected and at most."""

    sequences: int
    prompt_tokens: int
    kv_tokens: int
    most_kv_tokens: int

    def kv_at(self, view: ReplicaView) -> int:
        """KV cache tokens that this replica must have room for."""
        return self.most_kv_tokens if view.reserves_output else self.kv_tokens


class Demand(msgspec.Struct, frozen=True):
    """A request's need of the fleet; `whole` is for a replica that has cached nothing and runs both phases.

    `cached` are prompt tokens that replicas hold, by id: they need not be computed there, but take as much room.
    """

    whole: Need
    cached: Mapping[str, int] = {}

    @property
    def least_prompt_tokens(self) -> int:
        """Prompt tokens to compute at the replica with the most cached."""
        tokens = self.whole.prompt_tokens
        return tokens - max(self.cached.values()) if self.cached else tokens

    def prompt_tokens_at(self, replica_id: str) -> int:
        """Prompt tokens to compute at a replica that runs prefill."""
        return self.whole.prompt_tokens - self.cached.get(replica_id, 0)

    def at(self, view: ReplicaView) -> Need:
        """The need at a replica by its role: a prefill replica computes one token of each sequence."""
        whole = self.whole
        if view.role is Role.BOTH and not self.cached:
            return whole
        if view.role is Role.DECODE:
            return Need(whole.sequences, 0, whole.kv_tokens, whole.most_kv_tokens)
        if view.role is Role.PREFILL:
            tokens = whole.prompt_tokens + whole.sequences
            return Need(whole.sequences, self.prompt_tokens_at(view.id), tokens, tokens)
        if view.id not in self.cached:
            return whole
        return Need(whole.sequences, self.prompt_tokens_at(view.id), whole.kv_tokens, whole.most_kv_tokens)


def parts_of(decision: Decision) -> tuple[ReplicaView, ...]:
    """The replicas of a decision at which a request needs room."""
    return (decision.replica,) if decision.prefill is None else (decision.prefill, decision.replica)


def servable(views: Sequence[ReplicaView]) -> Sequence[ReplicaView]:
    """The views without prefill replicas if there are no decode replicas, and vice versa."""
    for view in views:
        if view.role is not Role.BOTH:
            break
    else:
        return views
    roles = {view.role for view in views}
    if Role.PREFILL in roles and Role.DECODE in roles:
        return views
    return [view for view in views if view.role is Role.BOTH]


def sum_of(one: Need, other: Need, sign: int = 1) -> Need:
    """The sum of two needs, or with sign -1 their difference."""
    return Need(
        one.sequences + sign * other.sequences,
        one.prompt_tokens + sign * other.prompt_tokens,
        one.kv_tokens + sign * other.kv_tokens,
        one.most_kv_tokens + sign * other.most_kv_tokens,
    )


def sums_of(some: Mapping[str, Need], more: Mapping[str, Need]) -> dict[str, Need]:
    """The sums of needs by replica."""
    both = {id_: sum_of(some[id_], need) for id_, need in more.items() if id_ in some}
    return {**some, **more, **both}


def with_promised(view: ReplicaView, promised: Need) -> ReplicaView:
    """The view with the need of admitted requests that have not been sent yet."""
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
        view.features,
        view.adapters,
    )


def fits(view: ReplicaView, need: Need, watermark: float) -> bool:
    """Whether a replica has room for a request now. An idle replica has room for whatever it could ever hold."""
    return not obstacle(view, need, watermark)


def obstacle(view: ReplicaView, need: Need, watermark: float) -> str:
    """Describe why a replica has no room for a request now; empty if it has."""
    load, sent = view.load, view.sent
    occupied = load.running + load.waiting
    if not occupied and not sent:
        return "" if could_ever(view, need) else "too small for this request"
    # Of each kind of room this worker takes only its part once it has sent anything that needs it.
    workers, slots, blocks = load.workers or 1, view.max_batch_size, load.kv_blocks_total
    if slots:
        if load.waiting > ENGINE_QUEUE and load.waiting > ENGINE_QUEUE_PART * slots:
            return "requests wait in its engine"
        room = watermark * slots - occupied
        if sent + need.sequences > (room / workers if sent else room):
            return "no free slots"
    if blocks:
        room = (watermark * blocks - load.kv_blocks_used - load.kv_blocks_reserved) * view.kv_block_tokens
        held = view.sent_kv_tokens
        if held + need.kv_at(view) > (room / workers if held else room):
            return "no room in its KV cache"
    backlog, sent_prompts = load.prefill_tokens, view.sent_prompt_tokens
    if not view.max_num_tokens or backlog + sent_prompts <= ALLOWANCE_TOKENS:
        return ""
    room = BACKLOG_STEPS * view.max_num_tokens - backlog
    if sent_prompts + need.prompt_tokens <= (room / workers if sent_prompts else room):
        return ""
    return "prompts fill its next steps"


def could_ever(view: ReplicaView, need: Need) -> bool:
    """Whether an idle replica could hold the request."""
    slots, kv_total = view.max_batch_size, view.load.kv_blocks_total * view.kv_block_tokens
    if slots and need.sequences > slots:
        return False
    return not kv_total or (need.most_kv_tokens if view.reserves_output else need.kv_tokens) <= kv_total


def has_long_backlog(view: ReplicaView) -> bool:
    """Whether a small request would wait noticeably for prompts before it."""
    most = view.max_num_tokens // 2 or ALLOWANCE_TOKENS
    return view.load.prefill_tokens + view.sent_prompt_tokens > most


def is_roomy(view: ReplicaView, demand: Demand, watermark: float) -> bool:
    """Whether a replica has room for a request now, and no long backlog (`has_long_backlog`, without its call)."""
    if view.load.prefill_tokens + view.sent_prompt_tokens > (view.max_num_tokens // 2 or ALLOWANCE_TOKENS):
        return False
    need = demand.whole if view.role is Role.BOTH and not demand.cached else demand.at(view)
    return not obstacle(view, need, watermark)


def has_room(decision: Decision, demand: Demand, watermark: float) -> bool:
    """Whether the chosen replicas have room for a request now, and no long backlog."""
    if decision.prefill is None:
        return is_roomy(decision.replica, demand, watermark)
    return all(is_roomy(view, demand, watermark) for view in parts_of(decision))


def feasible(
    views: Sequence[ReplicaView], demand: Demand, watermark: float, avoid: frozenset[str] = frozenset()
) -> Sequence[ReplicaView]:
    """The replicas with room, of the best class that can serve the request.

    Best are those that are not to be avoided and have no long backlog, then those without a long backlog.
    """
    room = [view for view in views if fits(view, demand.at(view), watermark)]
    quick = [view for view in room if not has_long_backlog(view)]
    return servable([view for view in quick if view.id not in avoid]) or servable(quick) or servable(room)


def usable(
    views: Sequence[ReplicaView], demand: Demand, lanes: frozenset[str] | None, outside_tokens: int
) -> Sequence[ReplicaView]:
    """The replicas that a tenant may use for a request: its lanes, and others within its allowance.

    `outside_tokens` of its prompts are being computed outside already. `lanes` None: everywhere. Where none of its
    lanes could ever hold the request, all replicas that could are its lanes; empty if there is none at all. Lanes are
    of replicas that compute prompts; decoding is nobody's.
    """
    able = servable([view for view in views if could_ever(view, demand.at(view))])
    if lanes is None:
        return able
    allowed = [
        view
        for view in able
        if view.id in lanes
        or view.role is Role.DECODE
        or outside_tokens + demand.prompt_tokens_at(view.id) <= ALLOWANCE_TOKENS
    ]
    return servable(allowed) or able


def use_of(views: Sequence[ReplicaView]) -> float:
    """The fleet's utilization, 0 to 1: of its running slots or of its KV cache, whichever is fuller.

    Prefill replicas hold requests only for moments, so that their room is nobody's.
    """
    slots = slots_used = kv = kv_used = 0
    for view in views:
        if view.role is Role.PREFILL:
            continue
        load = view.load
        slots += view.max_batch_size
        slots_used += load.running + load.waiting + view.sent
        kv += load.kv_blocks_total * view.kv_block_tokens
        kv_used += (load.kv_blocks_used + load.kv_blocks_reserved) * view.kv_block_tokens + view.sent_kv_tokens
    return max(slots_used / slots if slots else 0.0, kv_used / kv if kv else 0.0)


class Reserve:
    """The part of the fleet that each tenant must leave free; made for each reading of the fleet's utilization."""

    #: Part of the fleet left to tenants below their share, whatever their tiers have reserved.
    SPARE = 0.1
    #: Largest part of the fleet withheld from a tenant, so that one without a share still progresses.
    MOST = 0.9

    def __init__(self, active: Sequence[ActiveTenant], share: Mapping[str, float], used: Mapping[str, float]) -> None:
        """`used` is each tenant's current part of the fleet, as this worker estimates it."""
        missing = {member.name: share[member.name] - used.get(member.name, 0.0) for member in active}
        self._above = {name for name, some in missing.items() if some <= 0.0}
        self._spare = min(sum(max(0.0, some) for some in missing.values()), self.SPARE)
        self._unused: dict[int, float] = {}
        for member in active:
            rest = self._unused.get(member.rank, member.reserved)
            self._unused[member.rank] = rest - used.get(member.name, 0.0)
        self._all_unused = sum(max(0.0, rest) for rest in self._unused.values())

    def withheld_from(self, tenant: str, rank: int) -> float:
        """The part that a tenant at or above its share must leave free; 0 for a tenant below it.

        That is what the other active tiers have reserved and do not use, and at least `SPARE` while any tenant is
        below its share. Not all that the others miss of their shares: they may never ask for it.
        """
        if tenant not in self._above:
            return 0.0
        return min(self.MOST, max(self._all_unused - max(0.0, self._unused.get(rank, 0.0)), self._spare))
