"""What a cache holds goes from one to others: whole chains, and no block twice in one."""

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.types import KvEvent, KvRemoved
from replicas.engines import kv_contents
from replicas.engines.kv_contents import Block, KvContents, blocks_in, first_piece, runs_of
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


def dealt(contents: KvContents, needed: list[list[list[int]]], rooms: list[int]) -> list[set[int]]:
    shares: list[set[int]] = [set() for _ in rooms]
    for _ in contents.dealt(needed, rooms, shares):
        pass
    return shares


def parts_of(contents: KvContents, *shares: set[int] | frozenset[int]) -> list[list[list[Block]]]:
    """The blocks of each share as they arrive: in parts."""
    found: list[list[list[Block]]] = [[] for _ in shares]
    for one in contents.encoded(shares):
        if one is not None:
            found[one[0]].append(blocks_in(one[1]))
    return found


def blocks_of(contents: KvContents, share: set[int] | frozenset[int]) -> list[Block]:
    return [block for part in parts_of(contents, share)[0] for block in part]


def names(events: list[KvEvent]) -> KvContents:
    contents = KvContents()
    contents.take(events)
    return contents


@given(PROMPTS, st.integers(1, 4))
def test_another_cache_gets_all_that_one_has_in_pieces(prompts: list[list[int]], piece: int) -> None:
    with patch.object(kv_contents, "PIECE_BLOCKS", piece):
        cache, contents = filled(prompts)
        (share,) = dealt(contents, [[]], [200])
        assert share == cache.reusable
        other = KvCache(200, SIZE)
        (parts,) = parts_of(contents, share)
        for part in parts:
            assert len(part) <= piece
            other.adopt(runs_of(part))
        assert other.reusable == cache.reusable
        assert other.used == 0
        assert other.available == 200
        # Its events say the same, so that what it has can go on from there.
        assert dealt(names(other.drain_events()), [[]], [200]) == [share]


@given(PROMPTS, st.integers(1, 20), st.integers(1, 4))
def test_shares_are_whole_chains_within_their_room(prompts: list[list[int]], room: int, parts: int) -> None:
    cache, contents = filled(prompts)
    shares = dealt(contents, [[]] * parts, [room] * parts)
    for share in shares:
        assert len(share) <= room
        assert share <= cache.reusable
        for block in blocks_of(contents, share):
            assert block.parent is None or block.parent in share
    if room >= len(cache.reusable):
        assert set().union(*shares) == cache.reusable


@given(PROMPTS, st.integers(1, 10), st.integers(1, 4))
def test_a_smaller_cache_takes_what_it_has_room_for(prompts: list[list[int]], room: int, piece: int) -> None:
    _, contents = filled(prompts)
    (share,) = dealt(contents, [[]], [200])
    other = KvCache(room, SIZE)
    with patch.object(kv_contents, "PIECE_BLOCKS", piece):
        (parts,) = parts_of(contents, share)
    for part in (*parts, *parts):
        other.adopt(runs_of(part))
    assert len(other.reusable) == min(room, len(share))
    # Whatever is asked for now, parents outlive children.
    while other.reusable:
        table = other.open([])
        assert other.grow(table, room - len(other.reusable) + 1)
        left = names(other.drain_events())
        assert blocks_of(left, other.reusable) is not None
        assert all(b.parent is None or b.parent in other.reusable for b in blocks_of(contents, other.reusable))
        other.release(table)


def test_needed_chains_go_where_they_are_needed_and_begin_anywhere_else_again() -> None:
    _, contents = filled([[1, 1, 2, 2, 3, 3], [1, 1, 2, 2, 4, 4]])
    left, right = chain_of([1, 1, 2, 2, 3, 3]), chain_of([1, 1, 2, 2, 4, 4])
    assert dealt(contents, [[left], [right]], [9, 9]) == [set(left), set(right)]
    assert dealt(contents, [[[*left, 12345]], []], [9, 9])[0] >= set(left)


def test_dealing_looks_at_a_piece_at_a_time() -> None:
    _, contents = filled([[number, 7, *range(10)] for number in range(20)])
    share: set[int] = set()
    with patch.object(kv_contents, "PIECE_BLOCKS", 8):
        assert sum(1 for _ in contents.dealt([[]], [200], [share])) == len(share) // 8 == 15
        # All blocks are looked at again for what is said, also where nobody is to hear it.
        assert [one for one in contents.encoded([()]) if one is not None] == []
        assert sum(1 for _ in contents.encoded([()])) == 15


def test_many_events_are_told_a_piece_at_a_time() -> None:
    events = [KvEvent(at, KvRemoved(tuple(range(100)))) for at in range(5)]
    assert first_piece(events) == 2
    assert first_piece(events[:1]) == 1
    assert first_piece([KvEvent(0, KvRemoved(tuple(range(1000)))), *events]) == 1
    assert first_piece([]) == 0


def test_other_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="is no KV cache"):
        blocks_in(b"\xc1")
