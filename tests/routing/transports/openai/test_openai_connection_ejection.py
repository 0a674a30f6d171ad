"""What speaks against an upstream, and what against its requests."""

import pytest

from protos.errors import (
    ClientGone,
    DeadlineExceeded,
    InvalidRequest,
    PenstockError,
    ReplicaFailed,
    UpstreamRateLimited,
)
from routing.fleet.fleet import Fleet
from routing.health.breaker import CONSECUTIVE_FAULTS
from routing.health.replica_status import State
from tests.loops import until
from tests.routing_transports import OpenAITransport
from tests.upstreams import upstream


@pytest.mark.parametrize(
    ("error", "begun", "ejected"),
    [
        (DeadlineExceeded("a long answer"), True, False),
        (DeadlineExceeded("nothing came"), False, True),
        (InvalidRequest("nonsense"), False, False),
        (ClientGone("left"), False, False),
        (UpstreamRateLimited("wait"), False, False),
        (ReplicaFailed("boom"), True, True),
    ],
)
async def test_who_is_ejected(error: PenstockError, begun: bool, ejected: bool) -> None:
    async with upstream() as one, upstream() as other:
        specs = [OpenAITransport(one).connection.spec, OpenAITransport(other, id_="p/1").connection.spec]
        fleet = Fleet(specs, "w")
        fleet.start()
        await until(lambda: fleet.ready_replicas == 2)
        for _ in range(CONSECUTIVE_FAULTS):
            fleet.failed("p/0", error, 30.0, begun=begun)
        states = [status.state for status in fleet.statuses()]
        assert states == [State.EJECTED if ejected else State.READY, State.READY]
        await fleet.aclose()
