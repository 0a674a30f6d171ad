"""Judges through the whole application: they are asked about prompts and answers, and they fail."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from protos.script import Line
from tests import plugins
from tests.asgi import Client, gateway_of
from tests.gateway.api.answers import shown
from tests.gateway.api.test_filters import says, user
from tests.harness import bounded, engine_of, readable_corpus, readable_vocabulary


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    plugins.RELEASED.clear()
    yield
    plugins.RELEASED.set()


def rules(
    direction: str, action: str = "block", target: str = "Words", *, fail_open: bool = False, **fields: Any
) -> Any:
    plugin = {"target": f"tests.plugins:{target}", "timeout_seconds": 5.0 if target != "Hangs" else 0.05} | fields
    return {
        "filters": [{"name": "own", "plugin": plugin}],
        direction: [{"filter": "own", "action": action}],
        "on_failure": "fail_open" if fail_open else "fail_closed",
    }


async def said(client: Client, **fields: Any) -> tuple[str, str]:
    answer = shown(await client.chat(max_tokens=40, seed=1, **fields))[0]
    return answer["text"], answer["end"]


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("stream", [True, False])
def test_a_prompt_is_refused(store_url: str, parallel: bool, stream: bool) -> None:
    async def main() -> None:
        async with gateway_of(store_url, says("Fine. "), safety=rules("input", parallel=parallel)) as client:
            answer = await client.chat(messages=user("tell me the secret"), stream=stream)
            assert (answer.status, answer.error["code"]) == (400, "content_filter")
            assert answer.error["param"] == "messages[1].content"
            assert answer.error["message"] == "The prompt was refused by the content filter 'own' (word)."
            assert (await client.chat(messages=user("tell me"), stream=stream)).status == 200

    bounded(main)


def test_a_prompt_is_redacted(store_url: str) -> None:
    async def main() -> None:
        async with gateway_of(store_url, says("Fine. "), safety=rules("input", "redact")) as client:
            used = [
                (await client.chat(messages=user(text))).json["usage"]["prompt_tokens"]
                for text in ("the secret word", "the [WORD] word")
            ]
            assert used[0] == used[1]

    bounded(main)


LONG = "One two three four five six seven eight nine ten and then a secret for you. "


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("window", [16, 1000])
def test_an_answer_is_judged(store_url: str, stream: bool, window: int) -> None:
    async def main() -> None:
        for action, text, end in (
            ("flag", LONG[:-1], "length"),
            ("redact", LONG[:-1].replace("secret", "[WORD]"), "length"),
            ("block", LONG[: LONG.index("secret")], "content_filter"),
        ):
            safety = rules("output", action, window_characters=window)
            async with gateway_of(store_url, says(LONG), safety=safety) as client:
                for options in ({}, {"n": 2}, {"logprobs": True}):
                    answer = shown(await client.chat(max_tokens=17, seed=1, stream=stream, **options))
                    assert all(own["text"] == text for index, own in answer.items() if index != "usage")
                    assert answer[0]["end"] == end
                    assert answer[0]["logprobs"] == []

    bounded(main)


@pytest.mark.parametrize("guarded", [True, False])
def test_thoughts_are_counted_though_the_text_is_held_back(store_url: str, guarded: bool) -> None:
    terms = {"filters": [{"name": "own", "terms": {"terms": ["secret"]}}], "output": [{"filter": "own"}]}
    safety = rules("output", window_characters=16) if guarded else terms
    script = (Line("Hello", "[THINK]That is easy[/THINK]Hi there, how are you?"),)

    async def main() -> None:
        own = engine_of(corpus=readable_corpus(), vocabulary=readable_vocabulary(), script=script)
        thinks = {"output": {"reasoning": "magistral"}}
        async with gateway_of(store_url, own, safety=safety, model_fields=thinks) as client:
            whole = (await client.chat(max_tokens=40)).json
            assert whole["choices"][0]["message"]["reasoning_content"] == "That is easy"
            stream = await client.chat(max_tokens=40, stream=True, stream_options={"include_usage": True})
            for usage in (whole["usage"], stream.events[-2]["usage"]):
                details = usage["completion_tokens_details"]
                assert 0 < details["reasoning_tokens"] < usage["completion_tokens"]

    bounded(main)


@pytest.mark.parametrize("target", ["Raises", "Hangs", "Nonsense"])
@pytest.mark.parametrize("direction", ["input", "output"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_failed_judge_fails_closed(
    store_url: str, target: str, direction: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with gateway_of(
            store_url, says("This is very private. "), safety=rules(direction, target=target)
        ) as client:
            answer = await client.chat(messages=user("a private question"), stream=stream, max_tokens=60)
            if answer.status == 200:  # an answer's end is looked at when it is on its way
                assert b"filter_failed" in answer.body
                assert b"[DONE]" not in answer.body
            else:
                assert (answer.status, answer.error["code"]) == (503, "filter_failed")
            assert b"private" not in answer.body

    with caplog.at_level(logging.DEBUG):
        bounded(main)
    assert "private" not in caplog.text


@pytest.mark.parametrize("target", ["Raises", "Hangs", "Nonsense"])
@pytest.mark.parametrize("direction", ["input", "output"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_failed_judge_is_passed_over_where_it_may_be(
    store_url: str, target: str, direction: str, stream: bool
) -> None:
    async def main() -> None:
        safety = rules(direction, target=target, fail_open=True, window_characters=1000)
        async with gateway_of(store_url, says("Fine. "), safety=safety) as client:
            assert (await said(client, stream=stream))[0].startswith("Fine. ")

    bounded(main)


def test_a_refused_prompt_leaves_nothing_behind(store_url: str) -> None:
    async def main() -> None:
        tenant = {"name": "judged", "limits": {"concurrency": 1, "rpm": 1000}}
        async with gateway_of(store_url, says("Fine. "), safety=rules("input"), tenant=tenant) as client:
            for _ in range(3):
                assert (await client.chat(messages=user("my secret"))).status == 400
            assert (await client.chat(messages=user("hello"))).status == 200

    bounded(main)


def test_many_messages_are_judged_together(store_url: str) -> None:
    async def main() -> None:
        many = [{"role": "user", "content": f"hello {number}"} for number in range(100)]
        async with gateway_of(store_url, says("Fine. "), safety=rules("input")) as client:
            assert (await client.chat(messages=many)).status == 200
            many[77]["content"] = "my secret"
            assert (await client.chat(messages=many)).error["code"] == "content_filter"
        async with gateway_of(store_url, says("Fine. "), safety=rules("input", "redact")) as client:
            used = (await client.chat(messages=many)).json["usage"]["prompt_tokens"]
            many[77]["content"] = "my [WORD]"
            assert (await client.chat(messages=many)).json["usage"]["prompt_tokens"] == used

    bounded(main)


def test_instructions_are_judged_where_they_are_asked_for(store_url: str) -> None:
    async def main() -> None:
        told = [{"role": "system", "content": "my secret"}, {"role": "user", "content": "hello"}]
        function = {"name": "f", "description": "A secret.", "parameters": {"type": "object", "properties": {}}}
        tools = [{"type": "function", "function": function}]
        async with gateway_of(store_url, says("Fine. "), safety=rules("input")) as client:
            assert (await client.chat(messages=told)).status == 200
        safety = rules("input", roles=["system"])
        async with gateway_of(store_url, says("Fine. "), safety=safety) as client:
            assert (await client.chat(messages=told)).error["param"] == "messages[0].content"
            assert (await client.chat(messages=user("my secret"))).status == 200
            answer = await client.chat(messages=user("hello"), tools=tools)
            assert answer.error["param"] == "tools[0].function.description"

    bounded(main)


@pytest.mark.parametrize("model", [None, "own"])
def test_moderations_by_a_judge_alone(store_url: str, model: str | None) -> None:
    async def main() -> None:
        async with gateway_of(store_url, says("Fine. "), safety=rules("input")) as client:
            body = {"input": ["a secret", "nothing"]} | ({"model": model} if model else {})
            answer = await client.request("POST", "/v1/moderations", body)
            assert [result["flagged"] for result in answer.json["results"]] == [True, False]
            assert (await client.request("POST", "/v1/moderations", body | {"model": "other"})).status == 404

    bounded(main)


def test_moderations_leave_out_judges_of_other_roles(store_url: str) -> None:
    async def main() -> None:
        async with gateway_of(store_url, says("Fine. "), safety=rules("input", roles=["system"])) as client:
            answer = await client.request("POST", "/v1/moderations", {"input": "a secret"})
            assert [result["flagged"] for result in answer.json["results"]] == [False]
            answer = await client.request("POST", "/v1/moderations", {"input": "a secret", "model": "own"})
            assert [result["flagged"] for result in answer.json["results"]] == [True]

    bounded(main)
