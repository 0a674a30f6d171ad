"""Controllers as they are: processes over a real store, with replicas that the launcher of this machine starts."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.config.settings import Config
from gateway.fleets.discovery.registrations import registered
from gateway.scaling.demand.demand_reports import ModelReport, report_demand
from gateway.scaling.intents import read_intents
from gateway.scaling.scaling_registry import ScalingRegistry
from gateway.scaling.status import ScalingStatus, read_status
from gateway.store.embedded import EmbeddedStore
from gateway.store.store_client import Store
from protos.errors import StoreUnavailable
from protos.launch_step import LaunchStep
from replicas.launchers.held_process import Holder
from tests.launched import ended

pytestmark = pytest.mark.slow

#: Several Python processes start on machines that do other things beside them.
PATIENCE_SECONDS = 60.0
#: An operator's command that hangs where a file says so.
HANGING = """
import json, pathlib, sys, time
folder, what = pathlib.Path(sys.argv[1]), sys.argv[2]
given = json.load(sys.stdin)
while (folder / "hang").exists():
    time.sleep(0.1)
if what == "start":
    for order in given["replicas"]:
        with open(folder / "starts", "a") as starts:
            starts.write(order["id"] + "\\n")
        (folder / f"{order['id']}.json").write_text(json.dumps(
            {"id": order["id"], "model": "m", "pool": order["pool"], "step": "ready", "since": time.time()}
        ))
elif what == "observe":
    print(json.dumps({"replicas": [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]}))
else:
    for id_ in given["ids"]:
        (folder / f"{id_}.json").unlink(missing_ok=True)
"""


class Site:
    """A folder with a store, and controllers beside it; one worker's report says that nothing is asked for."""

    def __init__(self, folder: Path, pools: list[dict[str, Any]], launchers: dict[str, Any]) -> None:
        self.folder = folder
        self.process = EmbeddedStore(folder)
        models = [{"name": "m", "tokenizer": "mistral-tekken", "context": 4096, "pools": pools}]
        config = {"state": str(folder), "models": models, "launchers": launchers, "admin": {"enabled": False}}
        self._file = folder / "penstock.yaml"
        self._file.write_bytes(msgspec.yaml.encode(config))
        self.config = msgspec.convert(config, Config)
        self.controllers: list[subprocess.Popen[bytes]] = []
        self.store: Store

    def begin(self) -> subprocess.Popen[bytes]:
        """Begin another controller."""
        command = [sys.executable, "-P", "-m", "gateway.cli.main", "controller", "--config", str(self._file)]
        self.controllers.append(subprocess.Popen(command, stdin=subprocess.DEVNULL))
        return self.controllers[-1]

    @property
    def registry(self) -> ScalingRegistry:
        return ScalingRegistry(self.store, self.config)

    async def status(self, wanted: Callable[[ScalingStatus], object]) -> ScalingStatus:
        """Wait until the controller has told that; the worker reports meanwhile."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                with contextlib.suppress(StoreUnavailable):
                    await report_demand(self.store, "w", {"m": ModelReport(window=30.0, arrivals=0.0)})
                    _, found = await read_status(self.store)
                    if found is not None and wanted(found):
                        return found
                await asyncio.sleep(0.1)

    async def launched(self) -> set[str]:
        """The ids of the replicas that serve."""
        return {one.launch_id for one in await registered(self.store) if one.step is LaunchStep.READY}

    def pids(self) -> dict[str, int]:
        """Process ids by replica, of all that have begun and are not forgotten."""
        return {path.stem: pid for path in self._locks() if (pid := Holder(path).pid)}

    def running(self) -> set[str]:
        """The replicas whose processes run."""
        return {path.stem for path in self._locks() if Holder(path).held}

    def _locks(self) -> Iterator[Path]:
        return (self.folder / "launched").glob("p-*.lock")


@contextlib.asynccontextmanager
async def site(
    folder: Path, pool: dict[str, Any] | None = None, launchers: dict[str, Any] | None = None
) -> AsyncIterator[Site]:
    given = {
        "name": "p",
        "engine": "simulated",
        "replicas": "registered",
        "launcher": "local",
        "scaling": {"min": 2, "max": 6},
        "simulated": {"instant": True},
    }
    with ended(folder):
        made = Site(folder, [{**given, **(pool or {})}], launchers or {})
        made.process.start()
        made.store = Store(made.process.url, timeout=1.0)
        try:
            yield made
        finally:
            for controller in made.controllers:
                controller.kill()
                controller.wait()
            await made.store.aclose()
            made.process.stop()


def ready(count: int) -> Callable[[ScalingStatus], bool]:
    def is_so(status: ScalingStatus) -> bool:
        (pool,) = status.models[0].pools
        return pool.ready == count and not pool.starting and not pool.stopping

    return is_so


async def test_a_controller_is_killed_and_another_goes_on_with_what_runs(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        first, second = here.begin(), here.begin()
        before = await here.status(ready(2))
        running = here.pids()
        assert len(running) == 2
        acting = first if f"-{first.pid}-" in before.controller.name else second
        acting.kill()
        after = await here.status(lambda status: status.controller.token > before.controller.token)
        assert after.controller.name != before.controller.name
        await here.registry.set_replicas("m", "p", 3, "a")
        await here.status(ready(3))
        assert here.pids().items() >= running.items()
        assert len(here.pids()) == 3
        # It ends in order, with all that it has started.
        other = second if acting is first else first
        other.terminate()
        assert await asyncio.to_thread(other.wait, PATIENCE_SECONDS) == 0
        assert await here.launched() == set()
        assert here.running() == set()
        assert await read_intents(here.store) == []


@pytest.mark.drill
async def test_replicas_that_are_killed_while_they_start_serve_and_drain_are_replaced(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        here.begin()
        while not (begun := here.pids()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        os.kill(next(iter(begun.values())), signal.SIGKILL)
        await here.status(ready(2))
        serving = await here.launched()
        os.kill(here.pids()[next(iter(serving))], signal.SIGKILL)
        await here.status(lambda status: len(status.models[0].pools[0].failed) == 2)
        await here.status(ready(2))
        await here.registry.set_replicas("m", "p", 1, "a")
        await here.status(lambda status: status.models[0].pools[0].stopping)
        (leaving,) = [intent.id for intent in await read_intents(here.store) if intent.state != "run"]
        with contextlib.suppress(ProcessLookupError):
            os.kill(here.pids()[leaving], signal.SIGKILL)
        await here.status(ready(1))
        assert len(await read_intents(here.store)) == 1


@pytest.mark.drill
async def test_a_store_that_freezes_for_15_s_in_the_middle_of_a_start(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        here.begin()
        await here.status(ready(2))
        await here.registry.set_replicas("m", "p", 5, "a")
        await here.status(lambda status: bool(status.models[0].pools[0].starting))
        pid = here.process.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(15.0)
        finally:
            os.kill(pid, signal.SIGCONT)
        await here.status(ready(5))
        assert len(here.pids()) == 5
        # They say so again within half a second of the store's return.
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(await here.launched()) < 5:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert len(here.pids()) == 5


async def test_a_launcher_that_hangs_is_left_alone_and_then_asked_again(tmp_path: Path) -> None:
    folder = tmp_path / "cloud"
    folder.mkdir()
    call = [sys.executable, "-I", "-S", "-c", HANGING, str(folder)]
    command = {"start": [*call, "start"], "observe": [*call, "observe"], "stop": [*call, "stop"]}
    pool = {"launcher": "command", "engine": "tensorrt_llm", "simulated": None}
    async with site(tmp_path, pool, {"command": {**command, "timeout_seconds": 3.0}}) as here:
        here.begin()
        await here.status(ready(2))
        (folder / "hang").touch()
        await here.registry.set_replicas("m", "p", 4, "a")
        await here.status(lambda status: "observe" in status.models[0].pools[0].problem)
        (folder / "hang").unlink()
        await here.status(ready(4))
        assert len((folder / "starts").read_text().split()) == 4
