import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.prefix_hash import prefix_hashes, root_of
from protos.types import KvCreated, KvEvent, KvRemoved, KvStored, KvUpdate
from replicas import kv_events
from replicas.kv_events import KvFeed, KvLedger

SIZE = 2
A, B, C = (1, 2), (3, 4), (5, 6)


class Follower:
    """A worker that does what it is told."""

    def __init__(self) -> None:
        self.held: set[int] = set()
        self.updates = 0

    def hear(self, update: KvUpdate) -> None:
        self.updates += 1
        assert update.update_id == self.updates
        assert len(update.stored) + len(update.removed) <= kv_events.MAX_UPDATE_HASHES
        assert not set(update.stored) & set(update.removed)
        if update.reset:
            self.held.clear()
        self.held |= set(update.stored)
        self.held -= set(update.removed)

    def hear_all(self, feed: KvFeed) -> None:
        while (update := feed.take()) is not None:
            self.hear(update)


def ledger_of(*data: KvCreated | KvStored | KvRemoved, blocks: int = 100) -> KvLedger:
    ledger = KvLedger(SIZE, blocks)
    ledger.take(KvEvent(i, each) for i, each in enumerate(data))
    return ledger


def names(*blocks: tuple[int, ...], salt: str = "") -> set[int]:
    return set(prefix_hashes([token for block in blocks for token in block], SIZE, root_of(salt)))


def test_blocks_get_the_names_that_a_gateway_works_out() -> None:
    ledger = ledger_of(
        KvStored(None, ((100, A), (101, B))), KvStored(101, ((102, C),)), KvStored(None, ((200, A),), salt="tenant")
    )
    assert ledger.held.keys() == names(A, B, C) | names(A, salt="tenant")
    assert names(A) & names(A, salt="tenant") == set()


def test_the_last_of_two_blocks_with_one_name_takes_it_along() -> None:
    ledger = ledger_of(KvStored(None, ((100, A),)), KvStored(None, ((200, A),)), KvStored(200, ((201, B),)))
    follower, feed = Follower(), ledger.subscribe()
    follower.hear_all(feed)
    ledger.take([KvEvent(3, KvRemoved((100, 999)))])
    assert not feed
    ledger.take([KvEvent(4, KvRemoved((200,)))])
    follower.hear_all(feed)
    assert follower.held == ledger.held.keys() == names(A, B) - names(A)


def test_a_block_stored_twice_counts_once() -> None:
    ledger = ledger_of(KvStored(None, ((100, A),)), KvStored(None, ((100, A),)), KvRemoved((100,)))
    assert not ledger.held


def test_an_engine_name_that_comes_again_with_other_tokens_is_another_block() -> None:
    assert ledger_of(KvStored(None, ((100, A),)), KvStored(None, ((100, B),))).held.keys() == names(B)


def test_what_has_no_name_is_left_out() -> None:
    ledger = ledger_of(
        KvStored(77, ((100, A), (101, B))),  # under a parent that is not known
        KvStored(100, ((102, C),)),
        KvStored(None, ((200, A), (201, (1,)), (202, B))),  # a block that is not full, and one under it
    )
    assert ledger.held.keys() == names(A)


def test_there_are_no_more_blocks_than_the_cache_has() -> None:
    stored = tuple((i, (i, i)) for i in range(20))
    assert len(ledger_of(KvStored(None, stored), blocks=7).held) == 7
    assert len(ledger_of(KvCreated((7, 5)), KvStored(None, stored), blocks=7).held) == 12


@pytest.mark.parametrize("event_id", [0, 2, 5])
def test_a_gap_voids_everything(event_id: int, caplog: pytest.LogCaptureFixture) -> None:
    ledger = ledger_of(KvStored(None, ((100, A),)))
    follower, feed = Follower(), ledger.subscribe()
    follower.hear_all(feed)
    assert follower.held == names(A)
    with caplog.at_level(logging.WARNING):
        ledger.take([KvEvent(event_id, KvStored(100, ((101, B),)))])
    assert "all is void" in caplog.text
    follower.hear_all(feed)
    assert follower.held == ledger.held.keys() == set()
    ledger.take([KvEvent(event_id + 1, KvStored(None, ((100, A), (101, B))))])
    follower.hear_all(feed)
    assert follower.held == names(A, B)


def test_events_may_begin_anywhere() -> None:
    ledger = KvLedger(SIZE, 100)
    ledger.take([KvEvent(71, KvStored(None, ((100, A),))), KvEvent(72, KvStored(100, ((101, B),)))])
    assert ledger.held.keys() == names(A, B)


def test_nothing_is_said_of_an_engine_that_says_nothing() -> None:
    ledger = KvLedger(SIZE, 100)
    feed = ledger.subscribe()
    assert not feed
    assert feed.take() is None
    ledger.take([KvEvent(0, KvCreated((100,)))])
    assert feed.take() == KvUpdate(1, reset=True, stored=[], removed=[])


def test_a_snapshot_comes_in_parts_and_changes_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_events, "MAX_UPDATE_HASHES", 3)
    ledger = ledger_of(KvStored(None, tuple((i, (i, i)) for i in range(10))))
    follower, feed = Follower(), ledger.subscribe()
    first = feed.take()
    assert first is not None
    assert (first.reset, len(first.stored)) == (True, 3)
    follower.hear(first)
    ledger.take([KvEvent(1, KvRemoved(tuple(range(8)))), KvEvent(2, KvStored(None, ((50, A),)))])
    follower.hear_all(feed)
    assert follower.held == ledger.held.keys()
    assert len(follower.held) == 3


def test_a_worker_that_does_not_read_gets_all_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_events, "MAX_PENDING_HASHES", 10)
    ledger = ledger_of(KvCreated((1000,)))
    follower, feed = Follower(), ledger.subscribe()
    follower.hear_all(feed)
    for i in range(50):
        ledger.take([KvEvent(1 + i, KvStored(None, ((i, (i, i)),)))])
        assert len(feed._touched) <= 10
    update = feed.take()
    assert update is not None
    assert update.reset
    follower.hear(update)
    follower.hear_all(feed)
    assert follower.held == ledger.held.keys()
    assert len(follower.held) == 50


def test_who_has_left_is_told_no_more() -> None:
    ledger = ledger_of(KvCreated((1000,)))
    feed = ledger.subscribe()
    feed.take()
    ledger.unsubscribe(feed)
    ledger.take([KvEvent(1, KvStored(None, ((1, A),)))])
    assert not feed


MOVES = st.one_of(
    st.tuples(st.just("store"), st.integers(0, 12), st.none() | st.integers(0, 12), st.sampled_from([A, B, C, (9,)])),
    st.tuples(st.just("remove"), st.integers(0, 12)),
    st.sampled_from([("gap",), ("read",), ("late",), ("resync",)]),
)


@given(st.lists(MOVES, max_size=60), st.integers(1, 4), st.integers(1, 6))
def test_whatever_happens_a_worker_that_reads_all_knows_all(
    moves: list[tuple[object, ...]], part: int, most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kv_events, "MAX_UPDATE_HASHES", part)
        patch.setattr(kv_events, "MAX_PENDING_HASHES", most)
        ledger, event_id = ledger_of(KvCreated((8,)), blocks=8), 1
        workers = [(Follower(), ledger.subscribe())]
        for move in moves:
            match move:
                case ("store", int(block), parent, tokens):
                    data: KvStored | KvRemoved = KvStored(parent, ((block, tokens),))  # type: ignore[arg-type]
                    ledger.take([KvEvent(event_id, data)])
                    event_id += 1
                case ("remove", int(block)):
                    ledger.take([KvEvent(event_id, KvRemoved((block,)))])
                    event_id += 1
                case ("gap",):
                    event_id += 1
                case ("late",):
                    workers.append((Follower(), ledger.subscribe()))
                case ("resync",):
                    workers[0][1].restart()
                case _:
                    for follower, feed in workers:
                        update = feed.take()
                        if update is not None:
                            follower.hear(update)
            assert len(ledger.held) <= 8
            assert sum(ledger.held.values()) == len(ledger._names)
        for follower, feed in workers:
            follower.hear_all(feed)
            assert follower.held == ledger.held.keys()
