import asyncio
import contextlib
import time
from types import SimpleNamespace
from typing import Any

from gateway.api.server.internal_exchange import InternalExchange
from observability.tracing.sampling import HeadSampler
from protos.errors import ClientGone

CALLER: Any = SimpleNamespace(background=True)


async def test_a_time_limit_ends_the_task_that_is_at_it() -> None:
    exchange = InternalExchange(CALLER, "/v1/inner", b"{}", HeadSampler(None), "chat")
    assert exchange.record.background

    async def serve() -> None:
        await exchange.body(100)
        await asyncio.Event().wait()

    serving = asyncio.create_task(serve())
    await asyncio.sleep(0)
    exchange.deadline = 0.0
    exchange.handle.fail(ClientGone("It was cancelled."))
    exchange.enforce_limits(time.monotonic())
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    assert serving.cancelled()
    # This one has only made it.
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()
