import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from routing.prefix import prefix_index
from routing.prefix.prefix_index import PrefixIndex

# A few prompts that share beginnings; a block is named by the prompt up to its end, as a hash would.
PROMPTS = ("aaaa", "aabb", "abcdef", "b", "bcdb", "bcde")
NAMES = {text[:end]: random.Random(text[:end]).getrandbits(64) for text in PROMPTS for end in range(1, len(text) + 1)}


def chain_of(text: str) -> list[int]:
    return [NAMES[text[:end]] for end in range(1, len(text) + 1)]


def blocks_by_name(index: PrefixIndex, chain: list[int]) -> dict[str, int]:
    groups = index.match(chain)
    assert [blocks for blocks, _ in groups] == sorted({blocks for blocks, _ in groups})
    found = {name: blocks for blocks, names in groups for name in names}
    assert len(found) == sum(len(names) for _, names in groups)
    return found


class Index(RuleBasedStateMachine):
    """Against sets: each holder's blocks are closed under prefixes, as an engine's are."""

    def __init__(self) -> None:
        super().__init__()
        self.index = PrefixIndex(1000)
        self.model: dict[int, set[str]] = {}
        self.added = 0

    @rule()
    def add(self) -> None:
        holder = self.index.add(f"replica {self.added}")
        assert holder not in self.model
        self.model[holder] = set()
        self.added += 1

    @precondition(lambda self: self.model)
    @rule(data=st.data(), prompt=st.sampled_from(PROMPTS))
    def store(self, data: st.DataObject, prompt: str) -> None:
        holder = data.draw(st.sampled_from(sorted(self.model)))
        end = data.draw(st.integers(0, len(prompt)))
        self.index.store(holder, chain_of(prompt[:end]))
        self.model[holder] |= {prompt[:i] for i in range(1, end + 1)}

    @precondition(lambda self: self.model)
    @rule(data=st.data(), prompt=st.sampled_from(PROMPTS))
    def remove(self, data: st.DataObject, prompt: str) -> None:
        holder = data.draw(st.sampled_from(sorted(self.model)))
        root = prompt[: data.draw(st.integers(1, len(prompt)))]
        gone = [name for name in NAMES if name.startswith(root)]
        self.index.remove(holder, [NAMES[name] for name in gone])
        self.model[holder] -= set(gone)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        holder = data.draw(st.sampled_from(sorted(self.model)))
        self.index.drop(holder)
        del self.model[holder]

    @invariant()
    def matches_what_is_held(self) -> None:
        for prompt in PROMPTS:
            expected = {}
            for holder, held in self.model.items():
                depth = sum(prompt[:end] in held for end in range(1, len(prompt) + 1))
                if depth:
                    expected[self.index._names[holder]] = depth
            assert blocks_by_name(self.index, chain_of(prompt)) == expected

    @invariant()
    def counts_its_blocks(self) -> None:
        assert len(self.index) == sum(len(shard) for shard in self.index._shards)

    def teardown(self) -> None:
        for holder in self.model:
            self.index.drop(holder)
        other = self.index.add("other")
        for _ in range(3):
            self.index.store(other, ())
        assert len(self.index) == 0
        assert not self.index._dead | self.index._retired


TestIndex = Index.TestCase


def hashes(count: int, seed: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.getrandbits(64) for _ in range(count)]


def test_nothing_is_found_where_nothing_is() -> None:
    index = PrefixIndex(10)
    assert index.match([]) == []
    assert index.match([1, 2]) == []
    with pytest.raises(ValueError, match="room"):
        PrefixIndex(0)


def test_many_holders_of_one_prompt_each_as_far_as_theirs_goes() -> None:
    index, chain = PrefixIndex(10_000), hashes(125, 1)
    for number in range(300):
        index.store(index.add(str(number)), chain[: number % 125 + 1])
    found = blocks_by_name(index, chain)
    assert found == {str(number): number % 125 + 1 for number in range(300)}


@given(st.lists(st.integers(0, 2**64 - 1), max_size=400), st.integers(1, 40))
def test_it_never_holds_more_than_its_bound(names: list[int], most: int) -> None:
    index = PrefixIndex(most)
    holder = index.add("a")
    for name in names:
        index.store(holder, [name])
        assert len(index) == sum(len(shard) for shard in index._shards) <= most
        assert index.holds(holder, name)


def test_names_that_are_no_hashes_do_not_break_the_bound() -> None:
    index = PrefixIndex(5000)
    holder = index.add("a")
    index.store(holder, (number * 1024 for number in range(4000)))
    index.store(holder, (number * 1024 + number % 1024 for number in range(4000, 9000)))
    assert len(index) <= 5000


def test_what_is_asked_for_outlives_what_is_not() -> None:
    index = PrefixIndex(20_000)
    holder, system_prompt = index.add("a"), hashes(50, 1)
    index.store(holder, system_prompt)
    for number in range(200):
        chain = system_prompt + hashes(500, 100 + number)
        assert index.match(chain) == [(50, ("a",))]
        index.store(holder, chain[50:])
    assert len(index) <= 20_000


def test_a_holder_of_many_blocks_is_forgotten_at_once_and_swept_a_little_at_a_time() -> None:
    index = PrefixIndex(200_000)
    old, new = index.add("old"), index.add("new")
    chain = hashes(100_000, 1)
    index.store(old, chain)
    index.store(new, chain[:50_000])
    before = len(index)
    index.drop(old)
    assert len(index) == before
    assert index.match(chain) == [(50_000, ("new",))]
    calls = 0
    while index._dead | index._retired:
        left = len(index)
        index.store(new, ())
        assert left - len(index) <= 2 * prefix_index.SWEEP_BLOCKS
        calls += 1
    assert calls > 20
    assert len(index) == 50_000
    assert index.add("next") == old


def test_a_holder_that_comes_and_goes_needs_no_end_of_bits() -> None:
    index = PrefixIndex(100_000)
    staying = index.add("staying")
    index.store(staying, hashes(50_000, 1))
    for number in range(2000):
        holder = index.add("flapping")
        index.store(holder, hashes(10, number))
        index.drop(holder)
    assert index._next < 1 << 200
    index.store(index.add("last"), hashes(3, 0))
    assert len(index.match(hashes(50_000, 1))) == 1


def test_equal_masks_are_one_object() -> None:
    index, chain = PrefixIndex(10_000), hashes(1000, 1)
    for number in range(40):
        index.store(index.add(str(number)), chain)
    masks = [shard[name] for shard in index._shards for name in shard]
    assert len({id(mask) for mask in masks}) == 1
