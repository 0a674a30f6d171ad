import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protos.packed_ids import PackedIds
from protos.prefix_hash import hashes_of_packed, prefix_hashes, root_of
from routing.prefix import chain_memo
from routing.prefix.chain_memo import GROUP_BLOCKS, ChainMemo
from routing.prefix.prefix_directory import PrefixDirectory
from tests.complexity import bytecodes

SIZE = 4


@settings(max_examples=100)
@given(data=st.data(), most=st.sampled_from([1, 3, 100]))
def test_hashes_are_those_without_the_memo(data: st.DataObject, most: int) -> None:
    memo = ChainMemo(most)
    prompts: list[list[int]] = [[]]
    for _ in range(6):
        earlier = data.draw(st.sampled_from(prompts))
        kept = data.draw(st.integers(0, len(earlier)))
        first = data.draw(st.integers(0, 3))
        ids = earlier[:kept] + list(range(first, first + data.draw(st.integers(0, 700))))
        prompts.append(ids)
        size, root = data.draw(st.sampled_from([1, 4, 32])), data.draw(st.sampled_from([0, root_of("a")]))
        assert memo.hashes(PackedIds.of(ids), size, root) == prefix_hashes(ids, size, root)
        assert len(memo) <= most


def test_of_a_longer_prompt_only_the_end_is_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[int] = []
    whole = hashes_of_packed

    def counted(packed: memoryview, block_tokens: int, parent: int) -> list[int]:
        hashes = whole(packed, block_tokens, parent)
        hashed.append(len(hashes))
        return hashes

    monkeypatch.setattr(chain_memo, "hashes_of_packed", counted)
    memo, ids = ChainMemo(), PackedIds.of(range(SIZE * GROUP_BLOCKS * 40))
    memo.hashes(ids, SIZE, 0)
    assert sum(hashed) == GROUP_BLOCKS * 40
    hashed.clear()
    memo.hashes(PackedIds.joined([ids, PackedIds.of(range(SIZE * 10))]), SIZE, 0)
    assert sum(hashed) == 10
    hashed.clear()
    memo.hashes(ids, SIZE, root_of("another"))
    assert sum(hashed) == GROUP_BLOCKS * 40


def test_a_known_prompt_takes_a_step_for_a_group_of_blocks() -> None:
    memo, ids = ChainMemo(), PackedIds.of(range(SIZE * GROUP_BLOCKS * 40))
    memo.hashes(ids, SIZE, 0)
    assert bytecodes(lambda: memo.hashes(ids, SIZE, 0)) < 40 * 60


def test_the_directory_finds_packed_prompts() -> None:
    directory, ids = PrefixDirectory(), list(range(5_000))
    directory.joined("small", 4, 10_000, exact=False)
    directory.joined("large", 16, 10_000, exact=False)
    found = directory.look_up(PackedIds.of(ids), "salt")
    assert found == directory.look_up(ids, "salt")
    directory.routed("large", found.chain)
    assert directory.look_up(PackedIds.of(ids), "salt").cached == {"large": 4_992}
    assert directory.look_up(PackedIds.of(ids), "other").cached == {}
