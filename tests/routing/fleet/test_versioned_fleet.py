import contextlib
from collections.abc import AsyncIterator
from math import inf
from typing import Any

import pytest
from msgspec import structs

from protos.features import Feature
from protos.types import Role, Sampling
from routing.contracts.versions import NAMED, VersionBits
from routing.fleet.versioned_fleet import PinnedFleet, VersionedFleet
from routing.health.replica_status import State
from routing.transports.replica_spec import ReplicaSpec
from tests.fakes import SilentEngine, info_of
from tests.harness import serving, spec_of, submit_of
from tests.loops import until

BITS = VersionBits()
V1, V2 = BITS.bit("v1"), BITS.bit("v2")


@contextlib.asynccontextmanager
async def fleet_of(
    *replicas: tuple[str, Role], kind: type[VersionedFleet] = VersionedFleet
) -> AsyncIterator[VersionedFleet]:
    """A replica of each version and role, which reports its version itself; v1 serves."""
    async with contextlib.AsyncExitStack() as stack:
        specs: list[ReplicaSpec] = []
        for number, (version, role) in enumerate(replicas):
            engine = SilentEngine(structs.replace(info_of(role=role), version=version))
            _, address = await stack.enter_async_context(serving(engine))
            specs.append(spec_of(address, id=f"p/{number}", role=role))
        fleet = VersionedFleet(specs, "test", versions=BITS, serves=V1)
        fleet.start()
        stack.push_async_callback(fleet.aclose)
        await fleet.wait_ready(len(specs))
        yield fleet


def ids(fleet: VersionedFleet, needs: int = 0) -> list[str]:
    return [view.id for view in fleet.candidates((), needs)]


async def test_a_request_finds_replicas_of_its_version_alone() -> None:
    async with fleet_of(("v1", Role.BOTH), ("v2", Role.BOTH), ("v1", Role.BOTH), ("", Role.BOTH)) as fleet:
        for more in (0, Feature.LOGPROBS.value, NAMED):
            assert ids(fleet, V1 | more) == ["p/0", "p/2"]
            assert ids(fleet, V2 | more) == ["p/1"]
        assert [view.id for view in fleet.candidates(("p/0",), V1)] == ["p/2"]
        assert [view.id for view in fleet.candidates(("p/1",), V2)] == []
        assert ids(fleet, V1 | Feature.WHOLE_API.value) == []
        lost: list[int] = []
        fleet.on_lost = lost.append
        assert fleet.has(V2) and not fleet.has(BITS.bit("v3")) and not fleet.has(V1 | Feature.WHOLE_API.value)
        assert fleet.why_not(V2) == {
            "p/0": "is of version v1, the request of v2",
            "p/2": "is of version v1, the request of v2",
            "p/3": "does not say its version",
        }
        assert fleet.lacks(V2 | Feature.WHOLE_API.value) == [Feature.WHOLE_API]
        assert fleet.lacks(V2 | Feature.LOGPROBS.value) == []
        fleet.drain({"p/0": inf})
        assert lost == []
        fleet.drain({"p/0": inf, "p/1": inf})
        assert lost == [V2]


async def test_only_what_serves_gets_requests_that_need_no_version() -> None:
    async with fleet_of(("v1", Role.BOTH), ("v2", Role.BOTH), ("", Role.BOTH)) as fleet:
        loads = []
        fleet.on_load = lambda: loads.append(fleet.serves)
        assert ids(fleet) == ["p/0"]
        fleet.serve(V1 | V2)
        assert ids(fleet) == ["p/0", "p/1"]
        fleet.serve(V2)
        assert ids(fleet) == ["p/1"]
        assert ids(fleet, V1) == ["p/0"]
        assert loads == [V1 | V2, V2]
        told = fleet.statuses()
        assert [status.reason for status in told] == [
            "its version serves no requests now",
            "",
            "it does not say its version",
        ]
        assert [status.share for status in told] == [0.0, 1.0, 0.0]
        assert fleet.statuses() is told
        fleet.serve(BITS.bit("v3"))
        assert not fleet.ready
        assert fleet.ready_replicas == 3


async def test_replicas_that_are_not_warm_are_ready_and_get_nothing() -> None:
    async with fleet_of(("v1", Role.BOTH), ("v2", Role.BOTH), ("v2", Role.BOTH)) as fleet:
        lost: list[int] = []
        fleet.on_lost = lost.append
        fleet.serve(V1 | V2, V2, frozenset({"p/1"}))
        assert ids(fleet) == ["p/0", "p/1"]
        for more in (0, NAMED):
            assert ids(fleet, V2 | more) == ["p/1"]
        assert [view.id for view in fleet.candidates(("p/1",), V2)] == []
        assert fleet.takes("p/1") and not fleet.takes("p/2")
        # So that the controller sees that it can be warmed up.
        assert [(status.state, status.reason) for status in fleet.statuses()] == [
            (State.READY, ""),
            (State.READY, ""),
            (State.READY, "it is not warm yet"),
        ]
        assert fleet.problems() == {"p/2": "it is not warm yet"}
        fleet.serve(V1 | V2, V2, frozenset({"p/1", "p/2"}))
        assert ids(fleet, V2) == ["p/1", "p/2"]
        assert not lost
        fleet.serve(V1 | V2, V2)
        assert (ids(fleet, V2), lost) == ([], [V2])
        fleet.serve(V1 | V2)
        assert ids(fleet) == ["p/0", "p/1", "p/2"]


async def test_a_pair_is_of_one_version() -> None:
    async with fleet_of(("v1", Role.PREFILL), ("v2", Role.DECODE)) as fleet:
        assert not fleet.ready
        assert not fleet.has(V1) and not fleet.has(V2)
        assert fleet.ready_versions == 0
    async with fleet_of(("v1", Role.PREFILL), ("v2", Role.DECODE), ("v1", Role.DECODE), ("v2", Role.PREFILL)) as fleet:
        assert fleet.ready and fleet.has(V2)
        assert ids(fleet, V1) == ["p/0", "p/2"]


async def test_replicas_of_one_version_stand_in_for_each_other_alone() -> None:
    """The last one of a version is kept, however many there are of another."""
    async with fleet_of(("v1", Role.BOTH), ("v2", Role.BOTH), ("v2", Role.BOTH)) as fleet:
        fleet._failing("p/0", "it is slow")
        assert ids(fleet, V1) == ["p/0"]
        fleet._failing("p/1", "it is slow")
        await until(lambda: ids(fleet, V2) == ["p/2"])


@pytest.mark.parametrize(("given", "sent"), [({}, 0.25), ({"temperature": 0.0}, 0.0)])
async def test_a_versions_defaults_fill_in_what_a_request_does_not_name(given: dict[str, Any], sent: float) -> None:
    engine = SilentEngine(structs.replace(info_of(), version="v2"))
    async with serving(engine) as (_, address):
        fleet = PinnedFleet([spec_of(address)], "test", versions=BITS, serves=V2)
        fleet.defaults = {"v2": Sampling(temperature=0.25), "v1": Sampling(temperature=1.5)}
        fleet.start()
        try:
            await fleet.wait_ready(1)
            leg = fleet.open("pool/0", submit_of(**given))
            await engine.asked.wait()
            (submit,) = engine.submitted.values()
            assert submit.sampling.temperature == sent
            leg.close()
        finally:
            await fleet.aclose()


def test_bits_are_above_those_of_the_wire_and_never_given_twice() -> None:
    bits = VersionBits()
    names = [f"v{number}" for number in range(100)]
    given = [bits.bit(name) for name in names]
    assert len(set(given)) == 100
    assert min(given) > NAMED >= 1 << 64
    assert [bits.name(bit | NAMED | Feature.LORA.value) for bit in given] == names
    assert bits.bit("") == bits.marks("") == 0
    assert bits.name(Feature.LORA.value | NAMED) == ""
