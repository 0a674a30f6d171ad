"""Through the application: answers of upstreams that speak the API themselves, before output filters."""

import asyncio
import logging
from typing import Any

import orjson
import pytest

import gateway.api.relay.screened_relay
import gateway.filtering.filters.finding_records
from safety.terms import TermFilter
from tests.asgi import CHAT, HELLO, gateway_of
from tests.gateway.api.accounts import used
from tests.gateway.api.relay.test_relay_answer import NAME, hosted
from tests.gateway.api.screened import Shown
from tests.loops import until
from tests.upstreams import ANSWER, END, EVENT, LAST, STREAM, Caller, Heard, chunk, plain, streamed, upstream

TERMS = {"name": "list", "terms": {"terms": ["forbidden", "Mond über Köln"]}}


def safety(action: str, on_failure: str = "fail_closed") -> dict[str, Any]:
    return {"output": [{"filter": "list", "action": action}], "filters": [TERMS], "on_failure": on_failure}


def whole(text: str, **message: Any) -> bytes:
    """An answer in one piece."""
    answer = orjson.loads(ANSWER)
    answer["choices"][0]["message"] |= {"content": text} | message
    answer["choices"][0]["logprobs"] = {"content": [{"token": text}]}
    return plain(orjson.dumps(answer))


async def _gone(caller: Caller, data: bytes, gone: asyncio.Event) -> None:
    await caller.say(data)
    await caller.gone()
    gone.set()


async def test_a_match_over_events_and_characters_over_chunks(store_url: str) -> None:
    events = b"".join(EVENT % piece.encode() for piece in ("Der Mo", "nd üb", "er Kö", "ln. It is for", "bidden", "."))

    async with (
        upstream() as found,
        gateway_of(store_url, more_models=[hosted(found)], safety=safety("redact")) as client,
    ):
        for size in (1, 7, 1 << 20):
            data = events + END
            parts = [data[at : at + size] for at in range(0, len(data), size)]
            found.behaves = streamed(*parts)
            answer = await client.chat(model=NAME, stream=True)
            shown = Shown(answer.body)
            assert (answer.status, shown.text, shown.done) == (200, "Der [LIST]. It is [LIST].", True)
            assert shown.reasons == {0: "stop"}
            assert {each["model"] for each in shown.chunks} == {NAME}
            assert not any("usage" in each for each in shown.chunks)


async def test_escapes_are_the_characters_that_they_stand_for(store_url: str) -> None:
    async with (
        upstream() as found,
        gateway_of(store_url, more_models=[hosted(found)], safety=safety("redact")) as client,
    ):
        found.behaves = streamed(EVENT % b"a f\\u006fr", EVENT % b"bi\\u0064den b", END)
        assert Shown((await client.chat(model=NAME, stream=True)).body).text == "a [LIST] b"
        found.behaves = plain(ANSWER.replace(b"hello", b"a f\\u006frbidden b"))
        assert (await client.chat(model=NAME)).json["choices"][0]["message"]["content"] == "a [LIST] b"


async def test_an_answer_that_is_cut_off_ends_with_its_upstream(store_url: str) -> None:
    gone = asyncio.Event()

    async def goes_on(caller: Caller, heard: Heard) -> None:
        events = b"".join(chunk(EVENT % piece) for piece in (b"It is ", b"forbid", b"den ", b"to say"))
        await _gone(caller, STREAM + events, gone)

    tenant = {"name": "cutter", "limits": {"tpm": 100_000}}
    async with (
        upstream() as found,
        gateway_of(store_url, more_models=[hosted(found)], tenant=tenant, safety=safety("block")) as client,
    ):
        found.behaves = goes_on
        answer = await client.chat(model=NAME, stream=True)
        shown = Shown(answer.body)
        assert (shown.text, shown.reasons, shown.done) == ("It is ", {0: "content_filter"}, True)
        await gone.wait()
        assert [one.in_flight for one in client.gateway.models[NAME].fleet._connections.values()] == [0]
        assert (await used(client, "cutter")).output_tokens > 0


async def test_whole_answers(store_url: str) -> None:
    calls = [{"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"a":"forbidden"}'}}]
    calls.append({"id": "b", "type": "function", "function": {"name": "g", "arguments": r'{"c": "f\u006f"}'}})

    async with upstream() as found:
        models = [hosted(found)]
        async with gateway_of(store_url, more_models=models, safety=safety("redact")) as client:
            found.behaves = whole("a forbidden b", reasoning_content="I forbidden", tool_calls=calls, refusal=None)
            answer = await client.chat(model=NAME)
            (choice,) = answer.json["choices"]
            assert choice["message"]["content"] == "a [LIST] b"
            assert choice["message"]["reasoning_content"] == "I [LIST]"
            assert choice["message"]["tool_calls"][0]["function"]["arguments"] == '{"a":"[LIST]"}'
            assert choice["message"]["tool_calls"][1]["function"]["arguments"] == '{"c": "fo"}'
            assert (choice["logprobs"], choice["finish_reason"]) == (None, "length")
            assert answer.json["usage"]["completion_tokens"] == 3
        async with gateway_of(store_url, more_models=models, safety=safety("block")) as client:
            (choice,) = (await client.chat(model=NAME)).json["choices"]
            assert choice["message"]["reasoning_content"] == "I "
            assert (choice["message"]["content"], "tool_calls" in choice["message"]) == ("", False)
            assert choice["finish_reason"] == "content_filter"
            found.behaves = whole("a", tool_calls=calls)
            (choice,) = (await client.chat(model=NAME)).json["choices"]
            (call,) = choice["message"]["tool_calls"]
            assert (choice["message"]["content"], call["function"]["arguments"]) == ("a", '{"a":"')
            assert choice["finish_reason"] == "content_filter"


@pytest.mark.parametrize("stream", [False, True])
async def test_what_was_found_is_in_the_log(store_url: str, stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, gateway.filtering.filters.finding_records.__name__):
        async with (
            upstream() as found,
            gateway_of(store_url, more_models=[hosted(found)], safety=safety("redact")) as client,
        ):
            found.behaves = streamed(EVENT % b"It is forbidden", END) if stream else whole("It is forbidden")
            assert (await client.chat(model=NAME, stream=stream)).status == 200
    (line,) = [record.getMessage() for record in caplog.records if "redacted" in record.getMessage()]
    assert "list redacted 1 list in answer 0, 15 characters" in line
    assert "forbidden" not in line


async def test_what_is_held_when_an_upstream_breaks_off_is_not_sent(store_url: str) -> None:
    async def breaks(caller: Caller, heard: Heard) -> None:
        await caller.say(STREAM + chunk(EVENT % b"It is forb"))

    async with (
        upstream() as found,
        gateway_of(store_url, more_models=[hosted(found)], safety=safety("redact")) as client,
    ):
        found.behaves = breaks
        answer = await client.chat(model=NAME, stream=True)
        first, error = answer.events
        assert first["choices"][0]["delta"]["content"] == "It is "
        assert error["error"]["code"] in ("replica_failed", "replica_unavailable")
        assert b"[DONE]" not in answer.body


@pytest.mark.parametrize("on_failure", ["fail_closed", "fail_open"])
async def test_what_cannot_be_read_is_never_passed_on(store_url: str, on_failure: str) -> None:
    begun = asyncio.Event()

    async def later(caller: Caller, heard: Heard) -> None:
        await caller.say(STREAM + chunk(EVENT % b"hello "))
        await begun.wait()
        await caller.say(chunk(b"data: forbidden\n\n") + chunk(END) + LAST)

    async with (
        upstream() as found,
        gateway_of(store_url, more_models=[hosted(found)], safety=safety("flag", on_failure)) as client,
    ):
        found.behaves = later
        call = client.call("POST", CHAT)
        call.put(orjson.dumps({"model": NAME, "messages": HELLO, "stream": True}))
        await until(lambda: b"hello" in call.body)
        begun.set()
        answer = await call.answer()
        assert answer.events[-1]["error"]["code"] == "filter_failed"
        assert b"forbidden" not in answer.body and b"[DONE]" not in answer.body
        found.behaves = streamed(b"data: forbidden\n\n" + EVENT % b"x", END)
        answer = await client.chat(model=NAME, stream=True)
        assert (answer.status, answer.error["code"]) == (503, "filter_failed")
        found.behaves = plain(b'{"choices":["forbidden"]}')
        answer = await client.chat(model=NAME)
        assert (answer.status, answer.error["code"]) == (503, "filter_failed")


async def test_a_large_answer_is_looked_at_as_a_whole_and_a_larger_one_refused(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        upstream() as found,
        gateway_of(store_url, more_models=[hosted(found)], safety=safety("redact")) as client,
    ):
        found.behaves = whole("x " * (1 << 20) + "forbidden")
        answer = await client.chat(model=NAME)
        assert answer.json["choices"][0]["message"]["content"] == "x " * (1 << 20) + "[LIST]"
        monkeypatch.setattr(gateway.api.relay.screened_relay, "MOST_BYTES", 1 << 21)
        answer = await client.chat(model=NAME)
        assert (answer.status, answer.error["code"]) == (503, "filter_failed")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_filter_that_fails(store_url: str, stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError

    for name in ("scan", "stream"):
        monkeypatch.setattr(TermFilter, name, fails)
    # It has to be asked about every text.
    monkeypatch.setattr(TermFilter, "signs", None)

    async with upstream() as found:
        found.behaves = streamed(EVENT % b"hello", END) if stream else plain(ANSWER)
        for on_failure, status in (("fail_closed", 503), ("fail_open", 200)):
            async with gateway_of(store_url, more_models=[hosted(found)], safety=safety("block", on_failure)) as client:
                answer = await client.chat(model=NAME, stream=stream)
                assert answer.status == status
                assert status == 200 or answer.error["code"] == "filter_failed"


async def test_a_client_that_leaves_takes_its_upstream_request_with_it(store_url: str) -> None:
    gone = asyncio.Event()

    async def endless(caller: Caller, heard: Heard) -> None:
        await _gone(caller, STREAM + chunk(EVENT % b"hello "), gone)

    async with (
        upstream() as found,
        gateway_of(store_url, more_models=[hosted(found)], safety=safety("block")) as client,
    ):
        found.behaves = endless
        call = client.call("POST", CHAT)
        call.put(orjson.dumps({"model": NAME, "messages": HELLO, "stream": True}))
        await until(lambda: len(call.sent) > 1)
        call.disconnect()
        await gone.wait()
        assert call.task is not None
        await call.task


async def test_completions_of_several_prompts(store_url: str) -> None:
    def said(index: int, text: bytes, reason: bytes = b"null") -> bytes:
        return b'data: {"id":"c","model":"m","choices":[{"index":%d,"text":"%b","finish_reason":%b}]}\n\n' % (
            index,
            text,
            reason,
        )

    events = (said(0, b"a forbidden b"), said(1, b"fine", b'"stop"'), said(0, b"", b'"stop"'), b"data: [DONE]\n\n")

    async with (
        upstream() as found,
        gateway_of(store_url, more_models=[hosted(found)], safety=safety("block")) as client,
    ):
        found.behaves = streamed(*events, last=LAST)
        answer = await client.complete(model=NAME, prompt=["x", "y"], stream=True)
        shown = Shown(answer.body)
        assert shown.texts == {(0, "text"): "a ", (1, "text"): "fine"}
        assert shown.reasons == {0: "content_filter", 1: "stop"}
        assert shown.done
