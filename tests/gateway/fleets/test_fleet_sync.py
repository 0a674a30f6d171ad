import asyncio
import logging
from collections.abc import Sequence

import pytest

from gateway.fleets import fleet_sync as exchange
from gateway.fleets import reports
from gateway.fleets.replica_registry import ReplicaRegistry
from gateway.fleets.reports import Reporter
from gateway.store.embedded import EmbeddedStore
from gateway.store.lua_script import Script
from tests.gateway.fleets.world import FakeFleet, status, world_at
from tests.loops import until

SPOIL = Script("redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) return 1")


@pytest.fixture(autouse=True)
def lasting_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is forgotten while the machine does something else."""
    monkeypatch.setattr(reports, "REPORT_SECONDS", 600.0)


async def test_a_worker_drains_what_operators_want_drained(any_store_url: str) -> None:
    async with world_at(any_store_url) as world:
        registry = ReplicaRegistry(world.store, world.config)
        fleets = {"m": FakeFleet(), "org/m2": FakeFleet()}
        worker = world.worker("w", fleets, now=1000.0)
        await registry.drain("m", "narrow", 3000.0, "a")
        await registry.drain("m", "narrow/1", 500.0, "a")
        await worker.exchange()
        assert fleets["m"].drained.keys() == {"narrow/0", "narrow/1"}
        assert 3900.0 < fleets["m"].drained["narrow/0"] <= 4000.0
        assert 1400.0 < fleets["m"].drained["narrow/1"] <= 1500.0
        assert fleets["org/m2"].drained == {}
        await registry.resume("m", "narrow", "a")
        await worker.exchange()
        assert fleets["m"].drained == {}


async def test_a_worker_that_is_gone_is_not_heard_of_for_long(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world_at(store_url) as world:
        registry = ReplicaRegistry(world.store, world.config)
        for name in ("a", "b"):
            await world.worker(name, {"m": FakeFleet(status("wide/0"))}).exchange()
        assert (await registry.replicas("m"))[0].workers == 2
        monkeypatch.setattr(reports, "REPORT_SECONDS", 0.2)

        async def forgotten() -> None:
            while (await registry.replicas("m"))[0].workers:
                pass

        await forgotten()


async def test_what_another_version_has_written_is_left_out(store_url: str) -> None:
    async with world_at(store_url) as world:
        await Reporter(world.store, "w").report({"m": [status("wide/0")]})
        for number, raw in enumerate(
            (b"\x00", b"\x81\xa1\xff\x90", b"\x81\xa1a\x91\x81\xa1x" + b"\x91" * 100_000 + b"\xc0")
        ):
            await world.store.run(SPOIL, [reports._KEYS[1]], [f"other{number}", raw])
        assert len(await reports.reports(world.store)) == 1


async def test_a_report_is_sent_when_it_has_changed(any_store_url: str) -> None:
    async with world_at(any_store_url) as world:
        sent: list[int] = []
        run = world.store.run

        async def counted(script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object:
            sent.append(sum(map(len, arguments)))
            return await run(script, keys, arguments)

        world.store.run = counted  # type: ignore[method-assign]
        fleets = {f"m{number}": FakeFleet(status("wide/0")) for number in range(500)}
        reporter = Reporter(world.store, "w")

        async def reported() -> int:
            sent.clear()
            await reporter.report({model: fleet.statuses() for model, fleet in fleets.items()})
            return sum(sent)

        first = await reported()
        assert first > 500 * 50
        for _ in range(3):
            assert await reported() < 20
        fleets["m7"].said = [status("wide/0", running=9)]
        assert first <= await reported() < first + 100
        (found,) = await reports.reports(world.store)
        assert found["m7"][0].running == 9
        assert found["m8"] == [status("wide/0")]
        fleets["m7"].said = [status("wide/0", running=9)]
        assert await reported() < 20, "it is another object, but says the same"
        del fleets["m8"]
        await reported()
        (found,) = await reports.reports(world.store)
        assert "m8" not in found


async def test_a_report_that_the_store_has_lost_is_sent_again(store_url: str) -> None:
    async with world_at(store_url) as world:
        fleet = FakeFleet(status("wide/0"))
        reporter = Reporter(world.store, "w")
        await reporter.report({"m": fleet.statuses()})
        await world.store.run(Script("return redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])"), reports._KEYS, [])
        await reporter.report({"m": fleet.statuses()})
        assert await reports.reports(world.store) == [{"m": [status("wide/0")]}]
        fleet.said = [status("wide/0", running=9)]
        await reporter.report({"m": fleet.statuses()})
        # A server that takes over may lack the last write.
        await Reporter(world.store, "w").report({"m": [status("wide/0")]})
        await reporter.report({"m": fleet.statuses()})
        assert await reports.reports(world.store) == [{"m": [status("wide/0", running=9)]}]


async def test_without_the_store_what_is_drained_stays_drained(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with world_at("redis://127.0.0.1:1/0") as world:
            fleet = FakeFleet()
            worker = world.worker("w", {"m": fleet})
            await worker.exchange()
            await worker.exchange()
            assert fleet.times == 0
    assert len(caplog.records) == 1


async def test_a_drained_replica_that_comes_back_without_the_store_is_drained(own_store: EmbeddedStore) -> None:
    async with world_at(own_store.url) as world:
        fleet = FakeFleet()
        worker = world.worker("w", {"m": fleet})
        await ReplicaRegistry(world.store, world.config).drain("m", "narrow/0", 5.0, "a")
        await worker.exchange()
        own_store.stop()
        fleet.drained = {}
        await worker.exchange()
        assert fleet.drained.keys() == {"narrow/0"}


@pytest.mark.parametrize("raw", [b"{", b'{"model":"\xff"}'])
async def test_a_record_that_cannot_be_read_changes_nothing(
    raw: bytes, store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with world_at(store_url) as world:
            await world.store.run(SPOIL, ["penstock:{keys}:drains"], ["m wide", raw])
            fleet = FakeFleet()
            await world.worker("w", {"m": fleet}).exchange()
            assert fleet.times == 0
    assert len(caplog.records) == 1


async def test_it_runs_until_cancelled(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "SYNC_SECONDS", 0.001)

    async with world_at(store_url) as world:
        fleet = FakeFleet()
        task = asyncio.create_task(world.worker("w", {"m": fleet}).run())
        await until(lambda: fleet.times > 3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_announcements_are_looked_at_at_once_and_keep_no_exchange_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchange, "SYNC_SECONDS", 0.02)
    async with world_at("redis://127.0.0.1:1/0") as world:
        worker = world.worker("w", {"m": FakeFleet()})
        done: list[str] = []

        async def note(what: str) -> None:
            done.append(what)

        monkeypatch.setattr(worker, "exchange", lambda: note("exchange"))
        monkeypatch.setattr(worker, "look", lambda: note("look"))
        running = asyncio.create_task(worker.run())
        try:
            await until(lambda: done)
            assert done == ["exchange"]
            worker.announced()
            await until(lambda: "look" in done)

            def announced_without_end() -> bool:
                worker.announced()
                return done.count("exchange") >= 4 and done.count("look") >= 4

            await until(announced_without_end)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
