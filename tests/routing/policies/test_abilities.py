from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from protos.features import NAMES, Feature
from protos.types import ReplicaInfo, Role, Shape
from routing.contracts.policy import ReplicaView
from routing.policies.abilities import Abilities, known_adapters, lacking, missing
from routing.policies.adapter_affinity import AdapterRule, AdapterRules
from tests.views import view

BITS = st.sampled_from(list(NAMES))
MASKS = st.lists(BITS, max_size=6).map(lambda bits: sum({bit.value for bit in bits}))


@dataclass
class One:
    view: ReplicaView
    info: ReplicaInfo | None = None


def one(name: str, features: int, *adapters: str, pool: str = "p", seen: bool = True) -> One:
    info = ReplicaInfo("m", "simulated", "f", Shape(), Role.BOTH, 8, 100, 32, 10, adapters=adapters)
    return One(replace(view(name, pool=pool), features=features), info if seen else None)


@given(offers=st.lists(MASKS, max_size=5), needs=MASKS)
def test_what_is_lacking_is_a_least_part_of_the_needs_that_nobody_has(offers: list[int], needs: int) -> None:
    found = lacking(offers, needs)
    mask = sum(feature.value for feature in found)
    assert not mask & ~needs
    if any(not needs & ~offer for offer in offers):
        assert found == []
        return
    if needs:
        assert found
        assert not any(not mask & ~offer for offer in offers)
        for feature in found:
            rest = mask & ~feature.value
            assert not rest or any(not rest & ~offer for offer in offers)


@given(features=MASKS, needs=MASKS)
def test_nothing_is_missing_exactly_where_all_needs_are_features(features: int, needs: int) -> None:
    found = missing(features, needs)
    assert (not found) == (needs & features == needs)
    assert all(feature.value & needs and not feature.value & features for feature in found)


def test_every_feature_but_the_combinations_has_a_name_and_a_bit_of_its_own() -> None:
    assert all(feature.value.bit_count() == 1 for feature in NAMES)
    assert set(NAMES) == set(Feature) - {Feature.NONE}


def test_one_feature_that_nobody_has_and_two_that_nobody_has_together() -> None:
    fleet = [one("a", Feature.LOGPROBS.value), one("b", Feature.SEED.value)]
    abilities = Abilities()
    both = (Feature.LOGPROBS | Feature.SEED).value
    assert abilities.lacks(fleet, Feature.LOGPROBS.value, "") == []
    assert abilities.lacks(fleet, Feature.GUIDED.value | both, "") == [Feature.GUIDED]
    assert abilities.lacks(fleet, both, "") == [Feature.LOGPROBS, Feature.SEED]
    assert abilities.why_not(fleet, both, "") == {"a": "cannot do seed", "b": "cannot do logprobs"}


def test_an_adapter_is_run_by_who_knows_it_or_is_told_where_it_is_in_its_pools() -> None:
    lora = Feature.LORA.value
    rules = AdapterRules(
        {"told": AdapterRule("/a"), "known": AdapterRule(), "q-only": AdapterRule("/b", frozenset("q"))}
    )
    abilities = Abilities(rules)
    fleet = [one("a", lora), one("b", lora, "known", "other"), one("c", 0, "known"), one("d", lora, pool="q")]

    def able(adapter: str) -> list[str]:
        return [replica.view.id for replica in fleet if abilities.can(replica, lora, adapter)]

    assert able("told") == ["a", "b", "d"]
    assert able("known") == ["b"]
    assert able("other") == ["b"]
    assert able("q-only") == ["d"]
    assert able("nobody") == []
    assert abilities.lacks(fleet, lora, "nobody") == [Feature.LORA]
    assert abilities.lacks(fleet, lora | Feature.SEED.value, "told") == [Feature.SEED]
    assert abilities.why_not(fleet, lora, "known") == {
        "a": "does not have the adapter known",
        "c": "cannot do LoRA adapters",
        "d": "does not have the adapter known",
    }
    assert known_adapters(fleet) == {"known", "other"}


def test_what_is_not_known_yet_may_turn_out_to_do_it() -> None:
    lora, guided = Feature.LORA.value, Feature.GUIDED.value
    away = [one("a", lora, seen=False)]
    assert Abilities().lacks(away, lora, "whatever") == []
    # A pool whose replicas are still to be found counts with what its engine may do, until one of them is known.
    abilities = Abilities(expected={"p": Feature.LORA, "q": Feature.GUIDED})
    assert abilities.lacks(away, guided, "") == []
    assert abilities.lacks([*away, one("b", 0, pool="q")], guided, "") == [Feature.GUIDED]
    assert Abilities().lacks([], guided, "") == [Feature.GUIDED]
