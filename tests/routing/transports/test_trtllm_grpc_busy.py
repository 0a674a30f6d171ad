"""A stock server that works is neither taken for lost nor asked whether it does."""

import asyncio

import pytest

from protos.errors import ReplicaUnavailable
from routing.transports.counted_transport import Unreachable
from tests.fakes import SilentEngine
from tests.harness import engine_of, gated_engine, submit_of
from tests.loops import until
from tests.stock_server import StockServer, trtllm_at


async def test_a_server_that_takes_no_more_calls_than_ours_is_there() -> None:
    engine = SilentEngine()
    stock = StockServer(engine)
    async with stock.listening(most_calls=2) as (address, _), trtllm_at(address) as transport:
        streams = [transport.open(submit_of()) for _ in range(2)]
        await until(lambda: len(stock.requests) == 2)
        assert (await transport._check()).info is transport.info
        refused = transport.open(submit_of())
        with pytest.raises(ReplicaUnavailable):
            await refused.receive()
        assert transport.connected
        for stream in streams:
            stream.close()
        assert (await transport._check()).info is transport.info
        await until(lambda: len(engine.cancelled) == 2)
        assert (await transport._check()).info is transport.info


async def test_a_server_whose_every_call_is_one_of_our_aborts_is_there() -> None:
    stock = StockServer(SilentEngine())
    async with stock.listening(most_calls=2) as (address, _), trtllm_at(address) as transport:
        streams = [transport.open(submit_of()) for _ in range(2)]
        await until(lambda: len(stock.requests) == 2)
        for stream in streams:
            stream.close()
        await asyncio.sleep(0)  # both aborts' tasks take their first step, and with it their calls
        assert transport.in_flight == 0
        assert len(transport._aborts) == 2
        assert (await transport._check()).info is transport.info


async def test_a_server_that_takes_no_calls_at_all_is_not_there() -> None:
    stock = StockServer(engine_of())
    async with stock.listening() as (address, _), trtllm_at(address) as transport:
        assert transport._channel is not None
        assert transport._channel._current is not None
        transport._channel._current._most = 0
        with pytest.raises(Unreachable, match="takes 0 calls"):
            await transport._check()


async def test_an_engine_whose_tokens_come_is_not_idle() -> None:
    engine, gate = gated_engine()
    async with StockServer(engine).listening() as (address, _), trtllm_at(address) as transport:
        stream = transport.open(submit_of(100))
        for _ in range(3):
            transport.health.progress.idle = True
            gate.let(1)
            await stream.receive()
            assert not transport.health.progress.idle
        stream.close()
