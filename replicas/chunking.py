"""Chunked prefill: which prompt tokens the next step computes."""

from collections.abc import Iterable
from typing import TypeVar

from replicas.sequence import Sequence
from replicas.timing import Batch

S = TypeVar("S", bound=Sequence)


def plan_prefill(prefilling: Iterable[S], budget: int) -> tuple[Batch, list[tuple[S, int]]]:
    """Give `budget` tokens, which decoding leaves of a step, to prompts, oldest first; return what each gets."""
    batch = Batch()
    chunks = []
    for sequence in prefilling:
        if budget <= 0:
            break
        tokens = min(budget, sequence.target - sequence.computed)
        budget -= tokens
        batch.prefill += tokens
        batch.prefill_pairs += tokens * sequence.computed + tokens * (tokens + 1) // 2
        batch.outputs += sequence.computed + tokens == sequence.target
        chunks.append((sequence, tokens))
    return batch, chunks
