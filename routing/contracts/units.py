"""Units of a decision: replicas that run whole requests, and pairs of a prefill and a decode replica."""

from collections.abc import Iterator, Sequence

import msgspec

from protos.types import Load, Role, Shape
from routing.contracts.policy import Decision, NoCandidate, ReplicaView


class Unit(msgspec.Struct, frozen=True):
    """A candidate. `view` is the replica's own or a pair's combined one; `prefill` is None except for a pair."""

    view: ReplicaView
    replica: ReplicaView
    prefill: ReplicaView | None = None

    @property
    def entry(self) -> ReplicaView:
        """The replica that computes the prompt, and so may have its prefix cached."""
        return self.prefill or self.replica

    def decision(self, reason: str) -> Decision:
        """Return the decision for this unit."""
        return Decision(self.replica, self.prefill, reason)


def units(candidates: Sequence[ReplicaView]) -> list[Unit]:
    """Return all units among the candidates. Raises NoCandidate when there is none.

    Prefill and decode replicas are paired in turn, each in at least one pair, so that a policy without a notion of
    pairs treats each pair as one replica of their joint size.
    """
    found = [Unit(view, view) for view in candidates if view.role is Role.BOTH]
    if len(found) < len(candidates):
        found += (Unit(combined_view(prefill, decode), decode, prefill) for prefill, decode in pairs(candidates))
    if not found:
        raise NoCandidate("there are prefill or decode replicas, but no pair of both")
    return found


def pairs(candidates: Sequence[ReplicaView]) -> Iterator[tuple[ReplicaView, ReplicaView]]:
    """Yield pairs of prefill and decode replicas in turn; nothing where one kind is missing."""
    prefill = [view for view in candidates if view.role is Role.PREFILL]
    decode = [view for view in candidates if view.role is Role.DECODE]
    if prefill and decode:
        for number in range(max(len(prefill), len(decode))):
            yield prefill[number % len(prefill)], decode[number % len(decode)]


def combined_view(prefill: ReplicaView, decode: ReplicaView) -> ReplicaView:
    """Return a pair as a single view: all its GPUs, both loads, the decode side's KV cache."""
    before, after = prefill.load, decode.load
    load = Load(
        running=before.running + after.running,
        waiting=before.waiting + after.waiting,
        kv_blocks_used=after.kv_blocks_used,
        kv_blocks_total=after.kv_blocks_total,
        tokens_in_flight=before.tokens_in_flight + after.tokens_in_flight,
        prefill_tokens=before.prefill_tokens + after.prefill_tokens,
        workers=max(before.workers, after.workers),
        kv_blocks_reserved=after.kv_blocks_reserved,
        prefill_pairs=before.prefill_pairs + after.prefill_pairs,
    )
    return ReplicaView(
        id=f"{prefill.id}+{decode.id}",
        pool=decode.pool,
        shape=Shape(tp=prefill.shape.gpus + decode.shape.gpus),
        role=Role.BOTH,
        load=load,
        sent=prefill.sent + decode.sent,
        sent_prompt_tokens=prefill.sent_prompt_tokens + decode.sent_prompt_tokens,
        sent_kv_tokens=decode.sent_kv_tokens,
        max_batch_size=min(prefill.max_batch_size, decode.max_batch_size),
        kv_block_tokens=decode.kv_block_tokens,
        max_num_tokens=prefill.max_num_tokens,
        reserves_output=decode.reserves_output,
        features=prefill.features & decode.features,
        adapters=prefill.adapters & decode.adapters,
    )
