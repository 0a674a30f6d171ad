"""What a cache holds goes from one to others: whole chains, and no block twice in one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.types import KvEvent
from replicas.engines.kv_contents import KvContents, blocks_in, runs_of
from replicas.kv_cache import KvCache, extend_chain

SIZE = 2
#: Prompts over few tokens, so that many begin alike.
PROMPTS = st.lists(st.lists(st.integers(0, 2), min_size=SIZE, max_size=12), max_size=12)


def chain_of(ids: list[int]) -> list[int]:
    chain: list[int] = []
    extend_chain(chain, ids, SIZE)
    return chain


def filled(prompts: list[list[int]], blocks: int = 200) -> tuple[KvCache, KvContents]:
    cache, contents = KvCache(blocks, SIZE), KvContents()
    for ids in prompts:
        chain = chain_of(ids)
        matched, _ = cache.match(chain, len(chain))
        table = cache.open(chain[:matched])
        assert cache.grow(table, len(chain) - matched)
        cache.store(table, chain, ids)
        cache.release(table)
    contents.take(cache.drain_events())
    return cache, contents


def names(events: list[KvEvent]) -> KvContents:
    contents = KvContents()
    contents.take(events)
    return contents


@given(PROMPTS)
def test_another_cache_gets_all_that_one_has(prompts: list[list[int]]) -> None:
    cache, contents = filled(prompts)
    (share,) = contents.dealt([[]], [200])
    assert share == cache.reusable
    other = KvCache(200, SIZE)
    other.adopt(runs_of(blocks_in(contents.encode(share))))
    assert other.reusable == cache.reusable
    assert other.used == 0
    assert other.available == 200
    # Its events say the same, so that what it has can go on from there.
    assert names(other.drain_events()).dealt([[]], [200]) == [share]


@given(PROMPTS, st.integers(1, 20), st.integers(1, 4))
def test_shares_are_whole_chains_within_their_room(prompts: list[list[int]], room: int, parts: int) -> None:
    cache, contents = filled(prompts)
    shares = contents.dealt([[]] * parts, [room] * parts)
    for share in shares:
        assert len(share) <= room
        assert share <= cache.reusable
        for block in blocks_in(contents.encode(share)):
            assert block.parent is None or block.parent in share
    if room >= len(cache.reusable):
        assert set().union(*shares) == cache.reusable


@given(PROMPTS, st.integers(1, 10))
def test_a_smaller_cache_takes_what_it_has_room_for(prompts: list[list[int]], room: int) -> None:
    _, contents = filled(prompts)
    (share,) = contents.dealt([[]], [200])
    other = KvCache(room, SIZE)
    other.adopt(runs_of(blocks_in(contents.encode(share))))
    other.adopt(runs_of(blocks_in(contents.encode(share))))
    assert len(other.reusable) == min(room, len(share))
    # Whatever is asked for now, parents outlive children.
    while other.reusable:
        table = other.open([])
        assert other.grow(table, room - len(other.reusable) + 1)
        left = names(other.drain_events())
        assert blocks_in(left.encode(other.reusable)) is not None
        assert all(b.parent is None or b.parent in other.reusable for b in blocks_in(contents.encode(other.reusable)))
        other.release(table)


def test_needed_chains_go_where_they_are_needed_and_begin_anywhere_else_again() -> None:
    _, contents = filled([[1, 1, 2, 2, 3, 3], [1, 1, 2, 2, 4, 4]])
    left, right = chain_of([1, 1, 2, 2, 3, 3]), chain_of([1, 1, 2, 2, 4, 4])
    assert contents.dealt([[left], [right]], [9, 9]) == [set(left), set(right)]
    assert contents.dealt([[[*left, 12345]], []], [9, 9])[0] >= set(left)


def test_other_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="is no KV cache"):
        blocks_in(b"\xc1")
