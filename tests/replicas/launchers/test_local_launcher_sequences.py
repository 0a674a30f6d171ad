"""Whatever controllers do one after the other, and whatever dies: nothing runs twice, and nothing is left."""

import asyncio
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from protos.launch_step import LaunchStep
from replicas.launchers.held_process import Holder
from replicas.launchers.local_launcher import KILL_MARGIN_SECONDS, LocalLauncher
from tests.launched import begun, ended, local, order
from tests.loops import BOUND_SECONDS, until

IDS: Final = ("a", "b", "c")
GPUS: Final = (0, 1, 2)
STEPS = st.lists(
    st.tuples(st.sampled_from(["start", "start all", "stop", "kill", "observe"]), st.sampled_from(IDS)), max_size=12
)


class Machine:
    """A folder, its replicas, and the controllers that have been there one after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._launchers: list[LocalLauncher] = []

    def launcher(self, clock: float | None = None) -> LocalLauncher:
        self._launchers.append(local(self._folder, GPUS, clock))
        return self._launchers[-1]

    async def take(self, step: str, id_: str) -> None:
        launcher = self.launcher()
        if step == "start":
            await launcher.start([order(id_)])
        elif step == "start all":
            await asyncio.gather(
                launcher.start([order(one) for one in IDS]), self.launcher().start([order(id_), order("a")])
            )
        elif step == "stop":
            await launcher.stop([id_], 0.0)
        elif step == "observe":
            await launcher.observe()
        elif (holder := self.holder(id_)).held and holder.pid:
            os.kill(holder.pid, signal.SIGKILL)

    def holder(self, id_: str) -> Holder:
        return Holder(self._folder / "launched" / f"{id_}.lock")

    def running(self) -> list[str]:
        return [id_ for id_ in IDS if self.holder(id_).held]

    def lines(self, id_: str) -> list[str]:
        return begun(self._folder, id_)

    async def reap(self) -> None:
        """Let each controller take the statuses of its children."""
        for launcher in self._launchers:
            await launcher.observe()


async def run(machine: Machine, steps: list[tuple[str, str]]) -> None:
    stopped: set[str] = set()
    for step, id_ in steps:
        known = {one.id for one in await machine.launcher().observe()}
        await machine.take(step, id_)
        if step == "stop" and id_ in known:
            stopped.add(id_)
        gpus = [machine.lines(one)[0].split()[1] for one in machine.running() if machine.lines(one)]
        assert len(set(gpus)) == len(gpus)
    last = machine.launcher()
    await until(lambda: all(machine.lines(id_) for id_ in machine.running() if id_ not in stopped))
    assert stopped.isdisjoint(one.id for one in await last.observe() if one.step is not LaunchStep.STOPPING)
    await last.stop(IDS, 0.0)
    later = machine.launcher(time.monotonic() + KILL_MARGIN_SECONDS)
    async with asyncio.timeout(BOUND_SECONDS):
        while await later.observe():
            pass
    assert machine.running() == []
    assert all(len(machine.lines(id_)) <= 1 for id_ in IDS)
    await machine.reap()


@settings(max_examples=25)
@given(STEPS)
def test_nothing_runs_twice_and_nothing_is_left(steps: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-test-") as name, ended(Path(name)) as folder:
        asyncio.run(run(Machine(folder), steps))
