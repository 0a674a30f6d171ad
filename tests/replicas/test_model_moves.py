"""Sequences that move between models, as shapes change: none is lost, and no block stays behind."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicas.engine_limits import CapacityPolicy, Limits
from replicas.model import ReplicaModel
from replicas.sequence import Carried, Phase, Sequence
from replicas.timing import FixedTimer

GNE, MAX = CapacityPolicy.GUARANTEED_NO_EVICT, CapacityPolicy.MAX_UTILIZATION
Model = ReplicaModel[Sequence]


def model_of(blocks: int, policy: CapacityPolicy = GNE, batch: int = 8) -> Model:
    limits = Limits(blocks, tokens_per_block=4, max_batch_size=batch, max_num_tokens=16, policy=policy)
    return ReplicaModel(limits, FixedTimer(1.0))


def sequence(prompt: int, steps: int, transferred: bool = False) -> Sequence:
    return Sequence(prompt=prompt, steps=steps, limit=steps, chain=range(1, prompt // 4 + 1), transferred=transferred)


def step(model: Model, now: float) -> list[Sequence]:
    return model.end(now + 1.0) if model.begin(now) is not None else []


def move(sources: list[Model], targets: list[Model], now: float) -> None:
    """Deal everything out to the targets in turn."""
    carried = [one for source in sources for one in source.take_out()]
    for at, target in enumerate(targets):
        target.take_in(carried[at :: len(targets)], now)
    for source in sources:
        assert source.load == model_of(source.limits.kv_blocks).load


def test_a_decoding_sequence_goes_on_at_its_token_without_a_prompt_computed_again() -> None:
    narrow, wide = model_of(16), model_of(64)
    one = sequence(prompt=9, steps=12)
    narrow.submit([one], 0.0)
    for now in range(5):
        step(narrow, now)
    before = one.produced_at(narrow.clock)
    assert one.phase is Phase.DECODE
    move([narrow], [wide], 5.0)
    assert one.produced_at(wide.clock) == before
    assert wide.load.prefill_tokens == 0
    assert wide.cache.used == narrow.cache.blocks_for(9 + before)
    step(wide, 5.0)
    assert wide.work is not None and wide.work.prefill_tokens == 0
    assert one.produced_at(wide.clock) == before + 1


def test_a_half_computed_prompt_goes_on_where_it_was() -> None:
    narrow, wide = model_of(16), model_of(64)
    one = sequence(prompt=40, steps=3)
    narrow.submit([one], 0.0)
    step(narrow, 0.0)
    step(narrow, 1.0)
    move([narrow], [wide], 2.0)
    assert wide.load.prefill_tokens == 8
    ended = [ended for now in range(2, 8) for ended in step(wide, now)]
    assert ended == [one]


def test_what_has_no_room_is_computed_again() -> None:
    wide, narrow = model_of(64), model_of(8)
    both = [sequence(prompt=20, steps=8), sequence(prompt=20, steps=8)]
    for one in both:
        one.chain = ()
        wide.submit([one], 0.0)
    for now in range(4):
        step(wide, now)
    move([wide], [narrow], 4.0)
    assert (narrow.load.running, narrow.load.waiting) == (1, 1)
    ended = [ended for now in range(4, 40) for ended in step(narrow, now)]
    assert ended == both
    assert [one.produced for one in both] == [8, 8]


def test_one_that_never_fits_is_refused_before_anything_has_moved() -> None:
    wide, narrow = model_of(64), model_of(8)
    small, large = sequence(prompt=8, steps=4), sequence(prompt=60, steps=4)
    wide.submit([small], 0.0)
    wide.submit([large], 0.0)
    carried = wide.take_out()
    with pytest.raises(ValueError, match="fit the cache"):
        narrow.take_in(carried, 0.0)
    assert narrow.load == model_of(8).load
    wide.take_in(carried, 0.0)
    assert len([ended for now in range(40) for ended in step(wide, now)]) == 2


def test_shared_prefixes_are_held_once() -> None:
    narrow, other, wide = model_of(32), model_of(32), model_of(64)
    both = [sequence(prompt=16, steps=9), sequence(prompt=16, steps=9)]
    narrow.submit([both[0]], 0.0)
    other.submit([both[1]], 0.0)
    for now in range(3):
        step(narrow, now)
        step(other, now)
    assert narrow.cache.used == other.cache.used == 5
    move([narrow, other], [wide], 3.0)
    assert wide.cache.used == 6


PLAN = st.tuples(st.integers(1, 24), st.integers(1, 20), st.integers(1, 3), st.booleans(), st.integers(0, 30))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(PLAN, min_size=1, max_size=10),
    st.sampled_from([GNE, MAX]),
    st.lists(st.integers(1, 60), max_size=5, unique=True),
    st.integers(2, 4),
    st.integers(0, 5),
)
def test_none_is_lost_and_nothing_leaks(
    plans: list[tuple[int, int, int, bool, int]], policy: CapacityPolicy, moves: list[int], width: int, cancels: int
) -> None:
    models = [model_of(14, policy, batch=4) for _ in range(width)]
    groups: list[list[Sequence]] = []
    ended: list[Sequence] = []
    for now in range(700):
        for at, (prompt, steps, n, transferred, arrival) in enumerate(plans):
            if arrival == now:
                group = [sequence(prompt, steps, transferred) for _ in range(n)]
                groups.append(group)
                models[at % len(models)].submit(group, float(now))
        if now in moves:
            wide = len(models) > 1
            count, blocks = (1, 14 * width) if wide else (width, 14)
            targets = [model_of(blocks, policy, batch=4) for _ in range(count)]
            move(models, targets, float(now))
            models = targets
        for model in models:
            ended += step(model, float(now))
    assert len({id(one) for one in ended}) == len(ended) == sum(len(group) for group in groups)
    assert all(one.produced == one.steps for one in ended)
    for model in models:
        load = model.load
        assert (load.running, load.waiting, load.kv_blocks_used, load.kv_blocks_reserved) == (0, 0, 0, 0)
        assert (load.tokens_in_flight, load.prefill_tokens, load.prefill_pairs) == (0, 0, 0)


def test_carried_sequences_say_what_they_have() -> None:
    model = model_of(32)
    one, two = sequence(prompt=9, steps=6), sequence(prompt=30, steps=6)
    model.submit([one], 0.0)
    for now in range(2):
        step(model, now)
    model.submit([two], 2.0)
    step(model, 2.0)
    late = [sequence(prompt=90, steps=2), sequence(prompt=90, steps=2)]
    model.submit(late, 3.0)
    carried = model.take_out()
    assert carried == [
        Carried(one, 9 + 3 - 1, []),
        Carried(two, 8 + 15, []),  # it shares its first two blocks with the other
        Carried(late[0], 0, [late[1]]),
    ]
