"""Bodies of the Messages API: what is taken, and how what is wrong is told."""

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.api.anthropic.messages_body import MessagesBody, PromptBody, TextBlock
from gateway.api.anthropic.messages_decoding import decode_body, decode_tool
from gateway.api.anthropic.messages_translation import translate
from protos.errors import ClientError, InvalidRequest, UnsupportedParameter

HELLO = [{"role": "user", "content": "Hello!"}]


def decoded(**fields: Any) -> MessagesBody:
    body = {"model": "m", "max_tokens": 5, "messages": HELLO} | fields
    return decode_body(MessagesBody, msgspec.json.encode(body))


def refusal(**fields: Any) -> str:
    with pytest.raises(InvalidRequest) as caught:
        decoded(**fields)
    assert caught.value.param is not None
    assert caught.value.message.startswith(f"{caught.value.param}: ")
    return caught.value.message


def test_everything_a_client_may_say_is_taken() -> None:
    ephemeral = {"type": "ephemeral", "ttl": "1h"}
    body = decoded(
        system=[{"type": "text", "text": "Be kind.", "cache_control": ephemeral}],
        messages=[{"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": None}]}],
        stream=False,
        stop_sequences=["END"],
        temperature=1,
        top_p=0.5,
        top_k=40,
        metadata={"user_id": "u"},
        service_tier="auto",
        cache_control=ephemeral,
        speed="standard",
        thinking={"type": "enabled", "budget_tokens": 1024},
        output_config={"effort": "low", "format": {"type": "json_schema", "schema": {}}},
        tools=[],
        tool_choice={"type": "auto", "disable_parallel_tool_use": True},
        container=None,
        mcp_servers=[],
        context_management={"edits": []},
    )
    assert body.messages[0].content == [TextBlock(text="Hi")]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"no_such_thing": 1}, "no_such_thing: Extra inputs are not permitted."),
        ({"max_tokens": "5"}, "max_tokens: Expected `int`, got `str`."),
        ({"max_tokens": 0}, "max_tokens: Expected `int` >= 1."),
        ({"temperature": 1.5}, "temperature: Expected `float` <= 1.0."),
        ({"messages": []}, "messages: Expected `array` of length >= 1."),
        ({"messages": [{"role": "user"}]}, "messages.0.content: Field required."),
        ({"messages": [{"role": "user", "content": 5}]}, "messages.0.content: Expected `str | array`, got `int`."),
        (
            {"messages": [*HELLO, {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text"}]}]},
            "messages.1.content.1.text: Field required.",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "colour": 1}]}]},
            "messages.0.content.0.colour: Extra inputs are not permitted.",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "server_tool_use", "id": "a"}]}]},
            "messages.0.content.0.type: 'server_tool_use' is not supported here.",
        ),
        ({"thinking": {"type": "enabled", "budget_tokens": 3}}, "thinking.budget_tokens: Expected `int` >= 1024."),
        ({"thinking": {"type": "odd"}}, "thinking.type: 'odd' is not supported here."),
        ({"stop_sequences": [""]}, "stop_sequences.0: Expected `str` of length >= 1."),
        ({"system": [{"type": "image"}]}, "system.0.type: 'image' is not supported here."),
    ],
)
def test_what_is_wrong_is_told_by_its_place(fields: dict[str, Any], message: str) -> None:
    assert refusal(**fields) == message


def test_what_is_missing_at_the_top() -> None:
    with pytest.raises(InvalidRequest, match="max_tokens: Field required") as caught:
        decode_body(MessagesBody, b'{"model":"m","messages":[{"role":"user","content":"a"}]}')
    assert caught.value.param == "max_tokens"
    decode_body(PromptBody, b'{"model":"m","messages":[{"role":"user","content":"a"}]}')
    with pytest.raises(InvalidRequest, match="max_tokens: Extra inputs"):
        decode_body(PromptBody, b'{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"a"}]}')


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("container", "c"),
        ("mcp_servers", [{"type": "url", "url": "https://x", "name": "x"}]),
        ("inference_geo", "eu"),
        ("user_profile_id", "u"),
        ("thread", {"type": "create"}),
    ],
)
def test_what_the_api_has_and_nothing_here_honours_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(UnsupportedParameter, match=f"{name}: ") as caught:
        decoded(**{name: value})
    assert caught.value.param == name


def test_edits_of_the_prompt_that_lose_nothing_by_being_left_out() -> None:
    edits = [{"type": "clear_thinking_20251015", "keep": "all"}, {"type": "clear_tool_uses_20250919"}]
    assert decoded(context_management={"edits": edits}).context_management is not None
    with pytest.raises(InvalidRequest, match=r"context_management.edits.0.type"):
        decoded(context_management={"edits": [{"type": "compact_20260112"}]})


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b'{"model":"\xff"}', b"[" * 100_000])
def test_what_is_no_body_at_all(body: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode_body(MessagesBody, body)
    assert caught.value.message.startswith("The request body is ")


def test_tools_are_custom_ones() -> None:
    tool = {"name": "f", "input_schema": {"type": "object"}, "type": "custom", "cache_control": {"type": "ephemeral"}}
    assert decode_tool(tool, "tools.0").name == "f"
    with pytest.raises(UnsupportedParameter, match=r"tools\.3\.type: 'web_search_20250305' is not supported"):
        decode_tool({"type": "web_search_20250305", "name": "web_search", "max_uses": 3}, "tools.3")
    with pytest.raises(InvalidRequest, match=r"tools\.1\.input_schema: Field required"):
        decode_tool({"name": "f"}, "tools.1")
    with pytest.raises(InvalidRequest, match=r"tools\.1\.name: "):
        decode_tool({"name": "no spaces", "input_schema": {}}, "tools.1")
    with pytest.raises(InvalidRequest, match=r"tools\.1\.defer_loading: "):
        decode_tool({"name": "f", "input_schema": {}, "defer_loading": True}, "tools.1")


def test_long_names_are_not_repeated_whole() -> None:
    assert len(refusal(**{"x" * 5000: 1})) < 200
    assert len(refusal(service_tier="x" * 5000)) < 400
    assert len(refusal(thinking={"type": "x" * 5000})) < 200


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
_members = st.sampled_from([*MessagesBody.__struct_fields__, "container", "thread", "x"])


@example({"container": float("inf")})
@given(st.dictionaries(_members, _json, max_size=4))
def test_no_json_is_more_than_refused(fields: dict[str, Any]) -> None:
    body = json.dumps({"model": "m", "max_tokens": 5, "messages": HELLO} | fields).encode()
    with contextlib.suppress(ClientError):
        translate(decode_body(MessagesBody, body), None)
