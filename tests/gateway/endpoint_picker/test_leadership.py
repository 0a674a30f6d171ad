"""Which picker leads, by a real store."""

import pytest

from gateway.endpoint_picker.leadership import LEASE_PREFIX, Leadership
from gateway.scaling.leasing.lease import HELD_SECONDS, Lease
from gateway.store.store_client import Store
from tests.stores import running


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Picker:
    """One process's leadership, and what it was told."""

    def __init__(self, store: Store, name: str, clock: Clock) -> None:
        self.told: list[bool] = []
        self.lease = Lease(store, name, clock, LEASE_PREFIX)
        self.leadership = Leadership(self.lease, self._tell)

    async def _tell(self, leads: bool) -> None:
        self.told.append(leads)


async def test_changes_alone_are_told(store_url: str) -> None:
    async with running(store_url) as store:
        one, other = Picker(store, "one", Clock()), Picker(store, "other", Clock())
        for _ in range(3):
            await one.leadership.look()
            await other.leadership.look()
        assert (one.told, other.told) == ([True], [False])
        await one.lease.leave()
        await other.leadership.look()
        await one.leadership.look()
        assert (one.told, other.told) == ([True, False], [False, True])


async def test_a_controllers_lease_is_another_one(store_url: str) -> None:
    async with running(store_url) as store:
        controller = Lease(store, "controller")
        assert await controller.renew() is not None
        picker = Picker(store, "picker", Clock())
        await picker.leadership.look()
        assert picker.told == [True]


async def test_without_the_store_a_leader_leads_for_as_long_as_nobody_else_can(store_url: str) -> None:
    clock = Clock()
    async with running(store_url) as store:
        picker = Picker(store, "one", clock)
        await picker.leadership.look()
    picker.lease._storage = Store("redis://127.0.0.1:1/0", timeout=0.1)
    try:
        clock.now += HELD_SECONDS - 0.1
        await picker.leadership.look()
        assert picker.told == [True]
        clock.now += 0.2
        await picker.leadership.look()
        assert picker.told == [True, False]
    finally:
        await picker.lease._storage.aclose()


async def test_a_defect_does_not_end_it(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    class Lasts(Exception):
        pass

    looks = 0

    async def look() -> None:
        nonlocal looks
        looks += 1
        raise ZeroDivisionError

    async def pause(seconds: float) -> None:
        if looks == 3:
            raise Lasts

    leadership = Leadership(Lease.__new__(Lease), lambda leads: pause(0))
    monkeypatch.setattr(leadership, "look", look)
    monkeypatch.setattr("gateway.endpoint_picker.leadership.asyncio.sleep", pause)
    with pytest.raises(Lasts):
        await leadership.run()
    assert len(caplog.records) == 3
