import random

import pytest

from protos.prefix_hash import prefix_hashes, root_of
from protos.types import KvUpdate
from routing.prefix import prefix_directory as module
from routing.prefix.prefix_directory import PrefixDirectory

SIZE = 4
PROMPT = list(range(40))
CHAIN = prefix_hashes(PROMPT, SIZE)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def directory_of(*ids: str, exact: bool = True, clock: Clock | None = None, blocks: int = 1000) -> PrefixDirectory:
    directory = PrefixDirectory(clock=clock or Clock())
    for replica_id in ids:
        directory.joined(replica_id, SIZE, blocks, exact)
    return directory


def test_tokens_are_counted_for_each_replica_and_those_without_any_left_out() -> None:
    directory = directory_of("a", "b", "c")
    assert directory.updated("a", KvUpdate(1, stored=CHAIN[:3]))
    assert directory.updated("b", KvUpdate(1, stored=CHAIN[:7]))
    found = directory.look_up(PROMPT)
    assert (found.chain, found.cached) == (CHAIN, {"a": 12, "b": 28})
    assert directory.match(CHAIN[:5], 21) == {"a": 12, "b": 20}


def test_the_last_token_is_always_computed() -> None:
    directory = directory_of("a")
    directory.updated("a", KvUpdate(1, stored=CHAIN))
    assert directory.look_up(PROMPT).cached == {"a": 39}
    assert directory.look_up(PROMPT[:4]).cached == {"a": 3}
    for short in ([], [0], [0, 1, 2]):
        assert directory.look_up(short).cached == {}


def test_salts_do_not_share() -> None:
    directory = directory_of("a")
    directory.updated("a", KvUpdate(1, stored=prefix_hashes(PROMPT, SIZE, root_of("tenant"))))
    assert directory.look_up(PROMPT).cached == {}
    assert directory.look_up(PROMPT, "tenant").cached == {"a": 39}


def test_nobody_there_holds_nothing() -> None:
    directory = directory_of()
    assert directory.look_up(PROMPT).cached == {}
    assert directory.match(CHAIN, 40) == {}
    assert directory.updated("x", KvUpdate(9, stored=[1]))
    directory.routed("x", CHAIN)
    directory.record_cached("x", 10, 10)
    directory.left("x")
    directory.joined("without blocks", 0, 100, exact=True)
    assert directory.look_up(PROMPT).chain == ()


def test_a_replica_that_leaves_or_joins_again_holds_nothing() -> None:
    directory = directory_of("a", "b")
    for replica_id in ("a", "b"):
        directory.updated(replica_id, KvUpdate(1, stored=CHAIN))
    directory.left("a")
    assert directory.look_up(PROMPT).cached == {"b": 39}
    directory.joined("b", SIZE, 1000, exact=True)
    assert directory.look_up(PROMPT).cached == {}


def test_a_reset_voids_what_was_said() -> None:
    directory = directory_of("a")
    directory.updated("a", KvUpdate(1, stored=CHAIN))
    assert directory.updated("a", KvUpdate(7, reset=True, stored=CHAIN[:2]))
    assert directory.match(CHAIN, 40) == {"a": 8}
    assert directory.updated("a", KvUpdate(8, stored=CHAIN[2:4], removed=CHAIN[1:2]))


@pytest.mark.parametrize("update_id", [1, 3, 2**64 - 1])
def test_a_gap_is_asked_about_once_and_mended_by_a_reset(update_id: int) -> None:
    directory = directory_of("a", "b")
    for replica_id in ("a", "b"):
        directory.updated(replica_id, KvUpdate(1, stored=CHAIN))
    assert not directory.updated("a", KvUpdate(update_id, stored=[1]))
    assert directory.look_up(PROMPT).cached == {"b": 39}
    assert directory.updated("a", KvUpdate(update_id + 1, stored=CHAIN))
    assert directory.look_up(PROMPT).cached == {"b": 39}
    assert directory.updated("a", KvUpdate(5, reset=True, stored=CHAIN[:1]))
    assert directory.updated("a", KvUpdate(6, stored=CHAIN[1:2]))
    assert directory.match(CHAIN, 40) == {"a": 8, "b": 39}


def test_a_replica_that_answers_with_nonsense_is_not_asked_for_ever() -> None:
    directory = directory_of("a")
    huge = list(range(module.MAX_UPDATE_HASHES + 1))
    assert not directory.updated("a", KvUpdate(1, stored=huge))
    assert all(directory.updated("a", KvUpdate(i, reset=True, stored=huge)) for i in range(50))
    assert directory.blocks == 0


def test_a_replica_cannot_claim_more_than_a_cache_holds() -> None:
    directory, rng = directory_of("a", "b", blocks=100), random.Random(1)
    directory.updated("b", KvUpdate(1, stored=CHAIN))
    sane = 0
    while directory.updated("a", KvUpdate(sane + 1, stored=[rng.getrandbits(64) for _ in range(4096)])):
        sane += 1
    assert sane * 4096 <= module.MAX_CLAIM * 100 + module.MAX_UPDATE_HASHES
    assert directory.look_up(PROMPT).cached == {"b": 39}


def test_where_no_events_come_what_was_routed_is_taken_to_be_held() -> None:
    clock = Clock()
    directory = directory_of("a", exact=False, clock=clock, blocks=12)
    directory.routed("a", CHAIN)
    clock.now += 1000
    assert directory.look_up(PROMPT).cached == {"a": 39}
    directory.routed("a", prefix_hashes(range(100, 128), SIZE))
    assert directory.look_up(PROMPT).cached["a"] < 24
    assert directory.look_up(list(range(100, 128))).cached == {"a": 27}
    assert not directory.accuracy()["a"].exact


def test_once_events_come_they_alone_count() -> None:
    directory = directory_of("a", exact=False)
    directory.routed("a", CHAIN)
    assert directory.updated("a", KvUpdate(1, stored=CHAIN[:1]))
    assert directory.look_up(PROMPT).cached == {"a": 4}
    assert directory.accuracy()["a"].exact


def test_what_is_on_its_way_counts_until_it_had_its_time() -> None:
    clock = Clock()
    directory = directory_of("a", "b", clock=clock)
    directory.updated("a", KvUpdate(1, stored=CHAIN[:3]))
    directory.routed("a", CHAIN[:8])
    directory.routed("b", CHAIN[:2])
    assert directory.look_up(PROMPT).cached == {"a": 32, "b": 8}
    clock.now += 4.0
    directory.updated("b", KvUpdate(1, stored=CHAIN[:2]))
    directory.updated("a", KvUpdate(2, stored=CHAIN[3:7]))
    clock.now += 4.0
    assert directory.look_up(PROMPT).cached == {"a": 28, "b": 8}


def test_blocks_of_several_sizes() -> None:
    directory = PrefixDirectory(clock=Clock())
    directory.joined("small", 4, 1000, exact=True)
    directory.joined("large", 16, 1000, exact=True)
    directory.joined("guessed", 8, 1000, exact=False)
    directory.updated("small", KvUpdate(1, stored=CHAIN[:2]))
    directory.updated("large", KvUpdate(1, stored=prefix_hashes(PROMPT, 16)[:1]))
    found = directory.look_up(PROMPT)
    assert (found.chain, found.cached) == (CHAIN, {"small": 8, "large": 16})
    directory.routed("large", found.chain)
    directory.routed("guessed", found.chain)
    assert directory.match(found.chain, 40) == {"small": 8, "large": 32, "guessed": 39}
    directory.left("small")
    assert directory.look_up(PROMPT).chain == prefix_hashes(PROMPT, 8)
    for number in range(3000):
        directory.look_up(range(number, number + 40))
    assert len(directory._remembered) <= 1024


def test_an_index_that_lies_counts_for_less_until_it_is_right_again() -> None:
    clock = Clock()
    directory = directory_of("a", "b", clock=clock)
    for replica_id in ("a", "b"):
        directory.updated(replica_id, KvUpdate(1, stored=CHAIN))
    for _ in range(30):
        directory.record_cached("a", 39, 4)
        directory.record_cached("b", 39, 36)
    assert directory.look_up(PROMPT).cached == {"a": 4, "b": 39}
    assert directory.accuracy()["a"].factor == pytest.approx(4 / 39)
    clock.now += 60
    for _ in range(30):
        said = directory.look_up(PROMPT).cached["a"]
        directory.record_cached("a", said, 39)
        clock.now += 2
    assert directory.look_up(PROMPT).cached == {"a": 39, "b": 39}


@pytest.mark.parametrize("exact", [True, False])
def test_an_emptied_cache_holds_nothing_and_its_updates_go_on(exact: bool) -> None:
    directory = directory_of("a", "b", exact=exact)
    assert directory.updated("a", KvUpdate(1, stored=CHAIN[:3]))
    directory.routed("a", CHAIN)
    directory.emptied("a")
    directory.emptied("unknown")
    assert directory.look_up(PROMPT).cached == {}
    assert directory.updated("a", KvUpdate(2, stored=CHAIN[:2]))
    assert directory.look_up(PROMPT).cached == {"a": 8}


def test_a_cache_of_another_size_holds_what_it_held() -> None:
    directory = directory_of("a", blocks=1)
    assert directory.updated("a", KvUpdate(1, stored=CHAIN))
    directory.resized("a", 1000)
    directory.resized("unknown", 1000)
    assert directory.look_up(PROMPT).cached == {"a": 39}
    # More than the smaller one could have claimed.
    claimed = tuple(range(module.MAX_UPDATE_HASHES))
    assert directory.updated("a", KvUpdate(2, stored=claimed[: module.MAX_UPDATE_HASHES - 1]))
    assert directory.updated("a", KvUpdate(3, stored=claimed[: 15 * 1000]))
    assert directory.look_up(PROMPT).cached == {"a": 39}


def test_what_is_assumed_of_a_cache_goes_by_its_size_now() -> None:
    directory = directory_of("a", exact=False, blocks=100)
    directory.routed("a", CHAIN)
    directory.resized("a", 4)
    directory.routed("a", CHAIN)
    assert directory.look_up(PROMPT).cached == {"a": 16}
