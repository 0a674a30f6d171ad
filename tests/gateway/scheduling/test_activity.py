import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence

import pytest

from gateway.scheduling import activity
from gateway.scheduling.activity import Activity
from gateway.scheduling.division import merged
from gateway.scheduling.shares import ActiveTenant
from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from tests.loops import until

A, B = ActiveTenant("a", 0, 4.0, 0.3), ActiveTenant("b", 1, 1.0, 0.1)
HEAVY = ActiveTenant("a", 0, 4.0, 0.3, heavy=True)


@pytest.fixture(autouse=True)
def lasting_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is forgotten while the machine does something else."""
    monkeypatch.setattr(activity, "NOTE_SECONDS", 600.0)


class FakeAdmissionQueue:
    """What an activity asks of a admission queue."""

    def __init__(self, *active: ActiveTenant) -> None:
        self.active = list(active)
        self.active_elsewhere: Sequence[ActiveTenant] = ()
        self.asked = 0

    def active_here(self) -> list[ActiveTenant]:
        self.asked += 1
        return self.active


@contextlib.asynccontextmanager
async def store_at(url: str) -> AsyncIterator[Store]:
    store = Store(url, timeout=10.0)
    try:
        yield store
    finally:
        await store.aclose()


async def test_workers_learn_each_others_tenants_by_model(store_url: str) -> None:
    async with store_at(store_url) as store:
        one, other, elsewhere = (FakeAdmissionQueue(tenant) for tenant in (A, B, HEAVY))
        first, second = Activity(store, {"m": one, "other": elsewhere}), Activity(store, {"m": other})
        await first.exchange()
        assert one.active_elsewhere == [A]
        await second.exchange()
        await first.exchange()
        assert set(one.active_elsewhere) == set(other.active_elsewhere) == {A, B}
        assert elsewhere.active_elsewhere == [HEAVY]


async def test_a_tenant_that_changed_is_known_by_its_last_note_and_one_that_ended_is_forgotten(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_at(store_url) as store:
        admission_queue = FakeAdmissionQueue(A, B)
        exchange = Activity(store, {"m": admission_queue})
        await exchange.exchange()
        admission_queue.active = [HEAVY]
        await exchange.exchange()
        assert admission_queue.active_elsewhere[-1] == HEAVY
        admission_queue.active = []

        async def forgotten() -> None:
            while admission_queue.active_elsewhere:
                await exchange.exchange()

        await exchange.exchange()
        assert set(admission_queue.active_elsewhere) == {A, B, HEAVY}
        monkeypatch.setattr(activity, "NOTE_SECONDS", 0.2)
        await forgotten()


async def test_only_the_tenants_seen_last_are_told_of(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "MAX_TENANTS", 10)

    async with store_at(store_url) as store:
        admission_queue = FakeAdmissionQueue()
        exchange = Activity(store, {"m": admission_queue})
        for number in range(30):
            admission_queue.active = [ActiveTenant(f"t{number}", 0, 1, 0)]
            await exchange.exchange()
        await exchange.exchange()
        assert [tenant.name for tenant in admission_queue.active_elsewhere] == [
            f"t{number}" for number in range(20, 30)
        ]


class Counting(Store):
    """A store that counts the calls and what they say."""

    calls = sent = 0

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object:
        self.calls += 1
        self.sent += sum(map(len, (*keys, *arguments)))
        return await super().run(script, keys, arguments)


async def test_models_without_requests_cost_nothing(store_url: str) -> None:
    store = Counting(store_url, timeout=10.0)
    try:
        admission_queues = {f"m{number}": FakeAdmissionQueue() for number in range(500)}
        idle = Activity(store, admission_queues)
        await idle.exchange()
        assert store.calls == 1
        assert store.sent < 100
        admission_queues["m7"].active = [A]
        await idle.exchange()
        assert admission_queues["m7"].active_elsewhere == [A]
        assert store.calls == 2
        assert store.sent < 200
    finally:
        await store.aclose()


async def test_what_becomes_active_elsewhere_is_known_at_once_and_many_models_are_several_calls(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Counting(store_url, timeout=10.0)
    try:
        names = [f"m{number}" for number in range(100)]
        busy = Activity(store, {name: FakeAdmissionQueue(A) for name in (*names, "not here")})
        here = {name: FakeAdmissionQueue() for name in (*names, "idle")}
        other = Activity(store, here)
        await other.exchange()
        await busy.exchange()
        store.calls = 0
        await other.exchange()
        assert [name for name in here if here[name].active_elsewhere == [A]] == names
        assert store.calls == 3, "one tells what is active, and two read it"
        await other.exchange()
        assert store.calls == 5
        monkeypatch.setattr(activity, "NOTE_SECONDS", 0.0)
        await other.exchange()
        assert not any(queue.active_elsewhere for queue in here.values())
        store.calls = 0
        await other.exchange()
        assert store.calls == 1
    finally:
        await store.aclose()


async def test_while_the_store_is_away_a_worker_goes_by_what_it_sees(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with store_at("redis://127.0.0.1:1/0") as store:
            admission_queue = FakeAdmissionQueue(A)
            admission_queue.active_elsewhere = [B]
            exchange = Activity(store, {"m": admission_queue})
            await exchange.exchange()
            await exchange.exchange()
            assert not admission_queue.active_elsewhere
    assert len(caplog.records) == 1


async def test_it_runs_until_cancelled(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "SYNC_SECONDS", 0.001)

    async with store_at(store_url) as store:
        admission_queue = FakeAdmissionQueue(A)
        task = asyncio.create_task(Activity(store, {"m": admission_queue}).run())
        await until(lambda: admission_queue.asked > 5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_of_several_notes_the_last_counts_but_heavy_is_heavy() -> None:
    gold = ActiveTenant("a", 1, 2.0, 0.2)
    assert list(merged([A, B, gold])) == [gold, B]
    assert list(merged([HEAVY, gold])) == [ActiveTenant("a", 1, 2.0, 0.2, heavy=True)]
    assert list(merged([A, HEAVY])) == [HEAVY]
