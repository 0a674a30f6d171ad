"""Through the application: guided answers whose replicas are taken away, where no engine can go on with a guide."""

from typing import Any

import msgspec
import orjson
import pytest

from protos.errors import PenstockError, ReplicaDraining, ReplicaFailed, ReplicaUnavailable
from protos.features import Feature
from protos.types import Submit
from replicas.engines.simulated import SimulatedEngine
from routing.dispatch.failover_stream import FailoverStream
from tests.asgi import CHAT, COMPLETIONS, HELLO, Answer, Client, gateway_of
from tests.gateway.api.answers import shown
from tests.harness import MODEL, engine_of, readable_corpus, readable_vocabulary
from tests.loops import until

LOST, FAILED, DRAINED = ReplicaUnavailable("lost"), ReplicaFailed("failed"), ReplicaDraining("drained")
NAMES = {
    "type": "array",
    "items": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    "minItems": 20,
    "maxItems": 20,
}
OBJECT = {"type": "object", "properties": {"a": NAMES}, "required": ["a"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "f", "parameters": OBJECT}}
CHATS: dict[str, dict[str, Any]] = {
    "json": {"guided_json": NAMES},
    "format": {"response_format": {"type": "json_schema", "json_schema": {"name": "o", "schema": OBJECT}}},
    "several": {"guided_json": NAMES, "n": 2},
    "stop": {"guided_json": NAMES, "stop": ["never said"]},
    "logprobs": {"guided_json": NAMES, "logprobs": True, "top_logprobs": 1},
    "forced": {"tools": [TOOL], "tool_choice": "required"},
    "filtered": {"guided_json": NAMES, "n": 2},
}


class Old:
    """Simulated replicas of a version that cannot go on with a guide."""

    def __init__(self, count: int) -> None:
        self.asked: list[Submit] = []
        self.engines = [self._engine() for _ in range(count)]

    def _engine(self) -> SimulatedEngine:
        options: dict[str, Any] = {"vocabulary": readable_vocabulary(), "corpus": readable_corpus()}
        engine = engine_of(instant=False, pace_seconds=0.005, **options)
        engine.info = msgspec.structs.replace(engine.info, features=engine.info.features & ~Feature.GUIDE_RESUMES)
        submit = engine.submit

        def noted(handle: int, request: Submit) -> None:
            self.asked.append(request)
            submit(handle, request)

        engine.submit = noted  # type: ignore[method-assign]
        return engine


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> list[FailoverStream]:
    """All streams that are made."""
    found: list[FailoverStream] = []

    class Noted(FailoverStream):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            found.append(self)

    monkeypatch.setattr("routing.dispatch.dispatch.FailoverStream", Noted)
    return found


async def interrupted(
    client: Client, path: str, body: dict[str, Any], error: PenstockError, streams: list[FailoverStream]
) -> Answer:
    """An answer whose replica is lost once tokens of it have come."""
    streams.clear()
    call = client.call("POST", path)
    call.put(orjson.dumps(body))
    connections = client.gateway.models[MODEL].fleet._connections.values()
    # A whole answer's tokens are held for a quarter of a second, a streamed one's come one by one.
    await until(lambda: streams and all(sum(map(len, stream.tokens)) > 5 for stream in streams))
    if "stream" in body:
        await until(lambda: len(call.sent) > 5)
    for connection in connections:
        if connection.in_flight:
            connection.fail_streams(error)
            break
    return await call.answer()


@pytest.mark.parametrize(("kind", "error"), [("json", FAILED), ("json", DRAINED), *((kind, LOST) for kind in CHATS)])
async def test_an_unseen_answer_is_made_again(
    store_url: str, kind: str, error: PenstockError, streams: list[FailoverStream]
) -> None:
    body = {"model": MODEL, "messages": HELLO, "max_tokens": 400, "seed": 11, **CHATS[kind]}
    sections: dict[str, Any] = {}
    if kind == "filtered":
        filters = [{"name": "list", "terms": {"terms": ["zzz"]}}]
        sections["safety"] = {"input": [], "output": ["list"], "filters": filters}
    async with gateway_of(store_url, *Old(1).engines, **sections) as client:
        expected = await client.request("POST", CHAT, body)
    old = Old(2)
    async with gateway_of(store_url, *old.engines, **sections) as client:
        await client.proven(2)
        answer = await interrupted(client, CHAT, body, error, streams)
    assert answer.status == 200
    assert shown(answer) == shown(expected)
    assert answer.json["usage"] == expected.json["usage"]
    assert len(old.asked) > 1
    assert {request.generated for request in old.asked} == {0}
    assert sum(stream.migrations for stream in streams) == body.get("n", 1)


async def test_each_of_several_prompts_is_made_again(store_url: str, streams: list[FailoverStream]) -> None:
    body = {"model": MODEL, "prompt": ["a", "b"], "max_tokens": 400, "seed": 11, "guided_json": NAMES}
    async with gateway_of(store_url, *Old(1).engines) as client:
        expected = await client.request("POST", COMPLETIONS, body)
    old = Old(2)
    async with gateway_of(store_url, *old.engines) as client:
        await client.proven(2)
        answer = await interrupted(client, COMPLETIONS, body, LOST, streams)
    assert [choice["text"] for choice in answer.json["choices"]] == [
        choice["text"] for choice in expected.json["choices"]
    ]
    assert answer.json["usage"] == expected.json["usage"]
    assert len(old.asked) > 2


async def test_a_stream_says_that_it_is_lost(store_url: str, streams: list[FailoverStream]) -> None:
    body = {"model": MODEL, "messages": HELLO, "max_tokens": 400, "stream": True, "guided_json": NAMES}
    async with gateway_of(store_url, *Old(2).engines) as client:
        await client.proven(2)
        answer = await interrupted(client, CHAT, body, LOST, streams)
    assert answer.status == 200
    last = answer.events[-1]
    assert last["error"]["code"] == "answer_lost"
    assert "Send the request again" in last["error"]["message"]
