from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from protos.types import KvCreated, KvEvent, KvRemoved, KvStored
from replicas.kv_cache import BlockTable, KvCache, extend_chain


def chain_of(ids: list[int], size: int = 4, salt: str = "") -> list[int]:
    chain: list[int] = []
    extend_chain(chain, ids, size, salt)
    return chain


def replay(events: list[KvEvent]) -> set[int]:
    """What an index that only sees the events believes the cache can reuse."""
    known: set[int] = set()
    for expected, event in zip(count(events[0].event_id if events else 0), events, strict=False):
        assert event.event_id == expected
        match event.data:
            case KvStored(parent, blocks):
                assert parent is None or parent in known
                for block, tokens in blocks:
                    assert tokens
                    assert block not in known
                    known.add(block)
            case KvRemoved(hashes):
                for block in hashes:
                    known.remove(block)
            case KvCreated():
                assert event.event_id == 0
    return known


def test_hashes_are_the_same_in_every_process_and_cover_the_prefix() -> None:
    assert chain_of([1, 2, 3, 4, 5, 6, 7, 8, 9]) == [0x09222804E3E39BA2, 0x6A0DC80E40B48E82]
    assert chain_of([9, 2, 3, 4, 5, 6, 7, 8])[1] != chain_of([1, 2, 3, 4, 5, 6, 7, 8])[1]
    assert chain_of([1, 2, 3]) == []


def test_salt_separates_equal_prompts() -> None:
    plain, salted = chain_of([1, 2, 3, 4]), chain_of([1, 2, 3, 4], salt="tenant")
    assert plain != salted
    assert salted == chain_of([1, 2, 3, 4], salt="tenant")


def test_a_chain_grows_to_what_it_would_have_been_at_once() -> None:
    ids = list(range(16))
    chain = chain_of(ids[:7], salt="s")
    extend_chain(chain, ids, 4, "s")
    assert chain == chain_of(ids, salt="s")


def test_stored_blocks_are_found_held_and_counted() -> None:
    cache = KvCache(4, 4)
    ids = list(range(10))
    chain = chain_of(ids)
    table = BlockTable()
    assert cache.grow(table, 3)
    cache.store(table, chain, ids)
    assert cache.match(chain, 9) == (2, 0)
    assert cache.match(chain, 1) == (1, 0)
    cache.release(table)
    assert (cache.used, cache.available) == (0, 4)
    assert cache.match(chain, 9) == (2, 2)
    again = cache.open(chain[:1])
    assert cache.used == 1
    assert len(again) == 1


def test_a_duplicate_is_freed_when_it_is_stored() -> None:
    cache = KvCache(4, 4)
    ids = [1, 2, 3, 4]
    first, second = BlockTable(), BlockTable()
    assert cache.grow(first, 1)
    assert cache.grow(second, 1)
    cache.store(first, chain_of(ids), ids)
    assert cache.used == 2
    cache.store(second, chain_of(ids), ids)
    assert cache.used == 1
    cache.release(first)
    assert cache.used == 1
    cache.release(second)
    assert cache.used == 0


def test_eviction_takes_the_least_recently_used_and_children_first() -> None:
    cache = KvCache(3, 4)
    old, new = list(range(8)), [50, 51, 52, 53]
    for ids in (old, new):
        table = BlockTable()
        assert cache.grow(table, len(ids) // 4)
        cache.store(table, chain_of(ids), ids)
        cache.release(table)
    cache.drain_events()
    table = BlockTable()
    assert cache.grow(table, 1)
    assert [e.data for e in cache.drain_events()] == [KvRemoved((chain_of(old)[1],))]
    assert cache.grow(table, 1)
    assert cache.reusable == {chain_of(new)[0]}


def test_more_than_there_is_changes_nothing() -> None:
    cache = KvCache(2, 4)
    table = BlockTable()
    assert not cache.grow(table, 3)
    assert (len(table), cache.used) == (0, 0)


def test_events_start_with_the_cache_itself_and_name_parents() -> None:
    cache = KvCache(8, 4)
    ids = list(range(12))
    chain = chain_of(ids)
    table = BlockTable()
    assert cache.grow(table, 3)
    cache.store(table, chain[:2], ids)
    cache.store(table, chain, ids)
    created, first, second = cache.drain_events()
    assert created == KvEvent(0, KvCreated((8, 0)))
    assert first == KvEvent(1, KvStored(None, ((chain[0], (0, 1, 2, 3)), (chain[1], (4, 5, 6, 7)))))
    assert second == KvEvent(2, KvStored(chain[1], ((chain[2], (8, 9, 10, 11)),)))


@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(st.integers(0, 1), max_size=14), st.integers(0, 9)), min_size=1, max_size=60
    )
)
def test_events_tell_exactly_what_is_reusable_and_no_block_is_lost(script: list[tuple[bool, list[int], int]]) -> None:
    cache = KvCache(6, 2)
    tables: list[BlockTable] = []
    events: list[KvEvent] = []
    for opens, ids, which in script:
        if opens:
            chain = chain_of(ids, 2)
            matched, idle = cache.match(chain, len(chain))
            need = len(chain) + 1 - matched
            if need <= cache.available - idle:
                table = cache.open(chain[:matched])
                assert cache.grow(table, need)
                cache.store(table, chain, ids)
                tables.append(table)
        elif tables:
            cache.release(tables.pop(which % len(tables)))
        events += cache.drain_events()
        assert 0 <= cache.used <= cache.blocks_total
        assert replay(events) == cache.reusable
    for table in tables:
        cache.release(table)
    assert cache.used == 0


def test_a_cache_grows_and_shrinks_by_what_is_idle() -> None:
    cache = KvCache(4, tokens_per_block=4)
    chain = chain_of(list(range(12)))
    table = cache.open([])
    assert cache.grow(table, 3)
    cache.store(table, chain, list(range(12)))
    assert not cache.resize(2)
    assert cache.blocks_total == 4
    cache.release(table)
    assert cache.resize(8)
    assert (cache.available, cache.used) == (8, 0)
    assert cache.resize(2)
    assert (cache.available, cache.used) == (2, 0)
    # The end of the chain went first.
    assert cache.reusable == frozenset(chain[:2])


def test_only_idle_blocks_are_given_up() -> None:
    cache = KvCache(8, tokens_per_block=4)
    for ids in (range(8), range(20, 28)):
        table = cache.open([])
        assert cache.grow(table, 2)
        cache.store(table, chain_of(list(ids)), list(ids))
        if ids.start:
            cache.release(table)
    cache.keep_only(frozenset(chain_of(list(range(20, 28)))[:1]))
    assert cache.reusable == {*chain_of(list(range(8))), chain_of(list(range(20, 28)))[0]}
    assert cache.used == 2
