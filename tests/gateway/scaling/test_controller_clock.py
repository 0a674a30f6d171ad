"""A controller whose store's clock jumps."""

from collections.abc import Sequence

import msgspec
import pytest

from gateway.scaling import inputs
from gateway.scaling.demand.demand_reports import DemandReports, demand_reports
from gateway.scaling.leasing.lease import Write
from gateway.scaling.status import read_status
from gateway.store.lua_script import Script
from gateway.tenancy.tenants.transactions import Storage
from protos.errors import StoreUnavailable
from tests.gateway.scaling.scaled import scaled_world, want

EXPIRE = Script("return redis.call('DEL', KEYS[1])")
LEASE_KEY = "penstock:{scaling}:lease"


async def test_a_clock_that_jumps_is_told_and_not_followed(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        want(one, 1)
        await world.round(one)
        before = one._clock.now()
        world.now += 3600.0
        await world.say()
        await one.renew()
        await one.round()
        assert one._clock.now() >= before
        assert any("clock has jumped" in warning for warning in (await world.status()).warnings)
        now, status = await read_status(world.store)
        assert status is not None
        assert abs(now - status.at) < 60.0, "what it tells is fresh for those who go by the store's clock"


@pytest.mark.parametrize("lands", [True, False])
async def test_a_jump_is_followed_once_where_nobody_knows_whether_that_was_written(
    store_url: str, lands: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = 1e9
    async with scaled_world(store_url) as world:

        async def reports(storage: Storage) -> DemandReports:
            return msgspec.structs.replace(await demand_reports(storage), now=ahead + world.now)

        monkeypatch.setattr(inputs, "demand_reports", reports)
        one = world.controller()
        want(one, 2)
        await world.round(one)
        await world.ready()
        await world.round(one, times=2)
        ages = {id_: one._clock.now() - intent.made for id_, intent in (await world.intents()).items()}
        before, write, failed = one._clock.now(), one.lease.write, 0

        async def uncertain(writes: Sequence[Write]) -> None:
            nonlocal failed
            if not one._jump.seconds or failed == 2:
                await write(writes)
                return
            failed += 1
            if lands:
                await write(writes)
            raise StoreUnavailable("no answer")

        monkeypatch.setattr(one.lease, "write", uncertain)
        ahead += 7200.0
        # One more replica is asked for in the very round that follows the jump.
        for number in range(40):
            want(one, 2 if number < 29 else 3)
            await world.ready()
            await world.round(one, seconds=2.0)
        assert failed == 2
        assert one._clock.now() - before == pytest.approx(7280.0, abs=1.0)
        after = await world.intents()
        for id_, age in ages.items():
            assert one._clock.now() - after[id_].made == pytest.approx(age + 80.0, abs=1.0)
        assert len(after) == len(world.launcher.starts) == 3
        (added,) = after.keys() - ages
        assert 0.0 < one._clock.now() - after[added].made < 30.0


@pytest.mark.parametrize("jump", [7200.0, -7200.0])
async def test_a_clock_that_stays_elsewhere_is_followed_and_nothing_is_older_for_it(
    store_url: str, jump: float, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ahead = 1e9
    async with scaled_world(store_url) as world:

        async def reports(storage: Storage) -> DemandReports:
            return msgspec.structs.replace(await demand_reports(storage), now=ahead + world.now)

        monkeypatch.setattr(inputs, "demand_reports", reports)
        one = world.controller()
        want(one, 3)
        await world.round(one)
        await world.ready(*world.launcher.starts[:2])
        await world.round(one, times=2)
        before = {id_: one._clock.now() - intent.made for id_, intent in (await world.intents()).items()}
        ahead += jump
        for _ in range(40):
            await world.ready(*world.launcher.starts[:2])
            await world.round(one, seconds=2.0)
        assert abs(one._clock.now() - (ahead + world.now)) < 1.0
        for id_, intent in (await world.intents()).items():
            assert one._clock.now() - intent.made == pytest.approx(before[id_] + 80.0, abs=1.0)
        assert (len(world.launcher.starts), world.launcher.stops) == (3, [])
        assert (await world.status()).warnings == []
        assert sum("is followed now" in message for message in caplog.messages) == 1
        # A start is not put off, nor a drain, until the clock is again where it was.
        want(one, 4)
        await world.round(one)
        assert len(world.launcher.starts) == 4


async def test_a_jump_that_another_controller_has_followed_is_not_followed_again(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = 1e9
    async with scaled_world(store_url) as world:

        async def reports(storage: Storage) -> DemandReports:
            return msgspec.structs.replace(await demand_reports(storage), now=ahead + world.now)

        monkeypatch.setattr(inputs, "demand_reports", reports)
        one, two = world.controller("one"), world.controller("two")
        want(one, 2)
        want(two, 2)
        await world.round(one)
        [made] = {intent.made - ahead for intent in (await world.intents()).values()}
        await world.store.run(EXPIRE, [LEASE_KEY], [])
        await world.round(two)
        ahead += 7200.0
        for turn in range(80):
            if turn == 40:
                await world.store.run(EXPIRE, [LEASE_KEY], [])
            await world.ready()
            await world.round(two if turn < 40 else one, seconds=2.0)
        assert one.lease.held
        for intent in (await world.intents()).values():
            assert intent.made - ahead == pytest.approx(made, abs=1.0)
        assert (len(world.launcher.starts), world.launcher.stops) == (2, [])
