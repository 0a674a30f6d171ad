"""Calls of earlier turns and what came of them, as clients send them back."""

from typing import Any

import pytest

from gateway.inference.generate_request import Chat
from protos.errors import InvalidRequest
from tests.gateway.api.openai.tools.offering import HELLO, ChatFormat, Format, asked, model_of


def call(id_: str = "call_1", name: str = "find", arguments: str = "{}", **fields: Any) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}} | fields


def calling(*calls: dict[str, Any], content: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)} | fields


def result(id_: str = "call_1", content: Any = "sunny", **fields: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id_, "content": content} | fields


def rendered(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    request = asked(messages=[*HELLO, *messages])
    assert request.foreign is None
    assert isinstance(request.prompt, Chat)
    return request.prompt.messages[1:]


def test_a_call_and_its_result() -> None:
    assert rendered(calling(call(arguments='{"a": 1}')), result()) == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "find", "arguments": '{"a": 1}'}}],
        },
        # Results are told by name too, which some templates want.
        {"role": "tool", "content": "sunny", "tool_call_id": "call_1", "name": "find"},
    ]


def test_what_clients_send_back_of_an_answer() -> None:
    answer = calling(call(index=0), content="Wait.", refusal=None, annotations=[], audio=None, function_call=None)
    (said, _) = rendered(answer | {"reasoning_content": "Hm."}, result(content=[{"type": "text", "text": "x"}]))
    assert said["content"] == "Wait."
    assert said["reasoning_content"] == "Hm."
    assert "annotations" not in said
    assert rendered({"role": "assistant", "content": "x", "tool_calls": None, "reasoning": "R"}) == [
        {"role": "assistant", "content": "x", "reasoning_content": "R"}
    ]
    assert rendered({"role": "assistant", "content": "x", "tool_calls": []}) == [{"role": "assistant", "content": "x"}]


def test_several_calls_and_turns() -> None:
    messages = rendered(
        calling(call("a", "find"), call("b", "now")),
        result("b"),
        result("a", name="mine"),
        {"role": "assistant", "content": "x"},
        {"role": "user", "content": "y"},
        calling(call("a", "again")),
        result("a"),
    )
    assert [m.get("name") for m in messages] == [None, "now", "mine", None, None, None, "again"]


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([result()], "messages[1].tool_call_id"),
        ([{"role": "tool", "content": "x"}], "messages[1].tool_call_id"),
        ([calling(call()), result("other")], "messages[2].tool_call_id"),
        ([calling(call())], "messages[1].tool_calls"),
        ([calling(call(), call("b")), result(), {"role": "user", "content": "x"}], "messages[1].tool_calls"),
        ([calling(call(), call()), result()], "messages[1].tool_calls[1].id"),
        ([calling(call()), result(), {"role": "user", "content": "x"}, result()], "messages[4].tool_call_id"),
        ([calling(call("")), result("")], "messages[1].tool_calls[0].id"),
        ([calling(call("a b")), result("a b")], "messages[1].tool_calls[0].id"),
        ([calling({"id": "a"}), result("a")], "messages[1].tool_calls[0].function"),
        ([calling(call(arguments={}))], "messages[1].tool_calls[0].function.arguments"),  # type: ignore[arg-type]
        ([calling(call(name=""))], "messages[1].tool_calls[0].function.name"),
        ([calling(call(x=1))], "messages[1].tool_calls[0].x"),
        ([{"role": "user", "content": "x", "tool_calls": [call()]}], "messages[1].tool_calls"),
        ([{"role": "user", "content": "x", "tool_call_id": "a"}], "messages[1].tool_call_id"),
        ([calling(call()), {"role": "tool", "tool_call_id": "call_1"}], "messages[2].content"),
        ([{"role": "assistant", "content": None, "tool_calls": []}], "messages[1].content"),
    ],
)
def test_what_is_wrong_is_named(messages: list[dict[str, Any]], param: str) -> None:
    both: tuple[dict[str, Any], ...] = ({}, {"prediction": {}})
    for fields in both:
        if param.endswith("].content") and fields:
            continue  # what is rendered elsewhere may have more forms
        with pytest.raises(InvalidRequest) as caught:
            asked(messages=[*HELLO, *messages], **fields)
        assert caught.value.param == param


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([calling({"id": "a", "type": "custom", "custom": {}}), result("a")], "messages[1].tool_calls[0].type"),
        ([{"role": "assistant", "content": "x", "function_call": {"name": "f"}}], "messages[1].function_call"),
        ([{"role": "function", "content": "x", "name": "f"}], "messages[1].role"),
        ([{"role": "assistant", "audio": {"id": "a"}}], "messages[1].audio"),
    ],
)
def test_what_only_upstreams_know(messages: list[dict[str, Any]], param: str) -> None:
    foreign = asked(messages=[*HELLO, *messages]).foreign
    assert foreign is not None
    assert foreign.param == param


def test_a_template_that_writes_no_calls_leaves_them_to_upstreams() -> None:
    model = model_of(Format(), ChatFormat("tools", calls=False))
    foreign = asked(model, messages=[*HELLO, calling(call()), result()]).foreign
    assert foreign is not None
    assert foreign.param == "messages[1].tool_calls"


PICTURE = {"type": "image_url", "image_url": {"url": "https://example.com/x.png"}}


def test_pictures_are_for_upstreams_and_are_looked_at_before() -> None:
    foreign = asked(messages=[{"role": "user", "content": [{"type": "text", "text": "x"}, PICTURE]}]).foreign
    assert foreign is not None
    assert foreign.param == "messages[0].content[1].type"
    bad: tuple[tuple[str, dict[str, Any]], ...]
    bad = ("http://127.0.0.1/x", {}), ("file:///etc/passwd", {"prediction": {}})
    for url, fields in bad:
        part = {"type": "image_url", "image_url": {"url": url}}
        with pytest.raises(InvalidRequest) as caught:
            asked(messages=[*HELLO, {"role": "user", "content": [part]}], **fields)
        assert caught.value.param == "messages[1].content[0].image_url.url"
    with pytest.raises(InvalidRequest, match="more than 100"):
        asked(messages=[{"role": "user", "content": [PICTURE] * 101}])
