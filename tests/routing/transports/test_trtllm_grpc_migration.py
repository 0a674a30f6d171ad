"""Answers of stock servers that go away in the middle: they go on elsewhere, and every token comes once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio

from protos.types import Finish, FinishReason
from replicas.engine import Delta
from routing.fleet.fleet import Fleet
from tests.fakes import SilentEngine
from tests.harness import spec_of, submit_of
from tests.loops import until
from tests.routing.mortal import begin, read
from tests.stock_server import StockServer


@contextlib.asynccontextmanager
async def stock_fleet(*engines: SilentEngine) -> AsyncIterator[tuple[Fleet, list[StockServer], list[grpc.aio.Server]]]:
    async with contextlib.AsyncExitStack() as stack:
        stocks = [StockServer(engine) for engine in engines]
        listening: list[Any] = [await stack.enter_async_context(stock.listening()) for stock in stocks]
        specs = [
            spec_of(address, id=f"p/{number}", engine="trtllm_grpc") for number, (address, _) in enumerate(listening)
        ]
        fleet = Fleet(specs, "test")
        fleet.start()
        try:
            await fleet.wait_ready(len(specs))
            yield fleet, stocks, [server for _, server in listening]
        finally:
            await fleet.aclose()


async def test_an_answer_goes_on_from_the_tokens_that_it_has() -> None:
    first, second = SilentEngine(), SilentEngine()
    async with stock_fleet(first, second) as (fleet, stocks, servers):
        dispatching = asyncio.create_task(begin(fleet, submit_of(5)))
        await until(lambda: first.submitted or second.submitted)
        at = 0 if first.submitted else 1
        engines = (first, second) if at == 0 else (second, first)
        engines[0].say(Delta(1, 0, [10, 11], cached_tokens=0))
        dispatched = await dispatching
        answering = asyncio.create_task(read(dispatched))
        await servers[at].stop(None)
        await until(lambda: engines[1].submitted)
        (request,) = stocks[1 - at].requests
        assert list(request.tokenized.input_token_ids) == [1, 2, 3, 10, 11]
        assert request.max_tokens == 3
        engines[1].say(Delta(1, 0, [12, 13, 14]), finishes=[(1, 0, Finish(FinishReason.LENGTH, 5, 0, 3))])
        assert (await answering).tokens == [[10, 11, 12, 13, 14]]
        assert not engines[1].cancelled
