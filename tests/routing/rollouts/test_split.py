import math
import string

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.rollouts.split import Split, SplitKeys, choose

SPLIT = Split(model="m", stable="v1", candidate="v2", share=0.25, salt="one")
names = st.text(string.ascii_letters, min_size=1, max_size=8)
keys = st.builds(SplitKeys, names, names, st.binary(max_size=16))


def with_share(share: float, **changes: object) -> Split:
    return msgspec.structs.replace(SPLIT, share=share, **changes)


@settings(max_examples=100)
@given(keys, st.floats(0, 1), st.floats(0, 1))
def test_a_share_that_rises_moves_nobody_back(key: SplitKeys, one: float, other: float) -> None:
    low, high = sorted((one, other))
    if choose(with_share(low), key) == "v2":
        assert choose(with_share(high), key) == "v2"
    assert choose(with_share(0.0), key) == "v1"
    assert choose(with_share(1.0), key) == "v2"


@settings(max_examples=30)
@given(st.sampled_from([0.01, 0.1, 0.25, 0.5, 0.9]), names)
def test_shares_are_exact_in_the_limit(share: float, salt: str) -> None:
    """Within five standard deviations, of 4,000 keys: fewer than one run of 50,000 would fail by chance."""
    count = 4000
    split = with_share(share, salt=salt)
    taken = sum(choose(split, SplitKeys("acme", "gold", b"%d" % number)) == "v2" for number in range(count))
    assert abs(taken - share * count) <= 5 * math.sqrt(count * share * (1 - share))


def test_draws_are_the_same_for_ever() -> None:
    """Workers of another release must divide as these do, while a rollout runs."""
    drawn = [choose(with_share(0.25), SplitKeys("acme", "gold", b"%d" % n)) == "v2" for n in range(24)]
    assert "".join("01"[one] for one in drawn) == "000010110011101010000100"


def test_salts_and_tenants_draw_apart() -> None:
    """Whoever is among the first of one rollout is not so in the next one."""

    def taken(salt: str, tenant: str) -> set[int]:
        split = with_share(0.5, salt=salt)
        return {n for n in range(1000) if choose(split, SplitKeys(tenant, "gold", b"%d" % n)) == "v2"}

    first = taken("one", "acme")
    for other in (taken("two", "acme"), taken("one", "umbrella")):
        assert 150 < len(first & other) < 350


def test_without_a_key_the_tenant_decides() -> None:
    split = with_share(0.5)
    chosen = {choose(split, SplitKeys(f"t{n}", "gold")) for n in range(20)}
    assert chosen == {"v1", "v2"}


@settings(max_examples=50)
@given(keys)
def test_only_the_named_tenants_and_tiers_are_divided(key: SplitKeys) -> None:
    assert choose(with_share(1.0, tenants=frozenset({"acme!"})), key) == "v1"
    assert choose(with_share(1.0, tiers=frozenset({"gold!"})), key) == "v1"
    named = with_share(1.0, tenants=frozenset({key.tenant}), tiers=frozenset({key.tier}))
    assert choose(named, key) == "v2"


def test_no_candidate_is_the_stable_version() -> None:
    assert choose(Split(model="m", stable="v1", share=1.0), SplitKeys("acme", "gold")) == "v1"


def test_a_split_survives_its_way_through_the_store() -> None:
    split = with_share(0.5, tenants=frozenset({"acme"}), by="header", header="x-team", epoch=3, configured="v1")
    assert msgspec.json.decode(msgspec.json.encode(split), type=Split) == split
