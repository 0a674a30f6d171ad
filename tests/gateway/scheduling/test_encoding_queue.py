import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator

import pytest

from gateway.scheduling.encoding_queue import NICENESS, EncodingQueue
from protos.errors import ClientGone
from routing.dispatch.dispatch import RequestHandle
from tests.loops import until


@contextlib.asynccontextmanager
async def turns_of(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EncodingQueue]:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)

    turns = EncodingQueue()
    try:
        yield turns
    finally:
        turns.close()


async def test_one_prompt_of_a_tenant_at_a_time_and_others_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    gates = {name: threading.Event() for name in ("a1", "a2", "b1")}

    def encode(name: str) -> str:
        begun.append(name)
        assert gates[name].wait(10)
        return name

    async with turns_of(monkeypatch) as turns:
        tasks = {name: asyncio.create_task(turns.run(RequestHandle(), name[0], encode, name)) for name in gates}
        await until(lambda: sorted(begun) == ["a1", "b1"])
        gates["b1"].set()
        assert await tasks["b1"] == "b1"
        assert sorted(begun) == ["a1", "b1"]
        gates["a1"].set()
        await until(lambda: "a2" in begun)
        gates["a2"].set()
        assert [await tasks["a1"], await tasks["a2"]] == ["a1", "a2"]


async def test_who_leaves_while_waiting_does_not_hold_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    async with turns_of(monkeypatch) as turns:
        first = asyncio.create_task(turns.run(RequestHandle(), "a", gate.wait, 10))
        second = asyncio.create_task(turns.run(RequestHandle(), "a", list, "never"))
        await asyncio.sleep(0)
        second.cancel()
        gate.set()
        assert await first
        assert await turns.run(RequestHandle(), "a", list, "ok") == ["o", "k"]


async def test_a_client_that_leaves_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    encoded: list[int] = []

    async with turns_of(monkeypatch) as turns:
        attempts = [RequestHandle(), RequestHandle()]
        first = asyncio.create_task(turns.run(attempts[0], "a", gate.wait, 10))
        second = asyncio.create_task(turns.run(attempts[1], "a", encoded.append, 2))
        await until(lambda: len(turns._locks) == 1)
        for _ in range(3):
            await asyncio.sleep(0)
        attempts[1].fail(ClientGone("gone"))
        with pytest.raises(ClientGone):
            await second
        # What a thread has begun it ends; its result is nobody's.
        attempts[0].fail(ClientGone("gone"))
        gate.set()
        with pytest.raises(ClientGone):
            await first
        gone = RequestHandle()
        gone.fail(ClientGone("gone"))
        with pytest.raises(ClientGone):
            await turns.run(gone, "a", encoded.append, 3)
        assert not encoded
        assert await turns.run(RequestHandle(), "a", list, "ok") == ["o", "k"]


async def test_a_cancel_together_with_the_turn_keeps_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    async with turns_of(monkeypatch) as turns:
        gate = threading.Event()
        first = asyncio.create_task(turns.run(RequestHandle(), "a", gate.wait, 10))
        await asyncio.sleep(0)
        second = asyncio.create_task(turns.run(RequestHandle(), "a", list, "x"))
        await asyncio.sleep(0)
        first.add_done_callback(lambda _: asyncio.get_running_loop().call_soon(second.cancel))
        gate.set()
        await asyncio.gather(first, second, return_exceptions=True)
        assert await turns.run(RequestHandle(), "a", list, "ok") == ["o", "k"]


async def test_an_error_is_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    async with turns_of(monkeypatch) as turns:
        with pytest.raises(ZeroDivisionError):
            await turns.run(RequestHandle(), "a", divmod, 1, 0)
        assert await turns.run(RequestHandle(), "a", divmod, 3, 2) == (1, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="niceness is a process's own elsewhere")
async def test_its_threads_let_the_event_loop_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async with turns_of(monkeypatch) as turns:
        here = os.nice(0)
        assert await turns.run(RequestHandle(), "a", os.nice, 0) == min(19, here + NICENESS)
        assert os.nice(0) == here
