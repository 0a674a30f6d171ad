"""Launchers from the configuration: a replica that a process in wait becomes, with real processes and a real store."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.config.secret_variables import LateSecrets
from gateway.config.settings import Config
from gateway.fleets.discovery.registrations import registered
from gateway.scaling.build_launchers import build_launchers
from gateway.store.store_client import Store
from protos.types import Shape
from replicas.launchers import standby_slots
from replicas.launchers.held_process import Holder
from replicas.launchers.launcher import ReplicaOrder
from tests.harness import submit_of, worker_at
from tests.loops import SOON_SECONDS, until


def config(folder: Path, store_url: str, **local: Any) -> Config:
    pool: dict[str, Any] = {"name": "p", "engine": "simulated", "replicas": "registered", "launcher": "local"}
    pool |= {"scaling": {"min": 0, "max": 4}, "simulated": {"instant": True}}
    model = {"name": "m", "tokenizer": "mistral-tekken", "context": 4096, "pools": [pool]}
    settings = {"state": str(folder), "store": {"url": store_url}, "models": [model], "launchers": {"local": local}}
    return msgspec.convert(settings, Config)


@pytest.fixture
def folder(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # What waits is well, however long a busy machine lets it wait for its turn.
    monkeypatch.setattr(standby_slots, "_ORDER_SECONDS", SOON_SECONDS)
    try:
        yield state_dir
    finally:
        for lock in state_dir.glob("launched/**/*.lock"):
            holder = Holder(lock)
            if holder.held and holder.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(holder.pid, signal.SIGKILL)


def environment_of(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


async def test_a_process_in_wait_becomes_a_registered_replica(folder: Path, store_url: str) -> None:
    launcher = build_launchers(config(folder, store_url, standby=1), LateSecrets())["local"]
    assert await launcher.observe() == []
    await until(lambda: any(folder.glob("standby-*.sock")))
    (slot,) = (folder / "launched" / "standby").glob("*.lock")
    waiting = Holder(slot).pid
    await launcher.start([ReplicaOrder(id="m-p-1", model="m", pool="p", shape=Shape(tp=2))])
    assert Holder(folder / "launched" / "m-p-1.lock").pid == waiting
    (seen,) = await launcher.observe()
    log = folder / "launched" / "m-p-1.log"
    await until(lambda: "started in" in log.read_text(), lambda: log.read_text())
    async with worker_at(seen.address) as worker:
        welcome = await worker.hello()
        assert (welcome.info.model, welcome.info.shape) == ("m", Shape(tp=2))
        await worker.send((1, submit_of(3)))
        await worker.finished(1)
    store = Store(store_url, timeout=10.0)
    try:
        while [one.launch_id for one in await registered(store)] != ["m-p-1"]:
            pass
    finally:
        await store.aclose()
    await launcher.stop(["m-p-1"], 5.0)
    await until(lambda: not Holder(folder / "launched" / "m-p-1.lock").held)


def test_without_standby_there_are_no_slots(folder: Path, store_url: str) -> None:
    assert build_launchers(config(folder, store_url), LateSecrets())["local"]._standby is None  # type: ignore[attr-defined]


async def test_a_process_in_wait_keeps_the_gpus_of_its_pool_s_shape(folder: Path, store_url: str) -> None:
    launcher = build_launchers(config(folder, store_url, standby=1, gpus=[2, 3]), LateSecrets())["local"]
    await launcher.observe()
    await until(lambda: any(folder.glob("standby-*.sock")))
    await launcher.start([ReplicaOrder(id="m-p-1", model="m", pool="p", shape=Shape())])
    holder = Holder(folder / "launched" / "m-p-1.lock")
    environment = environment_of(holder.pid)
    assert b"CUDA_VISIBLE_DEVICES=2" in environment
    assert not [variable for variable in environment if variable.startswith(b"PENSTOCK_LAUNCHED=")], "it had waited"
    await launcher.stop(["m-p-1"], 5.0)
    await until(lambda: not Holder(folder / "launched" / "m-p-1.lock").held)
