from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protos.types import KvRemoved, KvStored, Work
from replicas.engine_limits import CapacityPolicy, Limits
from replicas.model import ReplicaModel
from replicas.sequence import Phase, Sequence
from replicas.timing import Batch, FixedTimer, Series

GNE, MAX = CapacityPolicy.GUARANTEED_NO_EVICT, CapacityPolicy.MAX_UTILIZATION


@dataclass(slots=True, eq=False, kw_only=True)
class Told(Sequence):
    """A sequence that can say what it produced."""

    answer: list[int] = field(default_factory=list)

    def content(self, count: int) -> list[int]:
        return self.answer[:count]


def sequence(prompt: int, steps: int, limit: int | None = None, first: int = 0, transferred: bool = False) -> Told:
    return Told(
        prompt=prompt,
        steps=steps,
        limit=steps if limit is None else limit,
        ids=[first + i for i in range(prompt)],
        transferred=transferred,
        answer=[1_000_000 + first + i for i in range(steps)],
    )


@dataclass
class SpyTimer:
    """One second a step, half a second a transfer; remembers the batches."""

    batches: list[Batch] = field(default_factory=list)

    def step_seconds(self, batch: Batch) -> float:
        self.batches.append(batch)
        return 1.0

    def decode_series(self, sequences: int, context: int) -> Series:
        return Series(1.0, 0.0)

    def transfer_seconds(self, tokens: int) -> float:
        return 0.5


def model_of(blocks: int = 64, policy: CapacityPolicy = GNE, batch: int = 8, tokens: int = 64) -> ReplicaModel[Told]:
    limits = Limits(blocks, tokens_per_block=4, max_batch_size=batch, max_num_tokens=tokens, policy=policy)
    return ReplicaModel(limits, FixedTimer(1.0))


def run(model: ReplicaModel[Told], now: float = 0.0, steps: int = 10_000) -> list[Told]:
    ended: list[Told] = []
    for _ in range(steps):
        seconds = model.begin(now)
        if seconds is None:
            return ended
        assert model.load.kv_blocks_used <= model.load.kv_blocks_total
        now += seconds
        ended += model.end(now)
    return ended


def test_a_sequence_ends_after_its_steps_and_leaves_nothing() -> None:
    model = model_of()
    one = sequence(10, 5)
    model.submit([one], 0.0)
    assert model.load.waiting == 1
    assert model.load.tokens_in_flight == 10
    assert model.load.kv_blocks_reserved == 4
    assert run(model) == [one]
    assert model.load.kv_blocks_reserved == 0
    assert (one.produced, one.admitted, one.first_token, one.ended) == (5, 0.0, 1.0, 5.0)
    assert model.load.running == model.load.waiting == model.load.kv_blocks_used == model.load.tokens_in_flight == 0


def test_prompts_are_computed_in_chunks_beside_decoding() -> None:
    timer = SpyTimer()
    model: ReplicaModel[Told] = ReplicaModel(Limits(64, 4, max_batch_size=8, max_num_tokens=10), timer)
    model.submit([sequence(4, 9)], 0.0)
    run(model, steps=1)
    model.submit([sequence(20, 2, first=100)], 0.0)
    run(model)
    assert [(b.decode, b.prefill) for b in timer.batches[:5]] == [(0, 4), (1, 9), (1, 9), (1, 2), (2, 0)]
    assert [b.outputs for b in timer.batches[:5]] == [1, 1, 1, 2, 2]
    assert timer.batches[1].prefill_pairs + timer.batches[2].prefill_pairs + timer.batches[3].prefill_pairs == 210


def test_decode_context_counts_every_token_of_every_decoding_sequence() -> None:
    timer = SpyTimer()
    model: ReplicaModel[Told] = ReplicaModel(Limits(64, 4), timer)
    model.submit([sequence(10, 4)], 0.0)
    model.submit([sequence(20, 3, first=100)], 0.0)
    run(model)
    assert [b.decode_context for b in timer.batches] == [0, 32, 34, 13]


def test_batch_size_bounds_the_running_sequences() -> None:
    model = model_of(batch=2)
    for i in range(5):
        model.submit([sequence(4, 3, first=100 * i)], 0.0)
    model.begin(0.0)
    assert (model.load.running, model.load.waiting) == (2, 3)
    model.end(1.0)
    assert len(run(model, 1.0)) == 5


def test_guaranteed_no_evict_reserves_the_longest_answer() -> None:
    model = model_of(blocks=6)
    long, short = sequence(8, 2, limit=12), sequence(8, 2, limit=2, first=100)
    model.submit([long], 0.0)
    model.submit([short], 0.0)
    model.begin(0.0)
    assert (model.load.running, model.load.kv_blocks_used) == (1, 2)
    model.end(1.0)
    assert run(model, 1.0) == [long, short]


def test_max_utilization_admits_more_then_pauses_the_newest() -> None:
    model = model_of(blocks=6, policy=MAX)
    old, new = sequence(8, 12), sequence(8, 6, first=100)
    model.submit([old], 0.0)
    model.submit([new], 0.0)
    model.begin(0.0)
    assert model.load.running == 2
    model.end(1.0)
    seen = set()
    now = 1.0
    ended: list[Told] = []
    while (seconds := model.begin(now)) is not None:
        seen.add((old.phase, new.phase))
        now += seconds
        ended += model.end(now)
    assert (Phase.DECODE, Phase.WAITING) in seen
    assert (Phase.WAITING, Phase.DECODE) not in seen
    assert set(ended) == {old, new}
    assert (old.produced, new.produced) == (12, 6)
    assert (old.first_token, new.first_token) == (1.0, 1.0)


def test_a_repeated_prompt_computes_only_what_the_cache_lacks() -> None:
    timer = SpyTimer()
    model: ReplicaModel[Told] = ReplicaModel(Limits(64, 4), timer)
    model.submit([sequence(16, 2)], 0.0)
    run(model)
    again = sequence(16, 2)
    model.submit([again], 0.0)
    run(model)
    assert again.cached == 12
    assert [b.prefill for b in timer.batches] == [16, 0, 4, 0]


def test_an_answer_is_reusable_but_for_its_last_token() -> None:
    model = model_of()
    first = sequence(6, 7)
    model.submit([first], 0.0)
    run(model)
    follow = sequence(6, 1)
    follow.ids = first.ids + first.answer + [7, 7, 7]
    follow.prompt = len(follow.ids)
    model.submit([follow], 0.0)
    run(model)
    assert follow.cached == 12


def test_sequences_of_one_request_share_the_prompt() -> None:
    model = model_of()
    group = [sequence(17, 6) for _ in range(3)]
    model.submit(group, 0.0)
    assert model.load.waiting == 3
    model.begin(0.0)
    model.end(1.0)
    model.begin(1.0)
    assert model.load.running == 3
    assert model.load.kv_blocks_used == 4 + 3
    assert [s.cached for s in group] == [0, 0, 0]
    model.end(2.0)
    assert set(run(model, 2.0)) == set(group)


def test_a_transferred_sequence_waits_for_its_kv_and_computes_no_prompt() -> None:
    timer = SpyTimer()
    model: ReplicaModel[Told] = ReplicaModel(Limits(64, 4), timer)
    one = sequence(10, 4, transferred=True)
    model.submit([one], 0.0)
    assert model.begin(0.0) == 0.5
    assert model.load.kv_blocks_used == 3
    assert model.end(0.5) == []
    assert run(model, 0.5) == [one]
    assert [(b.decode, b.prefill) for b in timer.batches] == [(1, 0)] * 3
    assert (one.produced, one.first_token, one.ended) == (4, 0.5, 3.5)


def test_a_transferred_sequence_with_nothing_left_ends_at_once() -> None:
    model = model_of()
    one = sequence(10, 1, transferred=True)
    model.submit([one], 0.0)
    assert run(model) == [one]
    assert model.load.kv_blocks_used == 0


def backlog(model: ReplicaModel[Told]) -> tuple[int, int]:
    return model.load.prefill_tokens, model.load.prefill_pairs


def test_the_backlog_is_what_of_prompts_is_still_to_be_computed() -> None:
    model = model_of(tokens=8)
    model.submit([sequence(10, 3)], 0.0)
    model.submit([sequence(6, 3, first=100)], 0.0)
    assert backlog(model) == (16, 55 + 21)
    run(model, steps=1)
    assert backlog(model) == (2 + 6, 9 + 10 + 21)
    run(model, steps=1)
    assert backlog(model) == (0, 0)


def test_the_backlog_leaves_out_what_the_cache_holds() -> None:
    model = model_of()
    model.submit([sequence(16, 2)], 0.0)
    run(model)
    model.submit([sequence(16, 2)], 0.0)
    assert backlog(model) == (4, 13 + 14 + 15 + 16)
    model.begin(0.0)
    assert backlog(model) == (4, 13 + 14 + 15 + 16)
    model.end(1.0)
    assert backlog(model) == (0, 0)


def test_the_backlog_is_corrected_when_the_cache_has_lost_what_was_expected() -> None:
    model = model_of(blocks=6)
    model.submit([sequence(16, 2)], 0.0)
    run(model)
    model.submit([sequence(16, 2, first=100)], 0.0)
    again = sequence(16, 2)
    model.submit([again], 0.0)
    assert backlog(model)[0] == 16 + 4
    run(model, steps=1)
    assert backlog(model)[0] == 4
    run(model, 1.0, steps=2)
    assert backlog(model)[0] == 0
    assert again.cached is not None
    assert again.cached < 12


def test_sequences_of_one_request_count_the_prompt_once() -> None:
    model = model_of()
    model.submit([sequence(18, 4) for _ in range(3)], 0.0)
    assert backlog(model)[0] == 18 + 2 + 2
    run(model, steps=1)
    assert backlog(model)[0] == 2 + 2


def test_a_transferred_prompt_is_no_backlog() -> None:
    model = model_of()
    model.submit([sequence(18, 4, transferred=True)], 0.0)
    assert backlog(model) == (0, 0)


def test_a_paused_sequence_is_backlog_again() -> None:
    model = model_of(blocks=6, policy=MAX)
    old, new = sequence(8, 12), sequence(8, 6, first=100)
    model.submit([old], 0.0)
    model.submit([new], 0.0)
    now, seen = 0.0, set()
    while (seconds := model.begin(now)) is not None:
        if new.phase is Phase.WAITING:
            seen.add(backlog(model)[0] > 0)
        now += seconds
        model.end(now)
    assert seen == {True}
    assert backlog(model) == (0, 0)


def test_work_says_what_a_step_computes() -> None:
    model = model_of(tokens=12)
    model.submit([sequence(4, 9)], 0.0)
    run(model, steps=1)
    assert model.work == Work(1_000_000, prefill_tokens=4, prefill_pairs=10)
    model.submit([sequence(20, 2, first=100)], 0.0)
    model.begin(1.0)
    assert model.work == Work(1_000_000, prefill_tokens=11, prefill_pairs=66, sequences=1, context=5)
    model.end(2.0)
    run(model, 2.0)
    assert model.begin(99.0) is None
    assert model.work is None


def test_a_prompt_may_be_named_by_its_blocks() -> None:
    model = model_of()
    first = Told(prompt=17, steps=9, limit=9, chain=[11, 12, 13, 14])
    model.submit([first], 0.0)
    run(model)
    again = Told(prompt=17, steps=1, limit=1, chain=(11, 12, 99, 100))
    model.submit([again], 0.0)
    run(model)
    assert (first.cached, again.cached) == (0, 8)
    assert model.cache.reusable == {11, 12, 13, 14, 99, 100}


@pytest.mark.parametrize("steps", range(8))
def test_cancel_frees_everything_in_every_phase(steps: int) -> None:
    model = model_of(tokens=8, batch=2)
    groups = [[sequence(20, 9, first=100 * i) for _ in range(2)] for i in range(2)]
    groups.append([sequence(9, 5, first=900, transferred=True)])
    for group in groups:
        model.submit(group, 0.0)
    run(model, steps=steps)
    model.begin(float(steps))
    for group in groups:
        model.cancel(group, 0.0)
    assert model.end(steps + 1.0) == []
    assert model.begin(steps + 1.0) is None
    load = model.load
    assert load.running == load.waiting == load.kv_blocks_used == load.tokens_in_flight == 0
    assert backlog(model) == (0, 0)


def test_what_cannot_fit_is_the_callers_mistake() -> None:
    model = model_of(blocks=2)
    with pytest.raises(ValueError, match="fit the cache"):
        model.submit([sequence(8, 1)], 0.0)
    with pytest.raises(ValueError, match="max_batch_size"):
        Limits(4, max_batch_size=9, max_num_tokens=8)


def left_to_compute(one: Told) -> int:
    """At most, if the cache holds nothing."""
    if one.phase is Phase.PREFILL or (one.phase is Phase.WAITING and not one.transferred):
        return one.prompt + one.produced
    return one.prompt + one.produced if one.phase is Phase.WAITING and one.admitted is not None else 0


PLAN = st.tuples(
    st.integers(1, 30),  # prompt
    st.integers(1, 20),  # steps
    st.integers(0, 10),  # how much more it may ask for
    st.integers(1, 3),  # sequences
    st.sampled_from([0, 0, 500]),  # which prompts share a prefix
    st.booleans(),  # transferred
    st.integers(0, 12),  # submitted at this step
    st.none() | st.integers(0, 40),  # cancelled at this step
)


@given(st.lists(PLAN, min_size=1, max_size=8), st.sampled_from([GNE, MAX]), st.integers(15, 40), st.integers(4, 40))
# The last of six is paused in its prefill.
@example([(21, 5, 0, 3, 0, False, 0, None), (19, 3, 0, 3, 500, False, 0, None)], MAX, 15, 4)
def test_every_sequence_ends_once_and_no_block_is_lost(
    plans: list[tuple[int, int, int, int, int, bool, int, int | None]],
    policy: CapacityPolicy,
    blocks: int,
    tokens: int,
) -> None:
    model = model_of(blocks, policy, batch=4, tokens=tokens)
    groups = []
    for prompt, steps, more, n, first, transferred, start, stop in plans:
        group = [sequence(prompt, steps, steps + more, first, transferred) for _ in range(n)]
        groups.append((group, start, stop))
    ended: list[Told] = []
    known: set[int] = set()
    for tick in range(3000):
        for group, start, _ in groups:
            if start == tick:
                model.submit(group, float(tick))
        idle = model.begin(float(tick)) is None
        for group, start, stop in groups:
            if stop is not None and max(stop, start) == tick:
                model.cancel(group, float(tick))
        if not idle:
            ended += model.end(tick + 1.0)
        for event in model.cache.drain_events():
            match event.data:
                case KvStored(_, stored):
                    known |= {block for block, _ in stored}
                case KvRemoved(hashes):
                    known -= set(hashes)
        assert known == model.cache.reusable
        load = model.load
        assert 0 <= load.kv_blocks_used <= blocks
        assert load.running <= 4
        assert load.kv_blocks_reserved >= 0
        left = sum(left_to_compute(one) for group, start, _ in groups if start <= tick for one in group)
        assert 0 <= load.prefill_tokens <= left
        assert (load.prefill_pairs > 0) == (load.prefill_tokens > 0)
        assert load.waiting or load.kv_blocks_used + load.kv_blocks_reserved <= blocks
        if idle and tick > 45:
            break
    assert load.running == load.waiting == load.kv_blocks_used == load.tokens_in_flight == 0
    assert load.kv_blocks_reserved == 0
    assert len(ended) == len(set(ended))
    for group, _, stop in groups:
        for one in group:
            assert one.phase is Phase.ENDED
            assert stop is not None or one in ended
            assert one.produced == one.steps or one not in ended
