"""What is read after an answer is bounded, in bytes and in time."""

import asyncio

import pytest
from starlette.types import Message

from gateway.api.server import discard_body as discarding
from gateway.api.server.discard_body import discard_body


async def test_no_more_than_its_bounds_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discarding, "MOST_BYTES", 10)
    reads = 0

    async def endless() -> Message:
        nonlocal reads
        reads += 1
        return {"type": "http.request", "body": b"abc", "more_body": True}

    await discard_body(endless, 0)
    assert reads == 4
    await discard_body(endless, 11)
    assert reads == 4, "no answer would be saved"


async def test_a_client_that_sends_nothing_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discarding, "MOST_SECONDS", 0.01)

    async def silent() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    await discard_body(silent, 0)
