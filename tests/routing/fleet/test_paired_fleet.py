import contextlib

from msgspec import structs

from protos.features import Feature
from protos.types import Role
from routing.fleet.paired_fleet import PairedFleet
from tests.fakes import SilentEngine, info_of
from tests.harness import serving, spec_of
from tests.loops import until

P, D, B = Role.PREFILL, Role.DECODE, Role.BOTH


async def test_halves_of_pairs_are_of_one_version() -> None:
    """Those of which there are most pairs serve; replicas of whole requests and of no version serve with any."""
    replicas = [(P, "v1"), (D, "v1"), (P, "v2"), (D, "v2"), (P, "v2"), (B, "v3"), (P, "")]
    async with contextlib.AsyncExitStack() as stack:
        specs = []
        for number, (role, version) in enumerate(replicas):
            engine = SilentEngine(structs.replace(info_of(role=role), version=version))
            _, address = await stack.enter_async_context(serving(engine))
            specs.append(spec_of(address, id=f"p/{number}", role=role))
        fleet = PairedFleet(specs[:2], "test")
        fleet.start()
        stack.push_async_callback(fleet.aclose)

        def ids(needs: int = 0) -> set[str]:
            return {view.id for view in fleet.candidates((), needs)}

        await until(lambda: ids() == {"p/0", "p/1"})
        fleet.set_replicas(specs[:4])
        await until(lambda: fleet.answers("p/2") and fleet.answers("p/3"))
        assert ids() == ids(Feature.LOGPROBS.value) == {"p/0", "p/1"}
        fleet.set_replicas(specs[2:])
        await until(lambda: ids() == {"p/2", "p/3", "p/4", "p/5", "p/6"})
        fleet.set_replicas([specs[0], specs[3]])
        await until(lambda: fleet.answers("p/0") and not fleet.answers("p/2"))
        assert not fleet.ready
