import asyncio
import logging

import grpc.aio
import pytest

from protos.join import Join, JoinKind, encode_join
from protos.reshape import Span
from replicas.groups.link import Link

BEAT = Join(JoinKind.BEAT, span=Span(0, 1))


@pytest.mark.parametrize("error", [RuntimeError("broken"), asyncio.InvalidStateError("it has ended")])
async def test_a_link_that_ends_for_a_defect_says_so(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    def hear(message: Join) -> None:
        raise error

    async def read() -> bytes:
        return encode_join(BEAT)

    async def write(data: bytes) -> None:
        """Take it."""

    with caplog.at_level(logging.ERROR):
        await Link(lambda: BEAT, hear).run(read, write)
    assert ("broken" in caplog.text) == isinstance(error, RuntimeError)


async def test_a_link_that_its_peer_ends_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def read() -> object:
        return grpc.aio.EOF

    async def write(data: bytes) -> None:
        """Take it."""

    with caplog.at_level(logging.ERROR):
        await Link(lambda: BEAT, lambda message: None).run(read, write)
    assert caplog.records == []
