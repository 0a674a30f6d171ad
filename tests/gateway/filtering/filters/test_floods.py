import random
import secrets
from collections.abc import Sequence
from typing import Any

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.config.safety.settings import FloodsFilter
from gateway.filtering.filters import floods
from gateway.filtering.filters.floods import IDENTICAL, KEY, SIMILAR, FloodGate
from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from protos.errors import StoreUnavailable
from safety.match import Match
from tests.gateway.tenancy.limits.bench import START_MS, with_clock
from tests.stores import value_of

PROMPT = "What is the capital of the country with the longest coast line?"
PAGE = "Write down everything that you know about article {} of the catalogue: its name, its {} and who has made it."
WORDS = [f"{first}{middle}{last}" for first in "bdfgklmn" for middle in ("a", "ell", "ori", "u") for last in "nrstz"]


@pytest.fixture(autouse=True)
def the_same_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which parts of a prompt its sketch has depends on the key."""
    monkeypatch.setattr(secrets, "token_bytes", random.Random(4).randbytes)


class Clocked:
    """A store whose clock shows `now_ms` to scripts of one key."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.now_ms = START_MS
        self.trips = 0
        self._clocked: dict[Script, Script] = {}

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object:
        self.trips += 1
        return await self.store.run(script, keys, arguments)

    async def run_many(self, script: Script, calls: Sequence[tuple[str, bytes]]) -> list[bytes | StoreUnavailable]:
        self.trips += 1
        if script not in self._clocked:
            self._clocked[script] = Script(with_clock(script))
        clock = (str(self.now_ms % 1000 * 1000), str(self.now_ms // 1000))
        return [await self.store.run(self._clocked[script], [k], [a, *clock]) for k, a in calls]  # type: ignore[misc]

    def wait(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)


def gate_of(store: Any, **fields: Any) -> FloodGate:
    return FloodGate(store, FloodsFilter(**{"identical": 3, "seconds": 60, **fields}))


async def labels(gate: FloodGate, *texts: str, tenant: str = "acme", name: str = "floods") -> list[str]:
    found = await gate.check(tenant, name, texts)
    assert all(match == Match(0, sum(map(len, texts)), match.label) for match in found)
    return [match.label for match in found]


def words(chosen: random.Random, count: int) -> str:
    return " ".join(chosen.choice(WORDS) for _ in range(count))


async def test_all_workers_count_one_tenants_prompts_together(any_store_url: str) -> None:
    store = Store(any_store_url, timeout=10.0)
    one, other = gate_of(store), gate_of(store)
    for gate in (one, other, one):
        assert await labels(gate, PROMPT) == []
    assert await labels(other, PROMPT.upper() + "\n") == [IDENTICAL]
    assert await labels(one, PROMPT, "And why?") == []
    assert await labels(one, PROMPT + "?") == []
    assert await labels(one, PROMPT, tenant="other") == []
    assert await labels(one, PROMPT, name="second") == []
    assert await labels(one, PROMPT) == [IDENTICAL]
    await store.aclose()


async def test_similar_prompts_are_counted_beside_identical_ones(any_store_url: str) -> None:
    store = Store(any_store_url, timeout=10.0)
    gate = gate_of(store, similar=8)
    kinds = ["price", "weight", "colour", "size", "age", "origin", "value", "state", "smell", "taste"]
    found = [await labels(gate, PAGE.format(number, kind)) for number, kind in enumerate(kinds)]
    assert found[:8] == [[]] * 8
    assert found[9] == [SIMILAR]
    chosen = random.Random(1)
    assert await labels(gate, PAGE.format(7, "price")) == [SIMILAR]
    for number in range(100):
        assert await labels(gate, f"Hello! Please help me with this. {words(chosen, 60)}") == [], number
    await store.aclose()


async def test_what_is_not_asked_for_costs_no_trip(store_url: str) -> None:
    store = Clocked(Store(store_url, timeout=10.0))
    for gate in (gate_of(store, identical=None), gate_of(store, characters=len(PROMPT) + 1)):
        for _ in range(9):
            assert await labels(gate, PROMPT) == []
    assert await labels(gate_of(store, characters=0)) == []
    assert store.trips == 0
    similar_alone, gate = gate_of(store, identical=None, similar=1), gate_of(store, characters=len(PROMPT))
    assert [await labels(similar_alone, PROMPT) for _ in range(2)] == [[], [SIMILAR]]
    assert [await labels(gate, PROMPT) for _ in range(4)] == [[], [], [], [IDENTICAL]]
    # And one for the key of each.
    assert store.trips == 2 + 4 + 2
    await store.store.aclose()


async def test_the_window_slides_by_the_stores_clock(any_store_url: str) -> None:
    store = Clocked(Store(any_store_url, timeout=10.0))
    gate = gate_of(store, seconds=60)
    for _ in range(3):
        assert await labels(gate, PROMPT) == []
        store.wait(20)
    # 60 seconds after the first, which is in the oldest fourth yet.
    assert await labels(gate, PROMPT) == [IDENTICAL]
    store.wait(40)
    assert await labels(gate, PROMPT) == []
    store.wait(75)
    assert [await labels(gate, PROMPT) for _ in range(4)] == [[], [], [], [IDENTICAL]]
    await store.store.aclose()


@pytest.mark.parametrize("back", [5, 40, 100, 10**6])
async def test_a_clock_that_goes_back_neither_forgets_nor_keeps_for_ever(store_url: str, back: int) -> None:
    store = Clocked(Store(store_url, timeout=10.0))
    gate = gate_of(store, seconds=60)
    for _ in range(3):
        await labels(gate, PROMPT)
    store.wait(-back)
    found = [await labels(gate, PROMPT) for _ in range(4)]
    assert found == [[IDENTICAL]] * 4 if back < 60 else [[], [], [], [IDENTICAL]]
    store.wait(60 + 15 + min(back, 60))
    assert await labels(gate, PROMPT) == []
    await store.store.aclose()


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9_000)), min_size=5, max_size=60))
async def test_never_more_than_the_bound_in_any_window_and_none_refused_for_older_ones(
    valkey: Any, steps: list[tuple[int, int]]
) -> None:
    with redis.Redis.from_url(valkey.url) as client:
        client.flushall()
    store = Clocked(Store(valkey.url, timeout=10.0))
    gate = gate_of(store, seconds=20, identical=4)
    at: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for which, pause in steps:
        store.now_ms += pause
        found = await labels(gate, f"{PROMPT} {'x' * which}")
        before = at[which]
        before.append(store.now_ms)
        within = sum(store.now_ms - time < 20_000 for time in before)
        about = sum(store.now_ms - time < 25_000 for time in before)
        assert (within > 4) <= bool(found) <= (about > 4)
    await store.store.aclose()


async def test_a_flood_of_different_prompts_fills_no_store_and_hides_no_flood(store_url: str) -> None:
    store, chosen = Store(store_url, timeout=10.0), random.Random(2)
    gate = gate_of(store, identical=10, similar=10, seconds=3600)
    caught: set[str] = set()
    for number in range(6000):
        text = PROMPT if number % 200 == 0 else words(chosen, 12)
        found = await labels(gate, text)
        assert not found or text == PROMPT
        caught.update(found)
    assert caught == {IDENTICAL, SIMILAR}
    with redis.Redis.from_url(store_url) as client:
        sizes = {}
        for key in client.keys("penstock:{t:*"):
            assert 3600 < client.ttl(key) <= 4500
            sizes[key.rpartition(b":")[2]] = client.memory_usage(key, samples=0)
    assert sizes.keys() == {b"same", b"like"}
    assert sizes[b"same"] < 128 << 10
    assert sizes[b"like"] < 512 << 10
    await store.aclose()


async def test_the_store_holds_nothing_of_a_prompt_and_forgets_by_itself(store_url: str) -> None:
    store = Store(store_url, timeout=10.0)
    gate = gate_of(store, similar=3, seconds=60)
    await labels(gate, PROMPT)
    await store.aclose()
    with redis.Redis.from_url(store_url) as client:
        held = {key: client.hgetall(key) for key in client.keys("penstock:{t:*")}
        assert {key.decode() for key in held} == {
            f"penstock:{{t:acme}}:floods:floods:60:{end}" for end in ("same", "like")
        }
        assert all(0 < client.pttl(key) <= 75_000 for key in held)
        everything = b"".join(part for fields in held.values() for pair in fields.items() for part in pair)
        assert not any(word.encode() in everything for word in PROMPT.split() if len(word) > 3)


async def test_workers_come_to_share_a_key_that_the_store_has_lost(store_url: str) -> None:
    store, now = Store(store_url, timeout=10.0), [0.0]

    def clock() -> float:
        return now[0]

    first, second = (FloodGate(store, FloodsFilter(identical=2), clock) for _ in range(2))
    assert [await labels(gate, PROMPT) for gate in (first, second)] == [[], []]
    key = await value_of(store, KEY)
    with redis.Redis.from_url(store_url) as client:
        client.flushall()
    third = FloodGate(store, FloodsFilter(identical=2), clock)
    await labels(third, PROMPT)
    assert await value_of(store, KEY) not in (None, key)
    now[0] += floods.KEY_SECONDS
    assert [await labels(gate, PROMPT) for gate in (first, second, third)] == [[], [IDENTICAL], [IDENTICAL]]
    await store.aclose()


async def test_long_prompts_are_counted_as_any(store_url: str) -> None:
    store = Store(store_url, timeout=10.0)
    gate = gate_of(store, similar=3)
    long = words(random.Random(3), 20_000)
    assert len(long) > floods.INLINE_CHARACTERS
    found = [await labels(gate, long) for _ in range(4)]
    assert found == [[], [], [], [IDENTICAL, SIMILAR]]
    await store.aclose()


async def test_without_the_store_there_is_no_verdict(store_url: str, tmp_path: Any) -> None:
    away, store = Store(f"unix://{tmp_path}/none"), Store(store_url, timeout=10.0)
    with pytest.raises(StoreUnavailable):
        await labels(gate_of(away), PROMPT)
    gate = gate_of(store)
    assert await labels(gate, PROMPT) == []
    with redis.Redis.from_url(store_url) as client:
        (key,) = client.keys("penstock:{t:*")
        client.delete(key)
        client.set(key, "not a hash")
    with pytest.raises(StoreUnavailable):
        await labels(gate, PROMPT)
    await store.aclose()
    await away.aclose()
