"""Through the application: answers whose replicas are taken away while they are given."""

import asyncio
from typing import Any

import orjson
import pytest

from protos.errors import PenstockError, ReplicaDraining, ReplicaUnavailable
from tests.asgi import CHAT, HELLO, Answer, Call, Client, gateway_of
from tests.gateway.api.answers import shown
from tests.harness import MODEL, engine_of, readable_corpus
from tests.loops import until

LOST, DRAINED = ReplicaUnavailable("lost"), ReplicaDraining("drained")


def engines(count: int) -> list[Any]:
    return [engine_of(corpus=readable_corpus(), instant=False, pace_seconds=0.002) for _ in range(count)]


async def longer(call: Call, sent: int) -> None:
    """Return once the client has got more messages than `sent`, or its whole answer."""
    task = call.task
    assert task is not None
    await until(lambda: len(call.sent) > sent or task.done())


async def interrupted(client: Client, fields: dict[str, Any], *errors: PenstockError) -> Answer:
    """An answer of which a replica loses its part again and again, as soon as some tokens came."""
    fleet = client.gateway.models[MODEL].fleet
    call = client.call("POST", CHAT)
    call.put(orjson.dumps({"model": MODEL, "messages": HELLO, "max_tokens": 90, "seed": 11} | fields))
    assert call.task is not None
    for error in errors:
        busy = [connection for connection in fleet._connections.values() if connection.in_flight]
        while not busy and not call.task.done():
            await asyncio.sleep(0.001)
            busy = [connection for connection in fleet._connections.values() if connection.in_flight]
        sent = len(call.sent)
        await asyncio.sleep(0.02)
        if "stream" in fields:
            await longer(call, sent + 1)
        for connection in busy[:1]:
            connection.fail_streams(error)
    return await call.answer()


@pytest.mark.parametrize("errors", [(LOST,), (LOST, LOST, LOST), (DRAINED,) * 5], ids=["once", "thrice", "drained"])
@pytest.mark.parametrize(
    "fields",
    [
        {"stream": True},
        {"stream": True, "n": 3, "stream_options": {"include_usage": True}},
        {"stream": True, "n": 2, "logprobs": True, "top_logprobs": 2},
        {"stream": True, "n": 3, "stop": ["e ", ", "], "stream_options": {"include_usage": True}},
        {"n": 3},
        {"n": 2, "logprobs": True, "top_logprobs": 2},
        {"n": 2, "stop": ["ing"]},
    ],
    ids=str,
)
async def test_the_client_sees_one_unbroken_answer(
    store_url: str, fields: dict[str, Any], errors: tuple[PenstockError, ...]
) -> None:
    # Of an answer that is not streamed nothing may be known for long, and its third attempt is the last.
    some = errors if "stream" in fields else errors[:2]

    async with gateway_of(store_url, *engines(1)) as client:
        expected = await client.chat(max_tokens=90, seed=11, **fields)
    async with gateway_of(store_url, *engines(4)) as client:
        await client.proven(4)
        answer = await interrupted(client, fields, *some)
        assert answer.status == 200
        assert shown(answer) == shown(expected)
        fleet, model = client.gateway.models[MODEL].fleet, client.gateway.models[MODEL]
        await until(lambda: not any(c.in_flight for c in fleet._connections.values()))
        assert not model.admission_queue._promised
