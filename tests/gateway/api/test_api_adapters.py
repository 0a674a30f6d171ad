"""Through the application: an API on top of chat, in front of tokens and of upstreams' chunks."""

import asyncio
from typing import Any

import orjson
import pytest

from gateway.api.server.internal_exchange import InternalExchange
from tests.asgi import HELLO, gateway_of
from tests.gateway.api.adapters import through_adapter
from tests.gateway.api.relay.test_relay_answer import NAME, hosted
from tests.harness import MODEL, engine_of, readable_corpus
from tests.loops import until
from tests.upstreams import ANSWER, END, EVENT, LAST, STREAM, Caller, Heard, chunk, plain, streamed, upstream


def said(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + orjson.dumps({"id": "c", "model": "theirs", "choices": [choice]}) + b"\n\n"


USAGE = {"prompt_tokens": 7, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 4}}
CALLING = (
    said({"role": "assistant", "reasoning_content": "Let me"}),
    said({"reasoning": " see."}),
    said({"content": "I ask"}),
    said({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
    said({"tool_calls": [{"index": 0, "function": {"arguments": '{"x":'}}]}),
    said({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}),
    said({"tool_calls": [{"index": 1, "function": {"name": "g", "arguments": "{}"}}]}),
    said({}, "tool_calls"),
    b"data: " + orjson.dumps({"choices": [], "usage": USAGE}) + b"\n\n",
    b"data: [DONE]\n\n",
)
CALLED = [
    ["reasoning", "Let me"],
    ["reasoning", " see."],
    ["text", "I ask"],
    ["start", 0, "a", "f"],
    ["arguments", 0, '{"x":'],
    ["arguments", 0, "1}"],
    ["start", 1, "call_1", "g"],
    ["arguments", 1, "{}"],
    ["finish", 0, "stop"],
]


@pytest.mark.parametrize("stream", [False, True])
async def test_tokens_come_as_text(store_url: str, stream: bool) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        fields: dict[str, Any] = {"model": MODEL, "messages": HELLO, "max_tokens": 12, "seed": 5, "temperature": 0}
        answer = await client.chat(max_tokens=12, seed=5, temperature=0)
        content = answer.json["choices"][0]["message"]["content"]
        usage = answer.json["usage"]
        exchange, adapter, lines = await through_adapter(client, stream=stream, **fields)
        assert (exchange.status, adapter.kept) == (200, 1)
        (head,) = adapter.heads
        assert (head.model, head.streamed, head.prompt_tokens) == (MODEL, stream, usage["prompt_tokens"])
        assert lines[-1] == ["closing", usage["prompt_tokens"], 12, lines[-1][3], 0, None]
        if stream:
            assert lines[0] == ["opening"]
            assert "".join(one[1] for one in lines if one[0] == "text") == content
            assert lines[-2] == ["finish", 0, "length"]
        else:
            assert lines[0] == ["choice", content, "", [], "length"]


async def test_the_stop_string_is_told(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(corpus=readable_corpus())) as client:
        fields: dict[str, Any] = {"model": MODEL, "messages": HELLO, "max_tokens": 60, "seed": 5, "temperature": 0}
        *_, lines = await through_adapter(client, **fields)
        word = lines[0][1][5:8]
        for stream in (False, True):
            *_, lines = await through_adapter(client, stop=["no such text", word], stream=stream, **fields)
            assert lines[-1][-1] == word


async def test_a_refusal_has_a_status_and_nothing_is_kept(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        exchange, adapter, _ = await through_adapter(client, model="none", messages=HELLO, stream=True)
        assert (exchange.status, adapter.kept, adapter.heads) == (404, 0, [])
        assert orjson.loads(exchange.answer)["error"]["code"] == "model_not_found"


async def test_an_upstreams_chunks_come_as_deltas(store_url: str) -> None:
    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)]) as client:
        found.behaves = streamed(*CALLING)
        exchange, adapter, lines = await through_adapter(client, model=NAME, messages=HELLO, stream=True)
        assert (exchange.status, adapter.kept) == (200, 1)
        assert lines == [["opening"], *CALLED, ["closing", 7, 9, 0, 4, None]]
        # However the bytes are cut.
        found.behaves = STREAM + b"".join(chunk(bytes((byte,))) for byte in b"".join(CALLING)) + b"0\r\n\r\n"
        assert (await through_adapter(client, model=NAME, messages=HELLO, stream=True))[2] == lines


async def test_an_upstreams_whole_answer_comes_as_a_choice(store_url: str) -> None:
    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)]) as client:
        call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
        message = {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [call]}
        choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
        answer = orjson.dumps({"choices": choices, "usage": USAGE})
        expected = [["choice", "", "Hm.", [["f", '{"x":1}']], "stop"], ["closing", 7, 9, 0, 4, None]]
        parts = STREAM.replace(b"text/event-stream; charset=utf-8", b"application/json")
        for behaves in (plain(answer), parts + chunk(answer[:9]) + chunk(answer[9:]) + LAST):
            found.behaves = behaves
            exchange, adapter, lines = await through_adapter(client, model=NAME, messages=HELLO)
            assert (exchange.status, adapter.kept, lines) == (200, 1, expected)


@pytest.mark.parametrize(
    "body",
    [b"[]", b'{"choices":[]}', b'{"choices":[{"message":{"content":5}}]}', b"\xff", b'{"choices":' + b"[" * 9999],
)
async def test_a_whole_answer_that_is_no_chats_is_a_failure(store_url: str, body: bytes) -> None:
    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)]) as client:
        found.behaves = plain(body)
        exchange, adapter, _ = await through_adapter(client, model=NAME, messages=HELLO)
        assert exchange.status >= 500
        assert adapter.kept == 0


@pytest.mark.parametrize(
    "last",
    [
        b'data: {"choices":[{"delta":{"content":5}}]}\n\n',
        b'data: {"error":{"message":"it broke"}}\n\n',
        b"",  # it ends, and never said so
    ],
)
async def test_a_stream_that_breaks_ends_in_an_error_and_nothing_is_kept(store_url: str, last: bytes) -> None:
    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)]) as client:

        async def breaks(caller: Caller, heard: Heard) -> None:
            await caller.say(STREAM + chunk(EVENT % b"Hel"))
            await until(lambda: any(one.started for one in begun))
            await caller.say((chunk(last) if last else b"") + LAST)

        found.behaves, begun = breaks, client.gateway.watchdog.active
        exchange, adapter, lines = await through_adapter(client, model=NAME, messages=HELLO, stream=True)
        assert (exchange.status, adapter.kept) == (200, 0)
        assert lines[:2] == [["opening"], ["text", "Hel"]]
        assert lines[-1][0] == "broken"
        assert len(lines) == 3


async def test_an_end_without_a_reason_is_an_end(store_url: str) -> None:
    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)]) as client:
        found.behaves = streamed(EVENT % b"Hel", b"data: [DONE]\n\n")
        *_, lines = await through_adapter(client, model=NAME, messages=HELLO, stream=True)
        assert [one[0] for one in lines] == ["opening", "text", "finish", "closing"]


async def test_events_may_have_more_than_data(store_url: str) -> None:
    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)]) as client:
        named = b"event: message\nid: 1\n" + EVENT % b"Hel"
        found.behaves = streamed(b": a comment\n\n", named, b": another\n" + EVENT % b"lo", END)
        *_, lines = await through_adapter(client, model=NAME, messages=HELLO, stream=True)
        assert [one for one in lines if one[0] == "text"] == [["text", "Hel"], ["text", "lo"]]


@pytest.mark.parametrize("stream", [False, True])
async def test_filters_look_at_what_an_upstream_says_before_it_is_translated(store_url: str, stream: bool) -> None:
    terms = {"name": "list", "terms": {"terms": ["hello"]}}
    safety = {"output": [{"filter": "list", "action": "redact"}], "filters": [terms]}

    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)], safety=safety) as client:
        found.behaves = streamed(EVENT % b"hel", EVENT % b"lo all", END) if stream else plain(ANSWER)
        *_, lines = await through_adapter(client, model=NAME, messages=HELLO, stream=stream)
        shown = "".join(one[1] for one in lines if one[0] in ("text", "choice"))
        assert "hello" not in shown
        assert shown


async def test_a_client_that_leaves_ends_it(store_url: str) -> None:
    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)]) as client:
        gone = asyncio.Event()

        async def hang(caller: Caller, heard: Heard) -> None:
            await caller.say(STREAM + chunk(EVENT % b"Hel"))
            await caller.gone()
            gone.set()

        found.behaves = hang
        task = asyncio.ensure_future(through_adapter(client, model=NAME, messages=HELLO, stream=True))
        await until(lambda: client.active)
        (exchange,) = client.gateway.watchdog.active
        assert isinstance(exchange, InternalExchange)
        await until(lambda: len(exchange.written) > 1)
        exchange.leave()
        _, adapter, lines = await task
        assert adapter.kept == 0
        assert lines[-1][0] == "broken"
        await gone.wait()
