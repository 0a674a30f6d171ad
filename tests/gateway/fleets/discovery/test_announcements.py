import asyncio
import logging
import os
import signal

import msgspec
import pytest
import redis
from msgspec import structs

from gateway.config.settings import Config
from gateway.fleets import fleet_sync
from gateway.fleets.discovery import announcements
from gateway.fleets.discovery.announcements import Announcements
from gateway.fleets.discovery.registrations import CHANGES, Registration, deregister, register
from gateway.fleets.discovery.replica_discovery import Discovery
from gateway.fleets.fleet_sync import FleetSync
from gateway.store import subscription
from gateway.store.embedded import EmbeddedStore
from protos.errors import StoreUnavailable
from protos.launch_step import LaunchStep
from protos.types import Role, Shape
from tests.gateway.fleets.world import FakeFleet
from tests.loops import until
from tests.stores import running

POOL = {"name": "p", "engine": "simulated", "replicas": "registered"}
CONFIG = msgspec.convert({"models": [{"name": "m", "tokenizer": "t", "context": 9, "pools": [POOL]}]}, Config)
STARTING = Registration("m", "p", "grpc://10.0.0.1:1", 5, "simulated", Shape(), Role.BOTH, step=LaunchStep.PROCESS)
READY = structs.replace(STARTING, step=LaunchStep.READY)


class Fleet(FakeFleet):
    """A fleet that notes each time which its replicas are."""

    def __init__(self) -> None:
        super().__init__()
        self.members: list[list[str]] = []

    def set_replicas(self, specs: object) -> None:
        self.members.append([spec.address for spec in specs])  # type: ignore[attr-defined]

    def answers(self, replica_id: str) -> bool:
        return False


async def ended(*tasks: "asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_what_is_ready_is_a_member_before_anybody_looks(
    any_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_sync, "SYNC_SECONDS", 3600.0)
    async with running(any_store_url) as store, running(any_store_url) as replica:
        fleets = [Fleet(), Fleet()]
        tasks, subscribed = [], []
        for fleet in fleets:
            discovery = Discovery(CONFIG, {"m": fleet}, {"m": ""})
            sync = FleetSync(store, CONFIG, f"w{id(fleet)}", {"m": fleet}, finder=discovery)
            tasks.append(asyncio.create_task(sync.run()))

            def heard(sync: FleetSync = sync) -> None:
                subscribed.append(sync)
                sync.announced()

            tasks.append(asyncio.create_task(Announcements(store, CHANGES, heard, "changes are noticed late").run()))
        await until(lambda: len(subscribed) >= 2)
        await register(replica, STARTING)
        await register(replica, STARTING)
        await register(replica, READY)
        await until(lambda: all(fleet.members for fleet in fleets))
        assert [members for fleet in fleets for members in fleet.members] == [[READY.address]] * 2
        await deregister(replica, READY)
        await until(lambda: all(fleet.members[-1] == [] for fleet in fleets))
        await ended(*tasks)


async def test_changes_alone_are_announced(any_store_url: str) -> None:
    async with running(any_store_url) as store:
        heard: list[int] = []
        task = asyncio.create_task(
            Announcements(store, CHANGES, lambda: heard.append(1), "changes are noticed late").run()
        )
        await until(lambda: heard)
        for replica in (STARTING, STARTING, READY, READY):
            await register(store, replica)
        for _ in range(2):
            await deregister(store, READY)
        await register(store, STARTING)
        await until(lambda: len(heard) >= 5)
        # Announcements come in their order: one too many came before the last one.
        for _ in range(3):
            await store.now()
        assert len(heard) == 5
        await ended(task)


async def test_a_lost_subscription_begins_again(
    own_store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(announcements, "RETRY_SECONDS", 0.01)
    async with running(own_store.url) as store:
        heard: list[int] = []
        with caplog.at_level(logging.WARNING):
            task = asyncio.create_task(
                Announcements(store, CHANGES, lambda: heard.append(1), "changes are noticed late").run()
            )
            await until(lambda: heard)
            own_store.stop()
            await until(lambda: "changes are noticed late" in caplog.text)
            own_store.start()
            await until(lambda: len(heard) == 2)
        await register(store, READY)
        await until(lambda: len(heard) == 3)
        await ended(task)


async def test_a_user_who_may_not_publish_registers_all_the_same(own_store: EmbeddedStore) -> None:
    with redis.Redis.from_url(own_store.url) as client:
        client.acl_setuser("u", enabled=True, nopass=True, commands=["+@all"], keys=["*"], reset_channels=True)
    url = own_store.url.replace("unix://", "unix://u:x@")
    async with running(url) as store:
        assert await register(store, READY)
        with pytest.raises(StoreUnavailable) as caught:
            await store.hear(CHANGES, lambda: None)
        assert "its user may not do what Penstock needs" in str(caught.value.__cause__)


async def test_a_server_that_says_nothing_is_lost(own_store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "SILENCE_SECONDS", 0.05)
    async with running(own_store.url) as store:
        heard: list[int] = []
        hearing = asyncio.create_task(store.hear(CHANGES, lambda: heard.append(1)))
        await until(lambda: heard)
        assert own_store.pid is not None
        os.kill(own_store.pid, signal.SIGSTOP)
        try:
            with pytest.raises(StoreUnavailable) as caught:
                await hearing
        finally:
            os.kill(own_store.pid, signal.SIGCONT)
        assert "no answer within 0.05 s" in str(caught.value.__cause__)
