from functools import partial
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.rollouts.shadow.shadow_room import Refusal, Taken, refusal
from protos.types import Load, Role, Shape
from routing.contracts.policy import ReplicaView


def view(*, batch: int = 8, blocks: int = 100, running: int = 0, used: int = 0, sent: int = 0) -> ReplicaView:
    load = Load(running=running, kv_blocks_total=blocks, kv_blocks_used=used)
    return ReplicaView("r", "p", Shape(tp=1), Role.BOTH, load, sent=sent, max_batch_size=batch, kv_block_tokens=16)


@pytest.mark.parametrize(
    ("views", "taken", "refused"),
    [
        ([], Taken(), "away"),
        ([view()], Taken(), None),
        ([view()], Taken(sequences=3), None),
        # Half of 8 sequences, and of 1,600 tokens.
        ([view()], Taken(sequences=4), "bound"),
        ([view(), view()], Taken(sequences=4), None),
        ([view()], Taken(tokens=700), None),
        ([view()], Taken(tokens=701), "bound"),
        ([view(running=7)], Taken(), None),
        ([view(running=7, sent=1)], Taken(), "full"),
        ([view(used=93)], Taken(), None),
        ([view(used=94)], Taken(), "full"),
        # What an upstream has is not known: a guess at its batch, nothing of its cache.
        ([view(batch=0, blocks=0)], Taken(sequences=15, tokens=10**9), None),
        ([view(batch=0, blocks=0)], Taken(sequences=16), "bound"),
    ],
)
def test_copies_have_a_part_of_the_candidate(views: list[ReplicaView], taken: Taken, refused: Refusal | None) -> None:
    assert refusal(views, 0.5, 1, taken, sequences=1, tokens=100) == refused


def test_a_share_that_rounds_to_nothing_is_taken_in_turn() -> None:
    small, asked = view(batch=4), partial(refusal, part=0.5, taken=Taken(), sequences=1, tokens=100)
    # Each of five workers has two fifths of a sequence.
    assert asked([small], workers=5) == "bound"
    assert asked([small], workers=5, is_due=True) is None
    # What the worker before has begun in its turn is still there.
    assert asked([view(batch=4, running=1)], workers=5, is_due=True) is None
    assert asked([view(batch=4, running=2)], workers=5, is_due=True) == "bound"
    # A batch of one has room for one copy, whatever part of it is given.
    assert asked([view(batch=1)], workers=2, is_due=True) is None
    # Long prompts have their turns, too: 400 tokens of 800 for both.
    assert asked([view()], workers=2, tokens=500) == "bound"
    assert asked([view()], workers=2, tokens=500, is_due=True) is None
    assert asked([view()], workers=2, tokens=801, is_due=True) == "bound"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 16), st.integers(1, 50)), min_size=1, max_size=3),
    st.floats(0.01, 1.0),
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 200)), max_size=40),
    st.booleans(),
)
def test_all_workers_together_never_take_more(
    sizes: list[tuple[int, int]], part: float, workers: int, copies: list[tuple[int, int]], in_turn: bool
) -> None:
    taken, largest = [Taken() for _ in range(workers)], 0
    room = max(part * sum(batch for batch, _ in sizes), 1.0)
    cache = part * sum(16 * blocks for _, blocks in sizes)
    for number, (sequences, tokens) in enumerate(copies):
        own = taken[number % workers]
        (batch, blocks), *others = sizes
        busy, used = sum(each.sequences for each in taken), sum(each.tokens for each in taken)
        first = view(batch=batch, blocks=blocks, running=busy, used=ceil(used / 16))
        views = [first, *(view(batch=batch, blocks=blocks) for batch, blocks in others)]
        if refusal(views, part, workers, own, sequences=sequences, tokens=tokens, is_due=in_turn) is None:
            own.sequences += sequences
            own.tokens += tokens
            if sequences > room / workers or tokens > cache / workers:
                # It had all the room, and nothing beside it.
                assert busy + sequences <= room + 1e-6
                assert used + tokens <= cache + 1e-6
                largest = max(largest, sequences, tokens)
    if not largest:
        assert sum(own.sequences for own in taken) <= room + 1e-6
        assert sum(own.tokens for own in taken) <= cache + 1e-6
