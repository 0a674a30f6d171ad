"""Through the application: Anthropic's Messages, from tokens and from upstreams that speak OpenAI's chat."""

from typing import Any

import orjson
import pytest

from gateway.store.store_client import Store
from gateway.tenancy.auth.key_store import KeyRequest, KeyStore
from tests.asgi import gateway_of
from tests.gateway.api.accounts import used
from tests.gateway.api.anthropic.messages_client import MESSAGES, ask, error_of, events_of, text_of
from tests.gateway.api.relay.test_relay_answer import NAME, hosted
from tests.gateway.api.test_api_adapters import CALLING, said
from tests.gateway.api.test_filters import CARD, MAIL, SAFETY, says
from tests.gateway.api.test_guards import LONG, rules
from tests.harness import MODEL, engine_of, readable_corpus
from tests.loops import until
from tests.upstreams import ANSWER, LAST, STREAM, Caller, Heard, chunk, plain, streamed, upstream

FIXED: dict[str, Any] = {"temperature": 0}


async def test_tokens_become_a_message_streamed_or_whole(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(corpus=readable_corpus()), tenant={"name": "acme"}) as client:
        whole = await ask(client, **FIXED)
        assert whole.status == 200
        assert whole.headers["content-type"] == "application/json"
        assert whole.headers["request-id"] == whole.headers["x-request-id"]
        message = whole.json
        assert message["id"] == "msg_" + whole.headers["request-id"].removeprefix("req_")
        assert (message["model"], message["stop_reason"]) == (MODEL, "max_tokens")
        (block,) = message["content"]
        assert message["usage"]["output_tokens"] == 20

        stream = await ask(client, stream=True, **FIXED)
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert "request-id" in stream.headers
        events = events_of(stream.body)
        names = [event["type"] for event in events]
        assert names[:3] == ["message_start", "ping", "content_block_start"]
        assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
        assert text_of(events) == block["text"]
        # What a cache had of the prompt is not known when a stream begins, and no part of `input_tokens`.
        start, end = events[0]["message"]["usage"], events[-2]["usage"]
        prompt = start["input_tokens"]
        for usage in (message["usage"], end):
            assert usage["input_tokens"] + usage["cache_read_input_tokens"] == prompt
            assert usage["output_tokens"] == 20
        assert (await used(client)).requests == 2


async def test_the_stop_sequence_that_ended_it_is_told(store_url: str) -> None:
    async with gateway_of(store_url, says("One two three four five. ")) as client:
        for stream in (False, True):
            answer = await ask(client, stop_sequences=["nine", "three"], stream=stream)
            end = events_of(answer.body)[-2]["delta"] if stream else answer.json
            assert (end["stop_reason"], end["stop_sequence"]) == ("stop_sequence", "three")
            text = text_of(events_of(answer.body)) if stream else answer.json["content"][0]["text"]
            assert text == "One two "


@pytest.mark.parametrize("name", ["stop_reason", "matched_stop"])
async def test_a_stop_sequence_that_an_upstream_tells_of(store_url: str, name: str) -> None:
    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)]) as client:
        for told, expected in (("END", "END"), ("other", None), (106, None), (None, None)):
            choice = {"index": 0, "finish_reason": "stop", name: told}
            whole = {"choices": [choice | {"message": {"role": "assistant", "content": "Hi"}}]}
            last = b"data: " + orjson.dumps({"choices": [choice | {"delta": {}}]}) + b"\n\n"
            for stream in (False, True):
                parts = (said({"content": "Hi"}), last, b"data: [DONE]\n\n")
                found.behaves = streamed(*parts) if stream else plain(orjson.dumps(whole))
                answer = await ask(client, model=NAME, stop_sequences=["END"], stream=stream)
                end = events_of(answer.body)[-2]["delta"] if stream else answer.json
                assert end["stop_sequence"] == expected
                assert end["stop_reason"] == ("stop_sequence" if expected else "end_turn")


@pytest.mark.parametrize(
    ("fields", "status", "kind", "message"),
    [
        ({"max_tokens": None}, 400, "invalid_request_error", "max_tokens: Expected `int`, got `null`."),
        ({"model": "none"}, 404, "not_found_error", "The model 'none' does not exist"),
        ({"max_tokens": 0}, 400, "invalid_request_error", "max_tokens: "),
        ({"messages": [{"role": "user", "content": "a " * 3000}]}, 400, "invalid_request_error", "messages: "),
        ({"colour": "red"}, 400, "invalid_request_error", "colour: Extra inputs are not permitted."),
        ({"mcp_servers": [{"type": "url"}]}, 400, "invalid_request_error", "mcp_servers: This parameter is not"),
    ],
)
async def test_what_is_refused(store_url: str, fields: dict[str, Any], status: int, kind: str, message: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        answer = await ask(client, **fields)
        assert answer.status == status
        error = error_of(answer)
        assert error["type"] == kind
        assert error["message"].startswith(message)


async def test_who_is_refused(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        store = Store(store_url, timeout=10.0)
        _, others = await KeyStore(store).create(KeyRequest(name="o", endpoints=("chat",)))
        _, own = await KeyStore(store).create(KeyRequest(name="m", endpoints=("messages",)))
        await store.aclose()
        for key, status, kind in (
            ("wrong", 401, "authentication_error"),
            (others, 403, "permission_error"),
            (own, 200, ""),
        ):
            client.key = key
            for path in (MESSAGES, f"{MESSAGES}/count_tokens"):
                answer = await ask(client, path)
                assert answer.status == status
                if kind:
                    assert error_of(answer)["type"] == kind


async def test_other_methods_and_paths(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(), max_body_bytes=1024) as client:
        answer = await client.request("GET", MESSAGES)
        assert (answer.status, answer.json["error"]["type"]) == (405, "invalid_request_error")
        answer = await client.request("GET", f"{MESSAGES}/batches")
        assert (answer.status, error_of(answer)["type"]) == (404, "not_found_error")
        answer = await ask(client, system="x" * 2000)
        assert (answer.status, error_of(answer)["type"]) == (413, "request_too_large")


async def test_limits_are_told_in_both_apis_headers(store_url: str) -> None:
    tenant = {"name": "acme", "limits": {"rpm": 1}}
    async with gateway_of(store_url, engine_of(), tenant=tenant) as client:
        first = await ask(client)
        assert first.headers["anthropic-ratelimit-requests-limit"] == "1"
        assert first.headers["anthropic-ratelimit-requests-remaining"] == "0"
        assert first.headers["x-ratelimit-limit-requests"] == "1"
        second = await ask(client, stream=True)
        assert (second.status, error_of(second)["type"]) == (429, "rate_limit_error")
        assert second.headers["anthropic-ratelimit-requests-remaining"] == "0"
        assert "retry-after" in second.headers
        assert (await ask(client, f"{MESSAGES}/count_tokens")).status == 429


async def test_an_upstream_is_sent_a_chat_and_its_answer_becomes_a_message(store_url: str) -> None:
    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)]) as client:
        image = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
        tool = {"name": "f", "input_schema": {"type": "object"}}
        talk = [
            {"role": "user", "content": [image, {"type": "text", "text": "What is it?"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "A dog."}]},
        ]
        fields: dict[str, Any] = {"model": NAME, "messages": talk, "tools": [tool], "system": "Look."}
        found.behaves = plain(ANSWER)
        message = (await ask(client, **fields)).json
        assert message["content"] == [{"type": "text", "text": "hello"}]
        assert (message["model"], message["stop_reason"]) == (NAME, "max_tokens")
        assert message["usage"]["input_tokens"] == 2
        assert message["usage"]["cache_read_input_tokens"] == 5

        found.behaves = streamed(*CALLING)
        events = events_of((await ask(client, stream=True, **fields)).body)
        blocks = [event["content_block"] for event in events if event["type"] == "content_block_start"]
        assert [block["type"] for block in blocks] == ["thinking", "text", "tool_use", "tool_use"]
        assert events[-2]["delta"]["stop_reason"] == "tool_use"
        assert events[-2]["usage"] == {
            "input_tokens": 7,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 9,
            "output_tokens_details": {"thinking_tokens": 4},
        }
        for heard in found.heard:
            sent = orjson.loads(heard.body)
            assert heard.target == "/v1/chat/completions"
            assert [one["role"] for one in sent["messages"]] == ["system", "user", "assistant", "tool"]
            assert sent["messages"][1]["content"][0]["type"] == "image_url"
            assert sent["tools"][0]["function"]["name"] == "f"


async def test_a_stream_of_an_upstream_that_breaks_ends_in_an_error(store_url: str) -> None:
    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)]) as client:

        async def breaks(caller: Caller, heard: Heard) -> None:
            await caller.say(STREAM + chunk(said({"content": "Hel"})))
            await until(lambda: any(one.started for one in begun))
            await caller.say(chunk(b'data: {"error":{"message":"secret"}}\n\n') + LAST)

        found.behaves, begun = breaks, client.gateway.watchdog.active
        answer = await ask(client, model=NAME, stream=True)
        assert answer.status == 200
        last = events_of(answer.body)[-1]
        assert last["type"] == "error"
        assert last["error"]["type"] == "api_error"
        assert last["request_id"] == answer.headers["request-id"]
        assert b"secret" not in answer.body


async def test_prompts_are_filtered_as_a_chats_are(store_url: str) -> None:
    async with gateway_of(store_url, says("Fine."), safety=SAFETY) as client:
        for place, fields in (
            ("system", {"system": "Always frobnicate."}),
            ("messages.0.content", {"messages": [{"role": "user", "content": "frobnicate"}]}),
        ):
            for stream in (False, True):
                answer = await ask(client, stream=stream, **fields)
                assert answer.status == 400
                error = error_of(answer)
                assert error["type"] == "invalid_request_error"
                assert place in error["message"]
                assert "'list' (list)" in error["message"]


@pytest.mark.parametrize("upstreams", [False, True])
@pytest.mark.parametrize("stream", [False, True])
async def test_answers_are_filtered(store_url: str, upstreams: bool, stream: bool) -> None:
    words = f"Write to {MAIL} or pay with {CARD} now."
    async with (
        upstream() as found,
        gateway_of(store_url, says(words), more_models=[hosted(found)], safety=SAFETY) as client,
    ):
        pieces = [said({"content": words[at : at + 5]}) for at in range(0, len(words), 5)]
        end = (said({}, "stop"), b"data: [DONE]\n\n")
        found.behaves = streamed(*pieces, *end) if stream else plain(ANSWER.replace(b"hello", words.encode()))
        answer = await ask(client, model=NAME if upstreams else MODEL, stream=stream, max_tokens=100)
        assert answer.status == 200
        text = text_of(events_of(answer.body)) if stream else answer.json["content"][0]["text"]
        assert text.startswith("Write to [EMAIL] or pay with [CREDIT_CARD] now.")
        assert CARD.encode() not in answer.body


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_is_cut_off_is_a_refusal(store_url: str, stream: bool) -> None:
    async with gateway_of(store_url, says("Once in a blue moon I go there. "), safety=SAFETY) as client:
        answer = await ask(client, stream=stream)
        end = events_of(answer.body)[-2]["delta"] if stream else answer.json
        assert end["stop_reason"] == "refusal"
        assert end["stop_details"]["type"] == "refusal"
        assert b"moon" not in answer.body


@pytest.mark.parametrize("stream", [False, True])
async def test_judges_are_asked_of_prompts_and_answers(store_url: str, stream: bool) -> None:
    secret = [{"role": "user", "content": "tell me the secret"}]
    async with gateway_of(store_url, says("Fine. "), safety=rules("input")) as client:
        answer = await ask(client, messages=secret, stream=stream)
        assert answer.status == 400
        assert error_of(answer)["message"].startswith("messages.0.content: The prompt was refused")
    async with gateway_of(store_url, says(LONG), safety=rules("output")) as client:
        answer = await ask(client, stream=stream, max_tokens=40)
        end = events_of(answer.body)[-2]["delta"] if stream else answer.json
        assert end["stop_reason"] == "refusal"
        text = text_of(events_of(answer.body)) if stream else answer.json["content"][0]["text"]
        assert text == LONG[: LONG.index("secret")]
