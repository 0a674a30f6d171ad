import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.scheduling.shares import HEAVY_PART, ActiveTenant, heavy_parts, lanes, shares

TIERS = st.lists(st.tuples(st.floats(0.01, 1000), st.floats(0, 1)), min_size=1, max_size=4)


@st.composite
def actives(draw: st.DrawFn) -> list[ActiveTenant]:
    tiers = draw(TIERS)
    ranks = draw(st.lists(st.tuples(st.integers(0, len(tiers) - 1), st.booleans()), min_size=1, max_size=12))
    return [ActiveTenant(f"t{k}", rank, *tiers[rank], heavy) for k, (rank, heavy) in enumerate(ranks)]


REPLICAS = st.lists(
    st.tuples(st.text("abc/0", min_size=1, max_size=4), st.sampled_from([1, 2, 4, 8])),
    min_size=1,
    max_size=9,
    unique_by=lambda replica: replica[0],
)


def gold(name: str, heavy: bool = False) -> ActiveTenant:
    return ActiveTenant(name, 0, 4.0, 0.3, heavy)


def bronze(name: str, heavy: bool = False) -> ActiveTenant:
    return ActiveTenant(name, 2, 1.0, 0.1, heavy)


def test_a_tier_has_its_reserve_and_its_part_of_what_nobody_reserved() -> None:
    found = shares([gold("g"), bronze("b1"), bronze("b2")])
    assert found == pytest.approx({"g": 0.3 + 0.6 * 4 / 5, "b1": 0.11, "b2": 0.11})


def test_an_idle_tier_lends_all_it_has() -> None:
    assert shares([bronze("b")]) == {"b": 1.0}


def test_reserves_beyond_the_whole_are_scaled_down() -> None:
    assert shares([ActiveTenant("a", 0, 1, 0.9), ActiveTenant("b", 1, 1, 0.9)]) == {"a": 0.5, "b": 0.5}


@given(actives())
def test_shares_add_up_to_one_and_each_tier_has_at_least_its_reserve(active: list[ActiveTenant]) -> None:
    found = shares(active)
    assert sum(found.values()) == pytest.approx(1.0)
    reserves = {tenant.rank: tenant.reserved for tenant in active}
    for rank, reserved in reserves.items():
        members = [found[tenant.name] for tenant in active if tenant.rank == rank]
        assert max(members) == pytest.approx(min(members))
        assert sum(members) >= reserved / max(1.0, sum(reserves.values())) - 1e-9


@given(actives())
def test_heavy_tenants_have_at_least_their_shares_and_leave_light_ones_what_is_theirs(
    active: list[ActiveTenant],
) -> None:
    share, parts = shares(active), heavy_parts(active)
    assert set(parts) == {tenant.name for tenant in active if tenant.heavy}
    assert sum(parts.values()) <= 1.0 + 1e-9
    light = [tenant for tenant in active if not tenant.heavy]
    for name, part in parts.items():
        assert part >= share[name] - 1e-9
    if parts and light:
        rest = 1.0 - sum(parts.values())
        reserved = sum({tenant.rank: tenant.reserved for tenant in light}.values())
        assert rest == pytest.approx(min(sum(share[t.name] for t in light), max(1.0 - HEAVY_PART, reserved)))


def test_one_flood_among_many_light_tenants_has_half_the_fleet_and_not_a_twentieth() -> None:
    active = [bronze("flood", heavy=True), *(bronze(f"b{k}") for k in range(19))]
    assert shares(active)["flood"] == pytest.approx(0.05)
    assert heavy_parts(active) == {"flood": HEAVY_PART}


FLEET = [("narrow/0", 2), ("narrow/1", 2), ("narrow/2", 2), ("narrow/3", 2), ("middle/0", 4), ("middle/1", 4), ("w", 8)]


def test_heavy_tenants_of_whom_all_is_reserved_for_others_still_have_a_part() -> None:
    nothing = [ActiveTenant(name, 1, 1.0, 0.0, heavy=True) for name in "ab"]
    all_of_it = ActiveTenant("all", 0, 1.0, 1.0)
    assert heavy_parts([*nothing, all_of_it]) == {"a": 0.0, "b": 0.0}
    assert lanes({"a": 0.0, "b": 0.0}, FLEET, spare=True).keys() == {"a", "b"}
    assert sum(heavy_parts([*nothing, ActiveTenant("all", 0, 1.0, 1.0, heavy=True)]).values()) == 1.0


def test_lanes_divide_the_gpus_as_the_parts_say() -> None:
    assert lanes({"a": 0.5}, FLEET, spare=True) == {"a": {"middle/0", "middle/1", "narrow/0", "narrow/2"}}
    assert lanes({"b": 0.25, "a": 0.25}, FLEET, spare=True) == {
        "a": {"middle/0", "narrow/1"},
        "b": {"middle/1", "narrow/2"},
    }
    assert lanes({"a": 1.0}, FLEET, spare=False) == {"a": {replica_id for replica_id, _ in FLEET}}


def test_however_large_a_part_one_replica_stays_free_if_there_are_two() -> None:
    assert lanes({"a": 0.99}, FLEET, spare=True)["a"] == {name for name, _ in FLEET} - {"narrow/3"}
    assert lanes({"a": 0.99}, [("x", 2), ("y", 2)], spare=True) == {"a": {"x"}}
    assert lanes({"a": 0.9}, [("only", 2)], spare=True) == {"a": {"only"}}
    assert lanes({"a": 0.9}, [], spare=True) == {"a": frozenset()}
    assert lanes({}, FLEET, spare=True) == {}


def test_tenants_without_a_replica_of_their_own_are_spread_over_those_of_others() -> None:
    found = lanes({f"t{k}": 0.125 for k in range(8)}, [("x", 2), ("y", 2)], spare=False)
    assert sorted(sorted(mine)[0] for mine in found.values()) == ["x"] * 4 + ["y"] * 4


@given(actives(), REPLICAS, st.booleans(), st.randoms())
def test_every_worker_comes_to_the_same_lanes_and_nobody_is_without(
    active: list[ActiveTenant], replicas: list[tuple[str, int]], spare: bool, rng: random.Random
) -> None:
    parts = heavy_parts(active)
    found = lanes(parts, replicas, spare=spare)
    shuffled = active.copy()
    rng.shuffle(shuffled)
    others = replicas.copy()
    rng.shuffle(others)
    again = heavy_parts(shuffled)
    assert again == pytest.approx(parts)
    assert lanes(parts, others, spare=spare) == found
    assert found.keys() == parts.keys()
    ids = {replica_id for replica_id, _ in replicas}
    for mine in found.values():
        assert mine
        assert mine <= ids
    if spare and len(ids) > 1:
        assert frozenset().union(*found.values()) < ids


@given(st.lists(st.floats(0.05, 1.0), min_size=1, max_size=5), REPLICAS)
def test_nobodys_lanes_are_larger_than_its_part_by_more_than_one_replica(
    weights: list[float], replicas: list[tuple[str, int]]
) -> None:
    parts = {f"t{k}": weight / sum(weights) for k, weight in enumerate(weights)}
    gpus = dict(replicas)
    total, largest = sum(gpus.values()), max(gpus.values())
    found = lanes(parts, replicas, spare=False)
    for name, mine in found.items():
        assert sum(gpus[replica_id] for replica_id in mine) <= parts[name] * total + largest + 1e-3
