"""A group of replica processes, whoever orders its changes, and what kills its members meanwhile."""

import asyncio
import contextlib
import random
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from protos.reshape import Membership, MemberState
from protos.types import Load
from replicas.reshape.host_group import problem_of
from tests.loops import BOUND_SECONDS, until
from tests.reshaping import Lost, MemberProcess, Orderer, orderer_of, processes, spans

NARROW, WIDE = spans(1, 1, 1, 1), spans(4)


def moment_of(chance: random.Random) -> float:
    """Seconds from the first order of a change on; most often the change, of 0.1 to 0.2 s, is still under way."""
    return chance.uniform(0.0, 0.3) if chance.random() < 0.75 else chance.uniform(0.3, 1.5)


class Site:
    """A group of processes, in a folder of their sockets."""

    def __init__(self, folder: Path, members: list[MemberProcess], orderer: Orderer) -> None:
        self.folder, self.members, self.orderer = folder, members, orderer

    @property
    def memberships(self) -> list[Membership]:
        return [one.now for one in self.orderer.watched]

    def settled(self) -> bool:
        """Whether the replicas are in a legal shape about which all agree, and nothing is under way."""
        epochs = {one.epoch: one.now for one in self.orderer.watched}
        serving = {epoch: now for epoch, now in epochs.items() if now.state is MemberState.SERVING}
        parked = [now for now in epochs.values() if now.state is MemberState.PARKED]
        return (
            len(serving) + len(parked) == len(self.members)
            and not problem_of([now.span for now in serving.values()], len(self.members))
            and all(now.served_by in serving and serving[now.served_by].span == now.span for now in parked)
        )

    async def change(self) -> list[str]:
        """Make one of four, or four of one."""
        wide = any(now.span.width == 4 for now in self.memberships)
        return await self.orderer.run(*(WIDE, NARROW) if wide else (NARROW, WIDE))

    async def change_and_kill(self, moment: float, gpu: int) -> None:
        """Kill a member at a moment of a change, and start it again."""
        change = asyncio.create_task(self.change())
        await asyncio.sleep(moment)
        self.members[gpu].kill()
        self.members[gpu].start()
        try:
            await change
        except* Lost:
            pass
        await self.orderer.again(gpu)
        await self.orderer.abort()
        await until(self.settled, lambda: f"{self.memberships}", seconds=BOUND_SECONDS)

    async def loads(self) -> list[Load]:
        """The last load of each replica, once nothing runs."""

        def last() -> list[Load]:
            found = [[step.load for step in one.steps if step.load is not None] for one in self.orderer.watched]
            return [loads[-1] for loads in found if loads]

        def idle() -> bool:
            return len(last()) == len(self.members) and all(map(_idle, last()))

        await until(idle, lambda: str(last()))
        return last()


def _idle(load: Load) -> bool:
    return not (load.running or load.waiting or load.kv_blocks_used or load.kv_blocks_reserved)


@contextlib.asynccontextmanager
async def site_of(pace_ms: float) -> AsyncIterator[Site]:
    """Four narrow replicas, each a process whose steps take that long."""
    options = ("--pace-ms", str(pace_ms), "--drain-seconds", "1")
    with (
        tempfile.TemporaryDirectory(prefix="penstock-e2e-", ignore_cleanup_errors=True) as folder,
        processes(Path(folder), 4, *options) as members,
    ):
        async with orderer_of(member.address for member in members) as orderer:
            yield Site(Path(folder), members, orderer)
