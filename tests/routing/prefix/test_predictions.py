import random

import pytest

from routing.prefix import predictions
from routing.prefix.predictions import PREDICTED_SECONDS, Predictions


def chain_of(blocks: int, seed: int = 1) -> list[int]:
    rng = random.Random(seed)
    return [rng.getrandbits(64) for _ in range(blocks)]


def found(expected: Predictions, chain: list[int]) -> dict[str, int]:
    return {name: blocks for blocks, names in expected.match(chain) for name in names}


@pytest.mark.parametrize(("shared", "seen"), [(0, 0), (1, 1), (7, 7), (8, 8), (9, 8), (15, 8), (16, 16), (100, 96)])
def test_siblings_are_seen_about_as_far_as_they_share(shared: int, seen: int) -> None:
    expected = Predictions()
    expected.add("a", chain_of(125), 0.0)
    sibling = chain_of(125)[:shared] + chain_of(30, seed=2)
    assert found(expected, sibling).get("a", 0) == seen


def test_two_replicas_may_be_about_to_hold_the_same() -> None:
    expected, chain = Predictions(), chain_of(40)
    expected.add("a", chain[:24], 0.0)
    expected.add("b", chain, 1.0)
    assert found(expected, chain) == {"a": 24, "b": 40}
    expected.expire(PREDICTED_SECONDS + 0.5)
    assert found(expected, chain) == {"b": 40}


def test_a_prompt_keeps_what_an_older_one_shared_with_it() -> None:
    expected, chain = Predictions(), chain_of(24)
    expected.add("a", chain, 0.0)
    expected.add("a", chain[:16], 3.0)
    expected.expire(PREDICTED_SECONDS)
    assert found(expected, chain) == {"a": 16}


def test_what_never_comes_true_is_forgotten() -> None:
    expected = Predictions()
    for number in range(50):
        expected.add(f"replica {number % 3}", chain_of(200, number), number / 100)
    expected.expire(PREDICTED_SECONDS + 1)
    assert not any(found(expected, chain_of(200, number)) for number in range(50))
    expected.add("a", chain_of(8), 100.0)
    assert found(expected, chain_of(8)) == {"a": 8}


def test_what_the_replica_denies_is_forgotten() -> None:
    expected, chain = Predictions(), chain_of(16)
    expected.add("a", chain, 0.0)
    expected.removed("a", chain[5:])
    expected.removed("b", chain)
    assert found(expected, chain) == {"a": 5}
    expected.expire(PREDICTED_SECONDS)
    assert found(expected, chain) == {}


def test_a_replica_that_leaves_takes_its_own_along_and_nothing_of_the_next() -> None:
    expected, chain = Predictions(), chain_of(16)
    expected.add("a", chain, 0.0)
    expected.left("a")
    expected.left("a")
    assert found(expected, chain) == {}
    expected.add("a", chain, 1.0)
    expected.add("b", chain[:3], 2.0)
    expected.expire(PREDICTED_SECONDS + 0.5)
    assert found(expected, chain) == {"a": 16, "b": 3}


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictions, "MAX_PREDICTED_BLOCKS", 100)
    expected = Predictions()
    for number in range(100):
        expected.add("a", chain_of(20, number), 0.0)
    assert len(expected.routes) == 11
    assert len(expected._replicas["a"].blocks) <= 100
    assert found(expected, chain_of(20, 99)) == {"a": 16}
    assert found(expected, chain_of(20, 0)) == {}


def test_a_call_forgets_no_more_than_a_little() -> None:
    expected = Predictions()
    for number in range(500):
        expected.add("a", chain_of(8, number), 0.0)
    expected.add("a", chain_of(8, 1000), 4.0)
    before = expected._blocks
    expected.expire(PREDICTED_SECONDS)
    assert before - expected._blocks == predictions._AT_ONCE
    for _ in range(20):
        expected.expire(PREDICTED_SECONDS)
    assert expected._blocks == 8
