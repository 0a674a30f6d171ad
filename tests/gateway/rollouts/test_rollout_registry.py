from typing import Any

import msgspec
import pytest

from protos.errors import Conflict, InvalidRequest
from tests.gateway.rollouts.test_controller import TO_V2, begin
from tests.gateway.rollouts.worlds import of, rollout_world


async def test_nobody_takes_an_abort_back_that_no_controller_has_seen_yet(store_url: str) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        await begin(world)
        await world.until(one, "shifting")
        await world.registry.set_wish("m", "promote", "cli:me")
        await world.registry.set_wish("m", "abort", "cli:me")
        for wish in ("promote", "pause", "run"):
            with pytest.raises(Conflict, match=r"The rollout is being aborted\. It cannot be"):
                await world.registry.set_wish("m", wish, "cli:other")
        # Again is no contradiction.
        await world.registry.set_wish("m", "abort", "cli:other")
        back = await world.until(one, "rolled_back")
        assert of(back.history)["rolling_back"].cause == "aborted"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"surge": 0}, "surge: "),
        ({"stages": tuple((number + 1) / 100 for number in range(100))}, "stages: "),
        ({"min_requests": -1}, "min_requests: "),
        ({"stages": (0.5, 1.5)}, r"stages\[1\]: |stages: "),
    ],
)
async def test_what_no_controller_could_read_is_no_order(changes: dict[str, Any], message: str, store_url: str) -> None:
    async with rollout_world(store_url) as world:
        await world.say()
        with pytest.raises(InvalidRequest, match=message):
            await world.registry.start(msgspec.structs.replace(TO_V2, **changes), "cli:me")
        assert not (await world.records()).orders
