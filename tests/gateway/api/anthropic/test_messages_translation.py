"""From bodies of the Messages API to a chat's."""

from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.api.anthropic.error_paths import place_of, to_messages_error
from gateway.api.anthropic.messages_body import MessagesBody, PromptBody
from gateway.api.anthropic.messages_decoding import decode_body
from gateway.api.anthropic.messages_translation import Translation, translate, translate_prompt
from protos.errors import InvalidRequest, PenstockError, UnsupportedParameter

PIXEL = "iVBORw0KGgo="
HELLO = {"role": "user", "content": "Hello!"}
TOOL = {"name": "f", "description": "It does.", "input_schema": {"type": "object", "properties": {}}}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def use(call: str, name: str = "f", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": arguments}


def result(call: str, content: Any = "done", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": content} | fields


def translated(*messages: Any, words: frozenset[str] | None = None, **fields: Any) -> Translation:
    body = {"model": "m", "max_tokens": 5, "messages": list(messages) or [HELLO]} | fields
    return translate(decode_body(MessagesBody, msgspec.json.encode(body)), words)


def chat(*messages: Any, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(translated(*messages, **fields).body)
    return found


def said(*messages: Any, **fields: Any) -> list[Any]:
    found: list[Any] = chat(*messages, **fields)["messages"]
    return found


def refused(kind: type[PenstockError], *messages: Any, **fields: Any) -> str:
    with pytest.raises(kind) as caught:
        translated(*messages, **fields)
    assert caught.value.param is not None
    return caught.value.message


def test_a_plain_request_stays_plain() -> None:
    assert chat() == {"model": "m", "max_tokens": 5, "messages": [HELLO]}


def test_how_the_answer_is_sampled() -> None:
    found = chat(
        stream=True,
        stop_sequences=["a", "b"],
        temperature=0.3,
        top_p=0.9,
        top_k=7,
        metadata={"user_id": "u"},
        service_tier="standard_only",
    )
    assert found == {
        "model": "m",
        "max_tokens": 5,
        "messages": [HELLO],
        "stream": True,
        "stop": ["a", "b"],
        "temperature": 0.3,
        "top_p": 0.9,
        "top_k": 7,
        "user": "u",
    }
    assert "top_k" not in chat(top_k=0)


def test_what_stands_above_the_conversation() -> None:
    assert said(system="Be kind.") == [{"role": "system", "content": "Be kind."}, HELLO]
    blocks = [text("Be kind.") | {"cache_control": {"type": "ephemeral"}}, text("Be brief.")]
    assert said(system=blocks) == [{"role": "system", "content": "Be kind.\nBe brief."}, HELLO]
    assert said(system="") == said(system=[]) == [HELLO]
    assert said(HELLO, {"role": "system", "content": "Now be kind."}, HELLO) == [
        HELLO,
        {"role": "system", "content": "Now be kind."},
        HELLO,
    ]


def test_messages_of_one_side_that_follow_each_other_are_one() -> None:
    assert said(user(text("a"), text("b")), user(text("c")), {"role": "user", "content": "d"}) == [
        {"role": "user", "content": "a\nb\nc\nd"}
    ]
    assert said(HELLO, assistant(text("a")), assistant(text("b")), HELLO)[1] == {
        "role": "assistant",
        "content": "a\nb",
    }


def test_images_become_parts() -> None:
    inside = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    outside = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    found = translated(user(inside, text("What is it?"), outside))
    assert orjson.loads(found.body)["messages"][0]["content"] == [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        text("What is it?"),
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    ]
    assert place_of("messages[0].content[2].image_url.url", found.origins) == "messages.0.content.2.source"
    odd = {"type": "image", "source": {"type": "base64", "media_type": "image/tiff", "data": PIXEL}}
    assert refused(InvalidRequest, user(odd)).startswith("messages.0.content.0.source.media_type: 'image/tiff' is")
    file = {"type": "image", "source": {"type": "file", "file_id": "f"}}
    assert refused(UnsupportedParameter, user(file)).startswith("messages.0.content.0.source: ")


def test_documents_are_passed_as_far_as_a_chat_can_say_them() -> None:
    plain = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "It rains."}}
    assert said(user(plain | {"title": "Weather", "context": "Today"})) == [
        {"role": "user", "content": "Weather\nToday\nIt rains."}
    ]
    pieces = {"type": "document", "source": {"type": "content", "content": [text("a"), text("b")]}}
    assert said(user(pieces, text("c")))[0]["content"] == "a\nb\nc"
    found = {"type": "search_result", "title": "T", "source": "https://x", "content": [text("a"), text("b")]}
    assert said(user(found))[0]["content"] == "T\nhttps://x\na\nb"
    pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}}
    assert said(user(pdf, text("Read it.")))[0]["content"] == [
        {"type": "file", "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
        text("Read it."),
    ]
    for source in ({"type": "url", "url": "https://x/a.pdf"}, {"type": "file", "file_id": "f"}):
        assert refused(UnsupportedParameter, user({"type": "document", "source": source})).startswith(
            "messages.0.content.0.source: "
        )
    cited = plain | {"citations": {"enabled": True}}
    assert refused(UnsupportedParameter, user(cited)).startswith("messages.0.content.0.citations: ")
    assert said(user(plain | {"citations": {"enabled": False}}))


def test_calls_and_results_become_messages_of_their_own_in_order() -> None:
    found = translated(
        HELLO,
        assistant(text("I look."), use("a", x=1), use("b", "g")),
        user(result("b", [text("two"), text("lines")]), result("a", "no", is_error=True), text("And now?")),
        tools=[TOOL],
    )
    assert orjson.loads(found.body)["messages"][1:] == [
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
                {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "b", "content": "two\nlines"},
        {"role": "tool", "tool_call_id": "a", "content": "Error: no"},
        {"role": "user", "content": "And now?"},
    ]
    for param, place in (
        ("messages[1].tool_calls[1].function.name", "messages.1.content.2.name"),
        ("messages[1].tool_calls[0].function.arguments", "messages.1.content.1.input"),
        ("messages[1].reasoning_content", "messages.1.content"),
        ("messages[2].content", "messages.2.content.0.content"),
        ("messages[3].tool_call_id", "messages.2.content.1.tool_use_id"),
        ("messages[4].content", "messages.2.content"),
        ("messages[99].content", "messages"),
    ):
        assert place_of(param, found.origins) == place


def test_a_result_may_come_after_words_and_have_an_image() -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://x/a.png"}}
    found = said(HELLO, assistant(use("a")), user(text("Here.")), user(result("a", [text("It is"), image])))
    assert found[2:] == [
        {"role": "tool", "tool_call_id": "a", "content": "It is"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/a.png"}}, text("Here.")]},
    ]
    assert said(HELLO, assistant(use("a")), user(result("a", None)))[1:] == [
        {"role": "assistant", "content": None, "tool_calls": found[1]["tool_calls"]},
        {"role": "tool", "tool_call_id": "a", "content": ""},
    ]


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([HELLO, assistant(use("a"), use("b")), user(result("a"))], "messages.1: Calls without a tool_result"),
        ([HELLO, assistant(use("a")), HELLO], "messages.1: Calls without a tool_result"),
        ([user(result("a"))], "messages.0.content.0.tool_use_id: 'a' is no call"),
        ([HELLO, assistant(use("a")), user(result("a"), result("a"))], "messages.2.content.1.tool_use_id: 'a' is no"),
        (
            [HELLO, assistant(use("a")), user(result("a")), assistant(text("x")), user(result("a"))],
            "messages.4.content.0.tool_use_id: 'a' is no call",
        ),
        ([HELLO, assistant(use("a"), use("a")), user(result("a"))], "messages.1.content.1.id: There is more than one"),
        ([user(use("a"))], "messages.0.content.0: 'tool_use' is not the user's to say."),
        ([HELLO, assistant(result("a")), HELLO], "messages.1.content.0: 'tool_result' is not the assistant's to say."),
        ([user()], "messages.0.content: A user's message must not be empty."),
        ([user(text(""))], "messages.0.content: A user's message must not be empty."),
        ([HELLO, {"role": "system", "content": [result("a")]}, HELLO], "messages.1.content.0: A system message has"),
    ],
)
def test_conversations_that_make_no_sense(messages: list[Any], message: str) -> None:
    assert refused(InvalidRequest, *messages).startswith(message)


def test_answers_cannot_be_begun_for_the_model() -> None:
    assert "last message" in refused(UnsupportedParameter, HELLO, assistant(text("The answer is (")))


def test_thoughts_go_back_to_the_model() -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "anybody's"}
    hidden = {"type": "redacted_thinking", "data": "AAAA"}
    assert said(HELLO, assistant(thought, hidden, text("Yes.")), HELLO)[1] == {
        "role": "assistant",
        "content": "Yes.",
        "reasoning_content": "Hm.",
    }
    assert said(HELLO, assistant(hidden), HELLO)[1] == {"role": "assistant", "content": ""}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, {}),
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        ({"type": "tool", "name": "f"}, {"tool_choice": {"type": "function", "function": {"name": "f"}}}),
        (
            {"type": "auto", "disable_parallel_tool_use": True},
            {"tool_choice": "auto", "parallel_tool_calls": False},
        ),
    ],
)
def test_tools_and_how_they_may_be_used(choice: Any, expected: dict[str, Any]) -> None:
    function = {"name": "f", "parameters": TOOL["input_schema"], "description": "It does."}
    found = chat(tools=[TOOL], tool_choice=choice)
    assert found.pop("tools") == [{"type": "function", "function": function}]
    assert found == chat() | expected


def test_what_else_a_tool_may_say() -> None:
    tool = TOOL | {"strict": True, "input_examples": [{"x": 1}], "type": "custom", "eager_input_streaming": True}
    (found,) = chat(tools=[tool])["tools"]
    assert found["function"]["strict"] is True
    assert found["function"]["parameters"] == {"type": "object", "properties": {}, "examples": [{"x": 1}]}
    assert refused(InvalidRequest, tools=[TOOL, TOOL]).startswith("tools.1.name: There is more than one tool 'f'")
    assert refused(InvalidRequest, tools=[TOOL], tool_choice={"type": "tool", "name": "g"}).startswith(
        "tool_choice.name: There is no tool 'g'"
    )
    assert refused(InvalidRequest, tool_choice={"type": "any"}).startswith("tool_choice: ")
    assert chat(tools=[], tool_choice={"type": "none"}) == chat()


ENABLED = {"type": "enabled", "budget_tokens": 5000}
DISABLED = {"type": "disabled"}
ADAPTIVE = {"type": "adaptive", "display": "omitted"}


@pytest.mark.parametrize(
    ("words", "thinking", "effort", "expected"),
    [
        # Nothing is known of what an upstream takes but what OpenAI's API has.
        (None, ENABLED, None, {}),
        (None, DISABLED, "max", {"reasoning_effort": "max"}),
        ((), ENABLED, "high", {}),
        (("enable_thinking",), None, None, {}),
        (("enable_thinking",), ENABLED, "high", {"chat_template_kwargs": {"enable_thinking": True}}),
        (("enable_thinking",), DISABLED, None, {"chat_template_kwargs": {"enable_thinking": False}}),
        (("thinking",), ADAPTIVE, None, {"chat_template_kwargs": {"thinking": True}}),
        (("reasoning_effort",), None, "low", {"reasoning_effort": "low"}),
        (("reasoning_effort",), ENABLED, None, {"reasoning_effort": "medium"}),
        (("reasoning_effort",), ENABLED | {"budget_tokens": 4000}, None, {"reasoning_effort": "low"}),
        (("reasoning_effort",), ENABLED | {"budget_tokens": 30_000}, None, {"reasoning_effort": "high"}),
        (("reasoning_effort",), ENABLED, "low", {"reasoning_effort": "low"}),
        (("reasoning_effort",), ADAPTIVE, None, {}),
        (("reasoning_effort",), DISABLED, None, {"reasoning_effort": "low"}),
        (
            ("reasoning_effort", "enable_thinking"),
            DISABLED,
            None,
            {"chat_template_kwargs": {"enable_thinking": False}},
        ),
    ],
)
def test_thinking_in_the_words_of_the_models_template(
    words: tuple[str, ...] | None, thinking: Any, effort: str | None, expected: dict[str, Any]
) -> None:
    known = None if words is None else frozenset(words)
    config = {"output_config": {"effort": effort}} if effort else {}
    found = chat(words=known, thinking=thinking, max_tokens=50_000, **config)
    assert found == chat(max_tokens=50_000) | expected


def test_thinking_where_it_cannot_be() -> None:
    assert refused(InvalidRequest, thinking=ENABLED).startswith("max_tokens: ")
    forced = {"tools": [TOOL], "tool_choice": {"type": "any"}, "max_tokens": 9000}
    assert refused(InvalidRequest, thinking=ENABLED, **forced).startswith("thinking: ")


def test_structured_output() -> None:
    some = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
    for schema, strict in ((some, False), (some | {"required": ["a"]}, True)):
        asked = {"type": "json_schema", "schema": schema}
        expected = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": strict}}
        assert chat(output_config={"format": asked})["response_format"] == expected
        assert chat(output_format=asked)["response_format"] == expected
    assert refused(InvalidRequest, output_format=asked, output_config={"format": asked}).startswith("output_format: ")
    place = place_of("response_format.json_schema.schema.properties", [])
    assert place == "output_config.format.schema.properties"


def test_a_count_is_of_the_same_prompt() -> None:
    body = {"model": "m", "messages": [HELLO], "system": "Be kind.", "tools": [TOOL]}
    counted = translate_prompt(decode_body(PromptBody, msgspec.json.encode(body)), None)
    assert orjson.loads(counted.body) | {"max_tokens": 5} == chat(system="Be kind.", tools=[TOOL])


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (InvalidRequest("Invalid value for 'stop': bad.", param="stop"), "Invalid value for 'stop_sequences': bad."),
        (InvalidRequest("Too long.", param="user"), "metadata.user_id: Too long."),
        (InvalidRequest("Bad schema.", param="tools[2].function.parameters"), "tools.2.input_schema: Bad schema."),
        (InvalidRequest("It is no good.", param="messages[1].content"), "messages.0.content: It is no good."),
        (InvalidRequest("It is no good.", param="messages[0].content"), "system: It is no good."),
        (InvalidRequest("Nothing is."), "Nothing is."),
        (
            UnsupportedParameter("'messages[1].content[0]' has type 'image_url'.", param="messages[1].content[0].type"),
            "'messages.0.content' has type 'image'.",
        ),
        (
            InvalidRequest("'stop' and 'tools[0].function.name' differ.", param="stop"),
            "'stop_sequences' and 'tools.0.name' differ.",
        ),
    ],
)
def test_what_is_wrong_with_the_chat_is_told_in_this_apis_words(error: PenstockError, message: str) -> None:
    to_messages_error(error, translated(system="Be kind.").origins)
    assert error.message == message


def test_tools_of_the_provider_are_left_out_where_that_is_wanted() -> None:
    tools = [{"type": "web_search_20250305", "name": "web_search"}, TOOL]
    body = decode_body(
        MessagesBody, msgspec.json.encode({"model": "m", "max_tokens": 5, "messages": [HELLO], "tools": tools})
    )
    found = translate(body, None, drop=True).tools
    assert [tool["function"]["name"] for tool in found.fields["tools"]] == ["f"]
    assert (found.places, found.adjusted) == (("tools.1",), ("tools.0=web_search_20250305:ignored",))
    error = InvalidRequest("Bad schema.", param="tools[0].function.parameters")
    to_messages_error(error, [], found.places)
    assert error.message == "tools.1.input_schema: Bad schema."
    with pytest.raises(UnsupportedParameter, match=r"tools.0.type"):
        translate(body, None)


@pytest.mark.parametrize(
    ("choice", "others", "said"),
    [
        ({"type": "any"}, [], "tool_choice: None of the tools can be had here: web_search_20250305."),
        ({"type": "tool", "name": "web_search"}, [], "tool_choice: None of the tools can be had here: web_s"),
        ({"type": "tool", "name": "web_search"}, [TOOL], "tool_choice.name: The tool 'web_search' cannot be had here"),
    ],
)
def test_a_call_cannot_be_required_of_the_providers_tools(choice: dict[str, str], others: list[Any], said: str) -> None:
    tools = [{"type": "web_search_20250305", "name": "web_search"}, *others]
    plain = {"model": "m", "max_tokens": 5, "messages": [HELLO], "tools": tools, "tool_choice": choice}
    with pytest.raises(InvalidRequest, match=said):
        translate(decode_body(MessagesBody, msgspec.json.encode(plain)), None, drop=True)


_blocks = st.one_of(
    st.builds(text, st.text(max_size=5)),
    st.builds(use, st.sampled_from("abc")),
    st.builds(result, st.sampled_from("abc")),
    st.just({"type": "thinking", "thinking": "Hm.", "signature": ""}),
)
_messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant"]), "content": st.text(max_size=3) | st.lists(_blocks, max_size=4)}
    ),
    min_size=1,
    max_size=6,
)


@given(_messages)
def test_whatever_is_taken_makes_sense_as_a_chat(messages: list[Any]) -> None:
    try:
        found = translated(*messages)
    except InvalidRequest as error:
        assert error.param is not None
        return
    except UnsupportedParameter:
        assert messages[-1]["role"] == "assistant"
        return
    sent = orjson.loads(found.body)["messages"]
    assert len(sent) == len(found.origins)
    open_calls: set[str] = set()
    for before, message in zip([None, *sent], sent, strict=False):
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])
            continue
        assert not open_calls
        assert before is None or before["role"] != message["role"]
        open_calls = {call["id"] for call in message.get("tool_calls", ())}
    assert not open_calls
