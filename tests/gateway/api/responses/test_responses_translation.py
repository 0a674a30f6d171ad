import asyncio
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.api.responses.items import items_of, shown_item, shown_items
from gateway.api.responses.response_answer import Outcome, ResponseForm
from gateway.api.responses.response_context import resolved
from gateway.api.responses.responses_body import Prompting, read_create, read_prompting
from gateway.api.responses.responses_tools import ChatTools, chat_tools
from gateway.api.responses.responses_translation import chat_body, chat_fields
from protos.errors import InvalidRequest, PenstockError, PreviousResponseNotFound, UnsupportedParameter

TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}, "description": "d"}
CHAT_TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "description": "d"}}


def translated(before: list[dict[str, Any]] | None = None, **fields: Any) -> dict[str, Any]:
    body = read_create(orjson.dumps({"model": "m", "input": "x"} | fields))
    stream = bool(body.stream)
    encoded, _ = chat_body(body, tools_of(body), before or [], items_of(body.input), stream=stream)
    chat: dict[str, Any] = orjson.loads(encoded)
    return chat


def tools_of(body: Prompting, *, drop: bool = False) -> ChatTools:
    return chat_tools(body.tools, body.tool_choice, drop=drop)


def messages(*items: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = translated(input=list(items), **fields)["messages"]
    return found


def test_a_text_is_a_users_message() -> None:
    assert translated() == {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    assert translated(instructions="Be kind.")["messages"][0] == {"role": "system", "content": "Be kind."}


def test_what_came_before_is_between_instructions_and_input() -> None:
    before = [{"role": "user", "content": "a"}, {"type": "message", "role": "assistant", "content": "b"}]
    found = translated(before, instructions="i")["messages"]
    assert [message["content"] for message in found] == ["i", "a", "b", "x"]


def test_messages_and_their_parts() -> None:
    url = "data:image/png;base64,AA=="
    parts: list[dict[str, Any]] = [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": url, "detail": "low"},
        {"type": "input_file", "file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
    ]
    user, system, said, single = messages(
        {"role": "user", "content": parts},
        {
            "type": "message",
            "role": "developer",
            "content": [{"type": "input_text", "text": "t"}],
            "status": "completed",
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "phase": "final_answer",
            "content": [
                {"type": "output_text", "text": "a", "annotations": [], "logprobs": []},
                {"type": "refusal", "refusal": "b"},
            ],
        },
        {"role": "user", "content": []},
    )
    assert user["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
    ]
    assert system == {"role": "developer", "content": "t"}
    assert said == {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    assert single["content"] == ""


def test_thoughts_without_an_answer_are_not_the_next_ones() -> None:
    def thought(text: str) -> dict[str, Any]:
        return {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}]}

    assert messages(
        {"role": "user", "content": "u"},
        thought("cut short"),
        {"role": "user", "content": "go on"},
        thought("hm"),
        {"role": "assistant", "content": "done"},
    ) == [
        {"role": "user", "content": "u"},
        {"role": "user", "content": "go on"},
        {"role": "assistant", "content": "done", "reasoning_content": "hm"},
    ]


def test_an_answers_thoughts_text_and_calls_are_one_message() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    call = {
        "type": "function_call",
        "call_id": "c1",
        "name": "f",
        "arguments": "{}",
        "id": "fc_1",
        "status": "completed",
    }
    told = {"type": "function_call_output", "call_id": "c1", "output": "42"}
    found = messages(
        {"role": "user", "content": "u"},
        thought,
        {"role": "assistant", "content": "I ask"},
        call,
        call | {"call_id": "c2"},
        told,
        told | {"call_id": "c2", "output": [{"type": "input_text", "text": "43"}]},
        call | {"call_id": "c3"},
        {"role": "assistant", "content": "done"},
    )
    calls = [
        {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}} for name in ("c1", "c2", "c3")
    ]
    assert found == [
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "I ask", "reasoning_content": "hm", "tool_calls": calls[:2]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        {"role": "tool", "tool_call_id": "c2", "content": "43"},
        # Results have to follow calls, so this is one message too.
        {"role": "assistant", "content": "done", "tool_calls": calls[2:]},
    ]


def test_what_an_answer_says_after_its_calls_is_a_part_of_it() -> None:
    def call(name: str) -> dict[str, Any]:
        return {"type": "function_call", "call_id": name, "name": "f", "arguments": "{}"}

    def thought(text: str) -> dict[str, Any]:
        return {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}]}

    parts = [{"type": "output_text", "text": "c"}, {"type": "output_text", "text": "d"}]
    found = messages(
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "a"},
        call("c1"),
        thought("hm"),
        call("c2"),
        {"role": "assistant", "content": "b"},
        {"role": "assistant", "content": parts},
        {"type": "function_call_output", "call_id": "c1", "output": "1"},
        {"type": "function_call_output", "call_id": "c2", "output": "2"},
    )
    texts = [{"type": "text", "text": text} for text in ("ab", "c", "d")]
    calls = [{"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}} for name in ("c1", "c2")]
    assert found[1:] == [
        {"role": "assistant", "content": texts, "tool_calls": calls, "reasoning_content": "hm"},
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
        {"role": "tool", "tool_call_id": "c2", "content": "2"},
    ]


def test_parameters_get_their_names_in_a_chat() -> None:
    schema = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    found = translated(
        stream=True,
        tools=[TOOL],
        tool_choice="required",
        parallel_tool_calls=False,
        text={"format": schema, "verbosity": "low"},
        reasoning={"effort": "low", "summary": "detailed"},
        max_output_tokens=5,
        temperature=0.5,
        top_p=0.25,
        top_logprobs=3,
        user="u",
        safety_identifier="s",
        metadata={"a": "b"},
        truncation="disabled",
        service_tier="default",
        max_tool_calls=2,
        include=["reasoning.encrypted_content"],
    )
    del found["messages"]
    assert found == {
        "model": "m",
        "tools": [CHAT_TOOL],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "verbosity": "low",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
        },
        "reasoning_effort": "low",
        "max_completion_tokens": 5,
        "temperature": 0.5,
        "top_p": 0.25,
        "logprobs": True,
        "top_logprobs": 3,
        "user": "u",
        "safety_identifier": "s",
        "stream": True,
    }
    assert translated(text={"format": {"type": "json_object"}})["response_format"] == {"type": "json_object"}
    assert "response_format" not in translated(text={"format": {"type": "text"}, "verbosity": "medium"})
    assert translated(include=["message.output_text.logprobs"])["top_logprobs"] == 0


def test_hints_may_stand_where_chats_have_them() -> None:
    assert translated(verbosity="low", reasoning_effort="high").items() >= {
        ("verbosity", "low"),
        ("reasoning_effort", "high"),
    }
    found = translated(
        verbosity="low", text={"verbosity": "high"}, reasoning_effort="low", reasoning={"effort": "high"}
    )
    assert (found["verbosity"], found["reasoning_effort"]) == ("high", "high")
    assert not {"verbosity", "reasoning_effort"} & translated(verbosity="medium", text={"verbosity": None}).keys()
    assert "verbosity" not in translated(verbosity="low", text={"verbosity": "medium"})


def test_choices_of_tools() -> None:
    other = TOOL | {"name": "g"}
    named = translated(tools=[TOOL], tool_choice={"type": "function", "name": "f"})
    assert named["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "g"}]}
    found = translated(tools=[TOOL, other], tool_choice=allowed)
    assert [tool["function"]["name"] for tool in found["tools"]] == ["g"]
    assert found["tool_choice"] == "required"
    assert "tool_choice" not in translated(tool_choice="auto", parallel_tool_calls=True)
    assert translated(tools=[TOOL | {"strict": True}])["tools"][0]["function"]["strict"] is True
    assert "strict" not in translated(tools=[TOOL | {"strict": None}])["tools"][0]["function"]


@pytest.mark.parametrize(
    ("fields", "kind", "param"),
    [
        ({"unknown": 1}, InvalidRequest, "unknown"),
        ({"input": None}, InvalidRequest, "input"),
        ({"input": []}, InvalidRequest, "input"),
        ({"input": 5}, InvalidRequest, "input"),
        ({"input": [{"content": "x"}]}, InvalidRequest, "input[0].type"),
        ({"input": [{"role": "user"}]}, InvalidRequest, "input[0].content"),
        ({"input": [{"role": "robot", "content": "x"}]}, InvalidRequest, "input[0].role"),
        ({"input": [{"role": "user", "content": "x", "odd": 1}]}, InvalidRequest, "input[0].odd"),
        ({"input": [{"role": "user", "content": [{"text": "x"}]}]}, InvalidRequest, "input[0].content[0].type"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_text"}]}]},
            InvalidRequest,
            "input[0].content[0].text",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
            UnsupportedParameter,
            "input[0].content[0].file_id",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "http://x"}]}]},
            UnsupportedParameter,
            "input[0].content[0].file_url",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "hologram"}]}]},
            UnsupportedParameter,
            "input[0].content[0].type",
        ),
        ({"input": [{"type": "web_search_call", "id": "w"}]}, UnsupportedParameter, "input[0].type"),
        ({"input": [{"type": "function_call", "name": "f"}]}, InvalidRequest, "input[0].call_id"),
        ({"tools": [{"type": "web_search"}]}, UnsupportedParameter, "tools[0].type"),
        ({"tools": [{"type": "mcp", "server_label": "s"}]}, UnsupportedParameter, "tools[0].type"),
        ({"tools": [{"type": "custom", "name": "c"}]}, UnsupportedParameter, "tools[0].type"),
        ({"tools": [{"name": "c"}]}, InvalidRequest, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, InvalidRequest, "tools[0].name"),
        ({"tools": [TOOL | {"odd": 1}]}, InvalidRequest, "tools[0].odd"),
        ({"tools": [TOOL | {"defer_loading": True}]}, UnsupportedParameter, "tools[0].defer_loading"),
        ({"tools": [TOOL | {"allowed_callers": ["programmatic"]}]}, UnsupportedParameter, "tools[0].allowed_callers"),
        ({"tool_choice": "perhaps"}, InvalidRequest, "tool_choice"),
        ({"tool_choice": {"type": "web_search_preview"}}, UnsupportedParameter, "tool_choice.type"),
        (
            {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}},
            InvalidRequest,
            "tool_choice.tools[0]",
        ),
        ({"truncation": "auto"}, UnsupportedParameter, "truncation"),
        ({"service_tier": "flex"}, UnsupportedParameter, "service_tier"),
        ({"prompt": {"id": "p"}}, UnsupportedParameter, "prompt"),
        ({"context_management": [{"type": "compaction"}]}, UnsupportedParameter, "context_management"),
        ({"reasoning": {"context": "all_turns"}}, UnsupportedParameter, "reasoning.context"),
        ({"reasoning": {"mode": "pro"}}, UnsupportedParameter, "reasoning.mode"),
        ({"reasoning": {"effort": "vast"}}, InvalidRequest, "reasoning.effort"),
        ({"stream_options": {"include_obfuscation": False}}, InvalidRequest, "stream_options"),
        (
            {"stream": True, "stream_options": {"include_obfuscation": True}},
            UnsupportedParameter,
            "stream_options.include_obfuscation",
        ),
        ({"previous_response_id": "a", "conversation": "b"}, InvalidRequest, "previous_response_id"),
        ({"metadata": {str(n): "x" for n in range(17)}}, InvalidRequest, "metadata"),
        ({"include": ["everything"]}, InvalidRequest, "include[0]"),
        ({"max_output_tokens": 0}, InvalidRequest, "max_output_tokens"),
        ({"text": {"format": {"type": "grammar"}}}, InvalidRequest, "text.format.type"),
    ],
)
def test_what_cannot_be_done_is_refused_by_its_name(
    fields: dict[str, Any], kind: type[PenstockError], param: str
) -> None:
    with pytest.raises(kind) as error:
        translated(**fields)
    assert type(error.value) is kind
    assert error.value.param == param


def test_counting_takes_what_prompts_are_made_of() -> None:
    body = read_prompting(b'{"model":"m","input":"x","instructions":"i","tools":[]}')
    assert [
        message["role"] for message in chat_fields(body, tools_of(body), [], items_of(body.input))[0]["messages"]
    ] == [
        "system",
        "user",
    ]
    with pytest.raises(InvalidRequest):
        read_prompting(b'{"model":"m","input":"x","temperature":1}')


def test_items_are_shown_with_ids_that_stay() -> None:
    given: list[dict[str, Any]] = [
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "a", "id": "msg_9"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "id": None},
        {"type": "function_call_output", "call_id": "c", "output": "1"},
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]},
    ]
    user, said, call, told, thought = shown_items(given, "s")
    assert user == {
        "id": "msg_s_i0",
        "type": "message",
        "status": "completed",
        "role": "user",
        "content": [{"type": "input_text", "text": "u"}],
    }
    assert (said["id"], said["content"][0]["type"]) == ("msg_9", "output_text")
    assert (call["id"], told["id"], thought["id"]) == ("fc_s_i2", "fco_s_i3", "rs_s_i4")
    assert thought["summary"] == []
    assert shown_item(given[1], "s", 1, own_id=False)["id"] == "msg_s_i1"
    # What is shown may be given again.
    assert messages(*shown_items(given, "s")) == messages(*given)


_KEYS = st.sampled_from(
    [
        "type",
        "role",
        "content",
        "id",
        "status",
        "text",
        "name",
        "call_id",
        "arguments",
        "output",
        "summary",
        "image_url",
        "file_data",
        "input_audio",
        "refusal",
        "tools",
        "mode",
        "parameters",
        "strict",
        "format",
        "schema",
        "verbosity",
        "effort",
    ]
)
_WORDS = st.sampled_from(
    [
        "message",
        "function_call",
        "function_call_output",
        "reasoning",
        "item_reference",
        "input_text",
        "output_text",
        "refusal",
        "input_image",
        "input_file",
        "input_audio",
        "function",
        "allowed_tools",
        "json_schema",
        "user",
        "assistant",
        "completed",
        "f",
        "c",
        "auto",
        "required",
    ]
)
_ANY = st.recursive(
    st.one_of(_WORDS, st.none(), st.booleans(), st.integers(-5, 5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=5)),
    max_leaves=12,
)
_FIELDS = st.sampled_from(["input", "tools", "tool_choice", "text", "reasoning", "conversation", "include", "metadata"])


@given(st.dictionaries(_FIELDS, _ANY, max_size=3))
def test_whatever_a_body_is_nothing_breaks(fields: dict[str, Any]) -> None:
    try:
        body = read_create(orjson.dumps({"model": "m", "input": "x"} | fields))
        items = asyncio.run(resolved(Nothing(), "acme", [], items_of(body.input)))  # type: ignore[arg-type]
        chat_body(body, tools_of(body), [], items, stream=False)
        shown = shown_items(items, "s")
    except PenstockError as error:
        assert error.status in (400, 404)
        return
    # What is taken can be shown, and be the input of another request.
    chat_body(body, tools_of(body), shown, [], stream=False)
    ResponseForm(body, "s", 5, "m", stored=True).write(Outcome("completed"))


class Nothing:
    """A store without responses."""

    async def chain(self, tenant: str, response_id: str) -> list[Any]:
        raise PreviousResponseNotFound("no")
