from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from protos.types import Role, Shape
from routing.contracts.policy import NoCandidate, ReplicaView, learns, learns_from_ends
from routing.contracts.policy_settings import PolicySettings
from routing.policies.adapter_affinity import ELSEWHERE, AdapterAffinity, preferred
from routing.policies.auto import Auto
from routing.policies.busyness import SPILL_FACTOR, SPILL_SEQUENCES
from routing.policies.least_load import LeastLoad
from tests.views import ask, fleets, view


def with_adapters(replica: ReplicaView, *names: str) -> ReplicaView:
    return replace(replica, adapters=frozenset(names))


def ids(views: Sequence[ReplicaView]) -> list[str]:
    return [replica.id for replica in views]


@given(data=st.data(), fleet=fleets())
def test_what_is_preferred_is_among_the_candidates_and_serves_if_they_do(
    data: st.DataObject, fleet: list[ReplicaView]
) -> None:
    holders = data.draw(st.sets(st.sampled_from(ids(fleet))))
    fleet = [with_adapters(replica, "a") if replica.id in holders else replica for replica in fleet]
    found = preferred(fleet, "a")
    assert found
    assert len(set(ids(found))) == len(found)
    assert set(ids(found)) <= set(ids(fleet))
    roles = {replica.role for replica in fleet}
    if Role.BOTH in roles or {Role.PREFILL, Role.DECODE} <= roles:
        chosen = {replica.role for replica in found}
        assert Role.BOTH in chosen or {Role.PREFILL, Role.DECODE} <= chosen
    assert ids(preferred(fleet, "a")) == ids(found)


@given(data=st.data(), running=st.lists(st.integers(0, 60), min_size=2, max_size=8))
def test_a_loaded_replica_is_taken_unless_it_is_much_busier_than_the_least_busy(
    data: st.DataObject, running: list[int]
) -> None:
    fleet = [view(f"r{number}", running=count) for number, count in enumerate(running)]
    holders = data.draw(st.sets(st.sampled_from(range(len(fleet)))))
    fleet = [with_adapters(one, "a") if number in holders else one for number, one in enumerate(fleet)]
    bound = SPILL_FACTOR * min(running) + SPILL_SEQUENCES
    quick = [f"r{number}" for number in sorted(holders) if running[number] <= bound]
    found = preferred(fleet, "a")
    if quick:
        assert ids(found) == quick
    else:
        (only,) = found
        assert "a" not in only.adapters
        assert only.load.running <= bound


def test_a_model_with_adapters_gets_the_reports_that_its_policy_learns_from_and_no_others() -> None:
    assert learns(AdapterAffinity(Auto(PolicySettings())))
    assert not learns(AdapterAffinity(LeastLoad()))
    assert not learns_from_ends(AdapterAffinity(Auto(PolicySettings())))
    assert learns_from_ends(AdapterAffinity(LeastLoad()))


def test_without_load_an_adapter_has_one_home_and_adapters_are_spread() -> None:
    fleet = [view(f"r{number}") for number in range(8)]
    homes = {f"a{number}": ids(preferred(fleet, f"a{number}")) for number in range(400)}
    assert all(len(home) == 1 for home in homes.values())
    counts = Counter(home[0] for home in homes.values())
    assert len(counts) == 8
    assert max(counts.values()) < 2 * 400 / 8
    # A replica that leaves moves only the adapters that it was the home of.
    fewer = fleet[1:]
    assert all(ids(preferred(fewer, name)) == home for name, home in homes.items() if home != ["r0"])


def test_a_busy_home_spills_over_to_one_more_and_a_full_one_at_once() -> None:
    fleet = [view(f"r{number}") for number in range(4)]
    (home,) = preferred(fleet, "a")
    busy = with_adapters(replace(home, load=replace(home.load, running=50)), "a")
    rest = [replica for replica in fleet if replica.id != home.id]
    (second,) = preferred([busy, *rest], "a")
    assert second.id != home.id
    full = with_adapters(replace(home, sent=8, max_batch_size=8), "a")
    assert ids(preferred([full, *rest], "a")) == [second.id]
    prompts = with_adapters(replace(home, sent_prompt_tokens=50_000), "a")
    assert ids(preferred([prompts, *rest], "a")) == [second.id]
    # A larger replica takes more before it is too busy, and where all are as busy, it stays where it is.
    large = replace(busy, shape=Shape(tp=8))
    assert ids(preferred([large, *rest], "a")) == [home.id]
    others = [replace(replica, load=replace(replica.load, running=50)) for replica in rest]
    assert ids(preferred([busy, *others], "a")) == [home.id]


@pytest.mark.parametrize(("loaded", "wanted"), [(("b",), ["b"]), (("p", "d"), ["p", "d"]), (("p",), None)])
def test_single_replicas_or_pairs_whichever_have_it_loaded(loaded: tuple[str, ...], wanted: list[str] | None) -> None:
    fleet = [view("b"), view("p", role=Role.PREFILL), view("d", role=Role.DECODE)]
    fleet = [with_adapters(one, "a") if one.id in loaded else one for one in fleet]
    assert ids(preferred(fleet, "a")) == (wanted or ["b", "p", "d"])


def test_a_policy_picks_where_the_adapter_is_and_says_of_the_others_why_not() -> None:
    policy = AdapterAffinity(LeastLoad())
    fleet = [view("x"), with_adapters(view("y", running=3), "a"), with_adapters(view("z", running=5), "b")]
    assert policy.pick(ask(), fleet).replica.id == "x"
    assert policy.pick(ask(adapter="a"), fleet).replica.id == "y"
    assert policy.pick(ask(adapter="b"), fleet).replica.id == "z"
    scores = policy.explain(ask(adapter="a"), fleet)
    assert [(score.replica, score.excluded) for score in scores] == [("y", ""), ("x", ELSEWHERE), ("z", ELSEWHERE)]
    assert [score.excluded for score in policy.explain(ask(), fleet)] == ["", "", ""]
    with pytest.raises(NoCandidate):
        policy.pick(ask(adapter="a"), [view("p", role=Role.PREFILL)])
