from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from gateway.scheduling.admission_queue import AdmissionQueue
from protos.types import Role
from routing.contracts.policy import ReplicaView, learns, learns_from_ends
from routing.contracts.policy_settings import PolicySettings
from routing.policies.auto import Auto
from routing.policies.busyness import SPILL_FACTOR, SPILL_SEQUENCES
from routing.policies.least_load import LeastLoad
from routing.policies.prefix import WORTH_TOKENS
from routing.policies.zone_affinity import ELSEWHERE, ZoneAffinity, Zones, nearest
from tests.gateway.scheduling.bench import LIMIT, Bench
from tests.views import ask, fleets, view


def ids(views: Sequence[ReplicaView]) -> list[str]:
    return [replica.id for replica in views]


@given(data=st.data(), fleet=fleets())
def test_what_is_left_is_of_the_candidates_and_serves_if_they_do(data: st.DataObject, fleet: list[ReplicaView]) -> None:
    near = data.draw(st.sets(st.sampled_from(ids(fleet))))
    far = data.draw(st.sets(st.sampled_from(ids(fleet)))) - near
    found = nearest(fleet, ask(), Zones(frozenset(near), frozenset(far)))
    assert found
    left_out = set(ids(fleet)) - set(ids(found))
    assert left_out <= far
    assert not left_out or near & set(ids(found))
    roles, chosen = {one.role for one in fleet}, {one.role for one in found}
    if Role.BOTH in roles or {Role.PREFILL, Role.DECODE} <= roles:
        assert Role.BOTH in chosen or {Role.PREFILL, Role.DECODE} <= chosen


@given(here=st.integers(0, 80), there=st.integers(0, 80))
def test_the_own_zone_is_taken_unless_it_is_much_busier(here: int, there: int) -> None:
    fleet = [view("near", running=here), view("far", running=there), view("unknown", running=200)]
    zones = Zones(frozenset({"near"}), frozenset({"far"}))
    stays = here <= SPILL_FACTOR * min(here, there) + SPILL_SEQUENCES
    assert ids(nearest(fleet, ask(), zones)) == (["near", "unknown"] if stays else ["near", "far", "unknown"])
    # Without one of each nothing is preferred.
    assert nearest(fleet, ask(), Zones(zones.near)) is fleet
    assert nearest(fleet, ask(), Zones(far=zones.far)) is fleet


def test_a_prompt_that_is_cached_in_another_zone_is_worth_the_way() -> None:
    fleet = [view("near"), view("far")]
    zones = Zones(frozenset({"near"}), frozenset({"far"}))
    prompt = 20 * WORTH_TOKENS
    held = {"near": WORTH_TOKENS, "far": 2 * WORTH_TOKENS}
    assert ids(nearest(fleet, ask(prompt, cached=held), zones)) == ["near", "far"]
    assert ids(nearest(fleet, ask(prompt, cached=held | {"far": 2 * WORTH_TOKENS - 1}), zones)) == ["near"]


def test_half_a_pair_in_the_own_zone_is_none() -> None:
    pair = [view("near-p", role=Role.PREFILL), view("far-d", role=Role.DECODE)]
    zones = Zones(frozenset({"near-p"}), frozenset({"far-d", "far-p"}))
    assert nearest(pair, ask(), zones) is pair
    more = [*pair, view("near-d", role=Role.DECODE), view("far-p", role=Role.PREFILL)]
    zones = Zones(frozenset({"near-p", "near-d"}), frozenset({"far-p", "far-d"}))
    assert ids(nearest(more, ask(), zones)) == ["near-p", "near-d"]


def test_the_policy_below_is_asked_and_explains_itself() -> None:
    fleet = [view("near", running=3), view("far")]
    policy = ZoneAffinity(LeastLoad(), lambda: Zones(frozenset({"near"}), frozenset({"far"})))
    assert policy.pick(ask(), fleet).replica.id == "near"
    scores = policy.explain(ask(), fleet)
    assert [(score.replica, score.excluded) for score in scores] == [("near", ""), ("far", ELSEWHERE)]
    # It learns and looks up what the policy does.
    auto = ZoneAffinity(Auto(PolicySettings()), Zones)
    assert learns(auto) and not learns_from_ends(auto) and auto.uses_prefixes
    assert not learns(policy) and learns_from_ends(policy) and not policy.uses_prefixes


def test_what_has_no_room_in_the_own_zone_goes_to_another_and_does_not_wait() -> None:
    bench = Bench("near", "far")
    zones = Zones(frozenset({"near"}), frozenset({"far"}))
    queue: AdmissionQueue = bench.admission_queue
    queue._policy = ZoneAffinity(LeastLoad(), lambda: zones)
    turns = bench.fill()
    assert [admission.replica_id for admission in turns] == ["near"] * LIMIT + ["far"] * LIMIT
    bench.end(turns.pop(0))
    again = bench.enter()
    assert again is not None
    assert again.replica_id == "near"
