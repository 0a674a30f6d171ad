"""Tool calls and thoughts of own replicas before the filters: what clients get of them, and not what models write."""

import json
from typing import Any

import pytest

from protos.script import Line
from replicas.engines.simulated import SimulatedEngine
from tests.asgi import Answer, gateway_of
from tests.harness import engine_of, readable_corpus, readable_vocabulary

MAIL = "anna.bell@mail.example.org"
TERMS = {"name": "list", "terms": {"terms": ["frobnicate", "blue moon", "ARGS", "arguments"]}}
JUDGE = {"name": "judge", "plugin": {"target": "tests.plugins:Words", "timeout_seconds": 5.0}}


def engine(said: str) -> SimulatedEngine:
    return engine_of(corpus=readable_corpus(), vocabulary=readable_vocabulary(), script=(Line("call", said),))


def told(answer: Answer) -> dict[str, Any]:
    """Text, thoughts, calls and the end of the only choice, streamed or not."""
    assert answer.status == 200
    if not answer.headers["content-type"].startswith("text/event-stream"):
        (choice,) = answer.json["choices"]
        message = choice["message"]
        calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", ())]
        thoughts = message.get("reasoning_content", "")
        return {"text": message["content"] or "", "thoughts": thoughts, "calls": calls, "end": choice["finish_reason"]}
    found: dict[str, Any] = {"text": "", "thoughts": "", "calls": [], "end": None}
    for event in answer.events[:-1]:
        for choice in event["choices"]:
            delta = choice["delta"]
            found["text"] += delta.get("content") or ""
            found["thoughts"] += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls", ()):
                if "id" in call:
                    found["calls"].append((call["function"]["name"], ""))
                name, arguments = found["calls"][call["index"]]
                found["calls"][call["index"]] = (name, arguments + call["function"]["arguments"])
            found["end"] = choice["finish_reason"] or found["end"]
    return found


async def both(
    store_url: str, said: str, safety: dict[str, Any], output: dict[str, str], **fields: Any
) -> dict[str, Any]:
    """What is told, which has to be the same streamed and whole."""
    messages = [{"role": "user", "content": "call"}]
    fields = {"tools": [{"type": "function", "function": {"name": name}} for name in ("find", "now")]} | fields
    async with gateway_of(store_url, engine(said), safety=safety, model_fields={"output": output}) as client:
        whole = told(await client.chat(messages=messages, max_tokens=200, **fields))
        streamed = told(await client.chat(messages=messages, max_tokens=200, stream=True, **fields))
    assert whole == streamed
    return whole


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ("mistral", r'[TOOL_CALLS]find[ARGS]{{"x": "a {} b"}}'),
        ("hermes", '<tool_call>\n{{"name": "find", "arguments": {{"x": "a {} b"}}}}\n</tool_call>'),
        ("llama3_json", '{{"name": "find", "parameters": {{"x": "a {} b"}}}}'),
        ("pythonic", "[find(x='a {} b')]"),
    ],
)
@pytest.mark.parametrize("word", ["frobnicate", r"\u0066robnicate", r"frobnicat\u0065"])
@pytest.mark.parametrize("action", ["redact", "block"])
async def test_arguments_are_looked_at_as_they_are_meant(
    store_url: str, tools: str, said: str, word: str, action: str
) -> None:
    safety = {"filters": [TERMS], "output": [{"filter": "list", "action": action}]}
    answer = await both(store_url, said.format(word), safety, {"tools": tools})
    ((name, arguments),) = answer["calls"]
    assert name == "find"
    if action == "redact":
        assert json.loads(arguments) == {"x": "a [LIST] b"}
        assert answer["end"] == "tool_calls"
    else:
        assert json.loads(arguments + '"}') == {"x": "a "}
        assert answer["end"] == "content_filter"


async def test_what_only_a_parser_undoes(store_url: str) -> None:
    safety = {"filters": [TERMS], "output": [{"filter": "list", "action": "redact"}]}
    answer = await both(store_url, r"[find(x='a \x66robnicat\145 b')]", safety, {"tools": "pythonic"})
    assert [(name, json.loads(arguments)) for name, arguments in answer["calls"]] == [("find", {"x": "a [LIST] b"})]


async def test_marks_of_calls_are_no_text(store_url: str) -> None:
    """Terms of the list stand in how the model writes a call, and in nothing that a client gets."""

    safety = {"filters": [TERMS], "output": ["list"]}
    said = f'Well, [TOOL_CALLS]find[ARGS]{{"n": 5}}[TOOL_CALLS]now[ARGS]{{"to": "{MAIL}"}}'
    answer = await both(store_url, said, safety, {"tools": "mistral"})
    calls = [("find", '{"n": 5}'), ("now", f'{{"to": "{MAIL}"}}')]
    assert answer == {"text": "Well, ", "thoughts": "", "calls": calls, "end": "tool_calls"}
    answer = await both(
        store_url, said, safety | {"output": [{"filter": "pii", "action": "redact"}]}, {"tools": "mistral"}
    )
    assert answer["calls"] == [("find", '{"n": 5}'), ("now", '{"to": "[EMAIL]"}')]


async def test_thoughts_are_a_text_of_their_own(store_url: str) -> None:
    safety = {"filters": [TERMS], "output": [{"filter": "list", "action": "block"}]}
    said = "[THINK]a blue[/THINK]moon is no blue moon"
    answer = await both(store_url, said, safety, {"reasoning": "magistral"}, tools=[])
    assert answer == {"text": "moon is no ", "thoughts": "a blue", "calls": [], "end": "content_filter"}


@pytest.mark.parametrize("place", ["text", "thoughts", "calls"])
@pytest.mark.parametrize("action", ["redact", "block", "flag"])
async def test_judges_are_asked_about_each_text(store_url: str, place: str, action: str) -> None:
    safety = {"filters": [JUDGE, TERMS], "output": [{"filter": "judge", "action": action}, "list"]}
    words = {at: "a secret" if at == place else "nothing" for at in ("thoughts", "text", "calls")}
    said = '[THINK]{thoughts}[/THINK]{text}[TOOL_CALLS]find[ARGS]{{"x": "{calls}"}}'.format(**words)
    output = {"reasoning": "magistral", "tools": "mistral"}
    answer = await both(store_url, said, safety, output)
    whole = {"thoughts": words["thoughts"], "text": words["text"], "calls": f'{{"x": "{words["calls"]}"}}'}
    if action == "redact":
        whole = {at: text.replace("secret", "[WORD]") for at, text in whole.items()}
    elif action == "block":
        order = ("thoughts", "text", "calls")
        whole = {
            at: text.partition("secret")[0] if order.index(at) <= order.index(place) else ""
            for at, text in whole.items()
        }
    calls = "".join(arguments for _, arguments in answer["calls"])
    assert {"thoughts": answer["thoughts"], "text": answer["text"], "calls": calls} == whole
    assert answer["end"] == ("content_filter" if action == "block" else "tool_calls")
