from typing import Any

import msgspec
import pytest

from protos.errors import InvalidRequest
from tests.gateway.rollouts.test_controller import TO_V2
from tests.gateway.rollouts.worlds import rollout_world


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
