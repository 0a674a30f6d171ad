"""Other bounds for the same pools: what runs, and what was learned, stays."""

import msgspec
import pytest

from gateway.config.secret_variables import LateSecrets
from gateway.config.settings import Config
from gateway.reload.participant import CannotPrepare
from gateway.scaling.controller_reload import ReloadedController
from tests.gateway.scaling.scaled import scaled_world, scaler_of, want


def bounded(config: Config, most: int) -> Config:
    pool = config.models[0].pools[0]
    assert pool.scaling is not None
    pool = msgspec.structs.replace(pool, scaling=msgspec.structs.replace(pool.scaling, max=most))
    return msgspec.structs.replace(config, models=(msgspec.structs.replace(config.models[0], pools=(pool,)),))


async def test_other_bounds_hold_from_the_next_round_on(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        want(one, 3)
        await world.round(one)
        await world.ready()
        await world.round(one)
        before, started = one.models[0], list(world.launcher.starts)
        assert len(started) == 3
        part = ReloadedController(one, LateSecrets())
        await part.prepare(bounded(world.config, 2))
        await part.abandon()
        await world.round(one)
        assert one.models[0] is before
        await part.prepare(bounded(world.config, 2))
        part.take()
        after = one.models[0]
        assert after is not before
        assert after.learned["p"] is before.learned["p"]
        assert after.rates is before.rates
        scaler_of(one).wanted = {"p": 3}
        await world.round(one)
        assert world.launcher.starts == started, "nothing is started twice"
        assert (await world.status()).pools[0].wanted == 2
        assert sum(intent.state == "drain" for intent in (await world.intents()).values()) == 1


async def test_the_same_bounds_leave_all_as_it_is(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        before = one.models[0]
        part = ReloadedController(one, LateSecrets())
        await part.prepare(world.config)
        part.take()
        assert one.models == [before]


async def test_other_pools_are_refused_and_the_old_ones_stay(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        before, late = list(one.models), LateSecrets()
        part = ReloadedController(one, late)
        pool = msgspec.structs.replace(world.config.models[0].pools[0], name="q")
        model = msgspec.structs.replace(world.config.models[0], pools=(pool,))
        with pytest.raises(CannotPrepare, match="other models or pools are to be sized"):
            await part.prepare(msgspec.structs.replace(world.config, models=(model,)))
        assert one.models == before
