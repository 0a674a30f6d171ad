"""Which replicas of a fleet, over real sessions, are candidates for a request with needs."""

import contextlib
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from protos.features import Feature
from routing.contracts.policy import ReplicaView
from routing.fleet.fleet import Fleet
from routing.policies.abilities import Abilities
from routing.policies.adapter_affinity import AdapterRule, AdapterRules
from tests.harness import engine_of, serving, spec_of
from tests.loops import until

LOGPROBS, LORA = Feature.LOGPROBS.value, Feature.LORA.value


@contextlib.asynccontextmanager
async def fleet_of(*features: Feature, adapters: tuple[str, ...] = ()) -> AsyncIterator[Fleet]:
    async with contextlib.AsyncExitStack() as stack:
        specs = []
        for number, able in enumerate(features):
            engine = engine_of(adapters=adapters, max_adapters=1)
            engine.info = replace(engine.info, features=able)
            _, address = await stack.enter_async_context(serving(engine))
            specs.append(spec_of(address, id=f"p/{number}"))
        fleet = Fleet(specs, "test", abilities=Abilities(AdapterRules({"told": AdapterRule("/told")})))
        fleet.start()
        try:
            await fleet.wait_ready(len(specs))
            yield fleet
        finally:
            await fleet.aclose()


def ids(views: list[ReplicaView]) -> list[str]:
    return [view.id for view in views]


async def test_candidates_have_all_that_is_needed() -> None:
    tokens = Feature.TOKENS
    lora = tokens | Feature.LORA
    async with fleet_of(tokens, tokens & ~Feature.LOGPROBS, lora, adapters=("known",)) as fleet:
        assert ids(fleet.candidates()) == ["p/0", "p/1", "p/2"]
        assert ids(fleet.candidates((), LOGPROBS)) == ["p/0", "p/2"]
        assert ids(fleet.candidates(["p/0"], LOGPROBS)) == ["p/2"]
        assert ids(fleet.candidates((), LORA, "told")) == ["p/2"]
        assert fleet.candidates((), LORA, "nobody") == []
        assert fleet.known_adapters == {"known"}
        assert fleet.lacks(LOGPROBS) == []
        assert fleet.lacks(Feature.GUIDED.value) == [Feature.GUIDED]
        assert fleet.lacks(LORA, "nobody") == [Feature.LORA]
        assert fleet.why_not(LOGPROBS) == {"p/1": "cannot do logprobs"}


async def test_the_only_one_that_can_gets_all_such_requests_also_when_it_has_just_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with fleet_of(Feature.TOKENS & ~Feature.LOGPROBS, Feature.TOKENS) as fleet:
        back = fleet._connections["p/1"]
        monkeypatch.setattr(type(back.health), "takes_part", lambda health, now: False)
        fleet._returning = frozenset([back])
        assert ids(fleet.candidates()) == ["p/0"]
        assert ids(fleet.candidates((), LOGPROBS)) == ["p/1"]


async def test_what_a_replica_can_do_is_asked_anew_when_it_restarts() -> None:
    engine = engine_of()
    async with contextlib.AsyncExitStack() as stack:
        async with serving(engine) as (_, address):
            fleet = Fleet([spec_of(address, id="p/0")], "test")
            fleet.start()
            stack.push_async_callback(fleet.aclose)
            await fleet.wait_ready(1)
            assert fleet.lacks(LOGPROBS) == []
        await until(lambda: not fleet.candidates())
        assert fleet.lacks(LOGPROBS) == []  # it could, and is not there
        engine = engine_of()
        engine.info = replace(engine.info, features=Feature.TOKENS & ~Feature.LOGPROBS)
        async with serving(engine, address):
            await until(lambda: fleet.candidates())
            assert fleet.lacks(LOGPROBS) == [Feature.LOGPROBS]
            assert fleet.candidates((), LOGPROBS) == []
