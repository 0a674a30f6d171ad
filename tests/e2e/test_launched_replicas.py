"""Replicas that the launcher of this machine starts, as they are: processes, a real store, and no gateway."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest

from gateway.config.secret_variables import LateSecrets
from gateway.config.settings import Config
from gateway.fleets.discovery.registrations import Registration, registered
from gateway.fleets.local_replicas import launch_address, launch_command, launch_environment
from gateway.store.embedded import EmbeddedStore
from gateway.store.store_client import Store
from protos.launch_step import LaunchStep
from protos.types import Role, Shape
from replicas.launchers.launcher import LaunchedReplica, ReplicaOrder
from replicas.launchers.local_launcher import LocalLauncher
from tests.harness import submit_of, worker_at
from tests.launched import ended

pytestmark = pytest.mark.slow

#: Several Python processes start on machines that do other things beside them.
PATIENCE_SECONDS = 60.0


def order(id_: str) -> ReplicaOrder:
    return ReplicaOrder(id=id_, model="m", pool="p", shape=Shape(tp=2), role=Role.BOTH, version="v1")


class Site:
    """A folder with a store, and launchers as controllers have them."""

    def __init__(self, folder: Path) -> None:
        self.store_process = EmbeddedStore(folder)
        self._folder = folder

    def launcher(self, *arguments: str) -> LocalLauncher:
        pool = {
            "name": "p",
            "engine": "simulated",
            "replicas": "registered",
            "launcher": "local",
            "scaling": {"min": 0, "max": 9},
            "replica_arguments": ["--pace-ms", "5", *arguments],
        }
        models = [{"name": "m", "tokenizer": "mistral-tekken", "context": 4096, "pools": [pool]}]
        config = msgspec.convert({"state": str(self._folder), "models": models}, Config)
        return LocalLauncher(
            self._folder / "launched",
            lambda one, address: launch_command(config, 0, 0, one, address),
            partial(launch_address, config),
            launch_environment(config, LateSecrets()),
        )

    def pid(self, id_: str) -> int:
        return int((self._folder / "launched" / f"{id_}.lock").read_text())


@contextlib.asynccontextmanager
async def site(folder: Path) -> AsyncIterator[tuple[Site, Store]]:
    with ended(folder):
        made = Site(folder)
        made.store_process.start()
        store = Store(made.store_process.url, timeout=10.0)
        try:
            yield made, store
        finally:
            await store.aclose()
            made.store_process.stop()


async def told(store: Store, wanted: Callable[[dict[str, Registration]], object]) -> dict[str, Registration]:
    """Wait until that has been registered, by launch id."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not wanted(found := {one.launch_id: one for one in await registered(store)}):  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    return found


async def seen(launcher: LocalLauncher, wanted: Callable[[dict[str, LaunchedReplica]], object]) -> None:
    """Wait until the launcher shows that, by launch id."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not wanted({one.id: one for one in await launcher.observe()}):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def both_ready(found: dict[str, Registration]) -> bool:
    return len(found) == 2 and all(one.step is LaunchStep.READY for one in found.values())


async def test_a_launched_replica_tells_how_far_it_is_until_it_is_stopped(state_dir: Path) -> None:
    async with site(state_dir) as (made, store):
        launcher = made.launcher()
        await launcher.start([order("a"), order("b")])
        found = await told(store, both_ready)
        # Who looks seldom sees the last step alone, which tells of those before.
        assert LaunchStep.PROCESS.value in found["a"].start_seconds
        shown = {one.id: one for one in await launcher.observe()}
        assert {id_: one.address for id_, one in found.items()} == {id_: one.address for id_, one in shown.items()}
        assert (found["a"].shape, found["a"].version, found["a"].pool) == (Shape(tp=2), "v1", "p")
        async with worker_at(found["a"].address) as worker:
            await worker.hello()
            await worker.send((1, submit_of(10)))
            # It is drained in a controller that did not start it.
            other = made.launcher()
            await other.stop(["a"], 30.0)
            await told(store, lambda found: "a" not in found or found["a"].step is LaunchStep.STOPPING)
        await seen(other, lambda found: set(found) == {"b"})
        await told(store, lambda found: set(found) == {"b"})
        os.kill(made.pid("b"), signal.SIGKILL)
        await seen(launcher, lambda found: found["b"].step is LaunchStep.FAILED)
        await told(store, lambda found: not found)


async def test_an_orphan_ends_itself_and_one_with_a_gateway_does_not(state_dir: Path) -> None:
    async with site(state_dir) as (made, store):
        launcher = made.launcher("--orphan-seconds", "1.5")
        await launcher.start([order("a"), order("b")])
        found = await told(store, both_ready)
        async with worker_at(found["a"].address) as worker:
            await worker.hello()
            await worker.step()
            made.store_process.stop()
            await seen(launcher, lambda found: found["b"].step is LaunchStep.FAILED)
            problem = {one.id: one.problem for one in await launcher.observe()}["b"]
            assert problem.startswith("ended with status 0: ")
            log = (state_dir / "launched" / "b.log").read_text()
            assert "for 1.5 s the store has not answered, and no gateway has been connected" in log
            assert {one.id: one.step for one in await launcher.observe()}["a"] is LaunchStep.PROCESS
        await seen(launcher, lambda found: found["a"].step is LaunchStep.FAILED)
