import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator

import pytest
from msgspec import structs

from gateway.cli import announcer as module
from gateway.cli.announcer import Announcer
from gateway.fleets.discovery.registrations import Registration, registered
from gateway.store.embedded import EmbeddedStore
from protos.launch_step import LaunchStep
from protos.types import Role, Shape
from tests.loops import until
from tests.stores import running

ONE = Registration("m", "p", "grpc://10.0.0.9:9", 5, "simulated", Shape(), Role.BOTH, launch_id="a")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEARTBEAT_SECONDS", 0.005)


@contextlib.asynccontextmanager
async def saying(announcer: Announcer, *replicas: Registration) -> AsyncIterator[None]:
    """Run it in this loop, with these replicas."""
    announcer.say(replicas)
    task = asyncio.create_task(announcer.run())
    try:
        yield
    finally:
        announcer.stop()
        await task


async def test_an_outage_of_the_store_is_waited_for(own_store: EmbeddedStore, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        async with saying(Announcer(own_store.url), ONE):
            await until(lambda: "registered as grpc://10.0.0.9:9" in caplog.text)
            own_store.stop()
            await until(lambda: "cannot register" in caplog.text)
            caplog.clear()
            own_store.start()
            await until(lambda: "registered as" in caplog.text)
            async with running(own_store.url) as store:
                assert await registered(store) == [ONE]
            own_store.stop()
        assert "cannot deregister" in caplog.text


async def test_two_of_one_address_are_noticed(store_url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with (
        saying(Announcer(store_url), ONE),
        saying(Announcer(store_url), structs.replace(ONE, epoch=ONE.epoch + 1)),
    ):
        await until(lambda: "another replica that began later" in caplog.text)
    assert sum(record.levelname == "ERROR" for record in caplog.records) == 1


async def test_what_nobody_attends_to_is_not_spoken_of(store_url: str, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    announcer = Announcer(store_url, clock=clock)
    with caplog.at_level(logging.INFO):
        async with saying(announcer, ONE):
            await until(lambda: "registered as" in caplog.text)
            announcer.attend(1)
            clock.now += module.ATTENDED_SECONDS + 0.1
            await until(lambda: "does nothing any more" in caplog.text)
            caplog.clear()
            announcer.attend(1)
            await until(lambda: "registered as" in caplog.text)


class Orphan:
    """A launched replica in a store that can be frozen, which notes when it would end itself."""

    def __init__(self, store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_TIMEOUT_SECONDS", 0.01)
        self.clock = Clock()
        self.ends = 0
        self.announcer = Announcer(store.url, 60.0, end=self._end, clock=self.clock)

    async def waits(self, seconds: int, sessions: int | None = None) -> None:
        """Let so many seconds pass, of which it sees each."""
        for _ in range(seconds):
            self.clock.now += 1.0
            if sessions is not None:
                self.announcer.attend(sessions)
            await until(lambda: self.announcer._looked == self.clock.now)

    def _end(self) -> None:
        self.ends += 1


@contextlib.contextmanager
def frozen(store: EmbeddedStore) -> Iterator[None]:
    assert store.pid is not None
    os.kill(store.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(store.pid, signal.SIGCONT)


async def test_an_orphan_ends_itself(
    own_store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    orphan = Orphan(own_store, monkeypatch)
    with caplog.at_level(logging.INFO):
        async with saying(orphan.announcer, ONE):
            await until(lambda: "registered as" in caplog.text)
            await orphan.waits(61)
            assert orphan.ends == 0
            # The store has answered at this very moment: what comes from here on counts from here.
            await until(lambda: orphan.announcer._alone_seconds == 0.0)
            with frozen(own_store):
                await until(lambda: "cannot register" in caplog.text)
                await orphan.waits(58)
                assert orphan.ends == 0
                await orphan.waits(3)
                assert "for 60 s the store has not answered, and no gateway has been connected" in caplog.text
                await orphan.waits(61)
                assert orphan.ends == 1


async def test_a_replica_with_a_gateway_is_no_orphan(
    own_store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    orphan = Orphan(own_store, monkeypatch)
    with caplog.at_level(logging.INFO):
        async with saying(orphan.announcer, ONE):
            await until(lambda: "registered as" in caplog.text)
            with frozen(own_store):
                await until(lambda: "cannot register" in caplog.text)
                await orphan.waits(100, sessions=1)
                await orphan.waits(58, sessions=0)
                assert orphan.ends == 0
                await orphan.waits(3, sessions=0)
                assert orphan.ends == 1


async def test_a_process_that_stood_still_is_no_orphan(
    own_store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    orphan = Orphan(own_store, monkeypatch)
    with caplog.at_level(logging.INFO):
        async with saying(orphan.announcer, ONE):
            await until(lambda: "registered as" in caplog.text)
            with frozen(own_store):
                await until(lambda: "cannot register" in caplog.text)
                orphan.clock.now += 3600.0
                await orphan.waits(30)
                assert orphan.ends == 0


async def test_what_ends_is_not_said_to_stand_still(store_url: str, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    announcer = Announcer(store_url, clock=clock)
    with caplog.at_level(logging.INFO):
        async with saying(announcer, ONE):
            announcer.attend(0)
            announcer.say([structs.replace(ONE, step=LaunchStep.STOPPING)])
            clock.now += 60.0
            async with running(store_url) as store:
                while [one.step for one in await registered(store)] != [LaunchStep.STOPPING]:
                    pass
    assert "does nothing any more" not in caplog.text


async def test_it_is_a_thread_of_its_own(store_url: str) -> None:
    announcer = Announcer(store_url)
    async with running(store_url) as store:
        with announcer.running():
            announcer.say([ONE])
            while await registered(store) != [ONE]:
                pass
        assert await registered(store) == []
