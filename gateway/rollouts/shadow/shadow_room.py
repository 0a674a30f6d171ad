"""Whether a candidate has room for one more copy of a request. Pure."""

from collections.abc import Sequence
from math import inf
from typing import Final, Literal, get_args

import msgspec

from routing.contracts.policy import ReplicaView

#: Sequences at a time that a replica of an engine is taken to have room for whose batches are not known here: few for
#: an engine.
UNKNOWN_BATCH: Final = 32

#: Why a copy is left out: no replica of the candidate is there, copies have their part of it already, or it is full.
Refusal = Literal["away", "bound", "full"]
#: All reasons, by the names that reports have: a worker that is busy makes no copies either.
REFUSALS: Final = (*get_args(Refusal), "busy")


class Taken(msgspec.Struct):
    """The room that copies of one worker take of a candidate: sequences, and tokens of its KV cache."""

    sequences: int = 0
    tokens: int = 0


def refusal(
    views: Sequence[ReplicaView],
    part: float,
    workers: int,
    taken: Taken,
    *,
    sequences: int,
    tokens: int,
    is_due: bool = False,
) -> Refusal | None:
    """Say why a copy of so many sequences and tokens has no room, None: it has.

    All copies together take no more than `part` of the candidate's batches, but one sequence at least, and of its KV
    caches as far as their size is known. Each of the `workers` has an equal share of both. What is too much for any
    such share has the room of all while its worker `is_due`, as far as the candidate is idle. What the candidate's own
    requests need comes first.
    """
    if not views:
        return "away"
    batch = sum(view.max_batch_size or UNKNOWN_BATCH for view in views)
    caches = [view.load.kv_blocks_total * view.kv_block_tokens for view in views]
    cache = sum(caches) if all(caches) else inf
    busy = sum(view.load.running + view.load.waiting + view.sent for view in views)
    used = sum(
        (view.load.kv_blocks_used + view.load.kv_blocks_reserved) * view.kv_block_tokens + view.sent_kv_tokens
        for view in views
    )
    room, room_tokens = max(batch * part, 1.0), cache * part
    if sequences > room / workers or tokens > room_tokens / workers:
        # What workers before this one have begun in their turns may still be there.
        if (
            not is_due
            or max(busy, taken.sequences) + sequences > room
            or max(used, taken.tokens) + tokens > room_tokens
        ):
            return "bound"
    elif taken.sequences + sequences > room / workers or taken.tokens + tokens > room_tokens / workers:
        return "bound"
    return "full" if busy + sequences > batch or used + tokens > cache else None
