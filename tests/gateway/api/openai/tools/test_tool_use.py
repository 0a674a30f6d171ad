"""What a request offers and asks for, where it is wrong, and what becomes of it at models of different abilities."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.api.openai.body_reading import read_body
from gateway.api.openai.chat import CHAT
from gateway.inference.generate_request import Chat, GenerateRequest
from gateway.text.parsing.delta import CallStart
from gateway.text.parsing.families.family_registry import output_format
from gateway.text.parsing.offered_tools import Tool, ToolChoice, ToolUse
from observability.record import RequestRecord
from protos.errors import InvalidRequest, PenstockError
from protos.types import Guide, GuideKind
from tests.gateway.api.openai.tools.offering import (
    CALLER,
    HELLO,
    SCHEMA,
    ChatFormat,
    Format,
    Parser,
    asked,
    model_of,
    read,
    tool,
)

NAMED = {"type": "function", "function": {"name": "find"}}
CUSTOM = {"type": "custom", "custom": {"name": "shell"}}


def allowed(*names: str, mode: str = "auto") -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


def use_of(request: GenerateRequest) -> ToolUse | None:
    """What the parser of its answers knows of tools."""
    assert request.parser is not None
    parser = request.parser("END")
    assert isinstance(parser, Parser)
    assert parser.prompt_end == "END"
    return parser.use


def shown(request: GenerateRequest) -> list[str]:
    assert isinstance(request.prompt, Chat)
    return [one["function"]["name"] for one in request.prompt.extras.get("tools", [])]


@pytest.mark.parametrize(
    ("fields", "names", "choice", "parallel"),
    [
        ({}, ["find", "now"], ToolChoice.AUTO, True),
        ({"tool_choice": "auto", "parallel_tool_calls": True}, ["find", "now"], ToolChoice.AUTO, True),
        ({"parallel_tool_calls": False}, ["find", "now"], ToolChoice.AUTO, False),
        ({"tool_choice": allowed("now")}, ["now"], ToolChoice.AUTO, True),
    ],
)
def test_tools_that_may_be_called(fields: dict[str, Any], names: list[str], choice: ToolChoice, parallel: bool) -> None:
    request = asked(tools=[tool(), tool("now", parameters=None, description="The time.")], **fields)
    assert shown(request) == names
    use = use_of(request)
    assert use is not None
    assert (use.choice, use.parallel) == (choice, parallel)
    assert use.tools[-1] == Tool("now", "The time.", None)
    assert (request.guide, request.foreign) == (None, None)


def test_tools_are_shown_as_templates_take_them() -> None:
    request = asked(tools=[tool(description="Finds.", strict=False), {"type": "function", "function": {"name": "n"}}])
    assert isinstance(request.prompt, Chat)
    assert request.prompt.extras["tools"] == [
        {"type": "function", "function": {"name": "find", "description": "Finds.", "parameters": SCHEMA}},
        {
            "type": "function",
            "function": {"name": "n", "description": "", "parameters": {"type": "object", "properties": {}}},
        },
    ]


@pytest.mark.parametrize("choice", ["required", allowed("find", mode="required")])
def test_a_call_that_is_required_is_guided(choice: Any) -> None:
    request = asked(tools=[tool()], tool_choice=choice)
    assert request.guide is not None
    assert (request.guide.kind, request.guide_param) == (GuideKind.JSON_SCHEMA, "tool_choice")
    assert orjson.loads(request.guide.text)["type"] == "array"
    assert shown(request) == ["find"]
    assert request.parser is not None
    parser = request.parser("")
    assert parser is not None
    found = parser.feed('[{"name":"find","arguments":{"city":"Rome"}}]')
    assert isinstance(found[0], CallStart)


def test_a_named_call_is_guided_by_its_arguments_alone() -> None:
    request = asked(tools=[tool(), tool("now")], tool_choice=NAMED)
    assert request.guide == Guide(
        GuideKind.JSON_SCHEMA, '{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}'
    )
    assert shown(request) == ["find", "now"]


def test_strict_tools_are_guided_where_the_family_can() -> None:
    strict = tool(strict=True, parameters=SCHEMA | {"additionalProperties": False})
    request = asked(model_of(Format(tag='{"x":1}')), tools=[strict])
    assert (request.guide, request.guide_param) == (Guide(GuideKind.STRUCTURAL_TAG, '{"x":1}'), "tools")
    refused = asked(model_of(Format()), tools=[strict])
    assert refused.foreign is not None
    assert refused.foreign.param == "tools"
    assert "'find'" in refused.foreign.message
    # A forced call conforms to its schema anyway.
    assert asked(model_of(Format()), tools=[strict], tool_choice="required").foreign is None


@pytest.mark.parametrize("output", [None, Format(calls=False), Format()])
def test_none_may_be_called(output: Format | None) -> None:
    for chat_format in (None, ChatFormat()):
        request = asked(model_of(output, chat_format), tools=[tool()], tool_choice="none")
        assert shown(request) == []
        assert (request.foreign, request.guide) == (None, None)
        assert request.parser is None if output is None else use_of(request) is None


@pytest.mark.parametrize("output", [None, Format(calls=False)])
@pytest.mark.parametrize("choice", [None, "auto", "required", NAMED])
def test_a_model_that_cannot_call_tools_leaves_them_to_upstreams(output: Format | None, choice: Any) -> None:
    request = asked(model_of(output), tools=[tool()], tool_choice=choice)
    assert request.foreign is not None
    assert (request.foreign.param, request.guide, request.parser) == ("tools", None, None)


def test_nor_can_one_whose_template_knows_none() -> None:
    foreign = asked(model_of(Format(), ChatFormat("enable_thinking")), tools=[tool()]).foreign
    assert foreign is not None
    assert foreign.param == "tools"


@pytest.mark.parametrize(
    "fields", [{}, {"tools": []}, {"tools": None}, {"tool_choice": "none"}, {"parallel_tool_calls": True}]
)
def test_nothing_is_offered(fields: dict[str, Any]) -> None:
    request = asked(**fields)
    assert shown(request) == []
    assert use_of(request) is None


def test_a_plain_chat_of_a_plain_model_needs_no_parser() -> None:
    assert asked(model_of()).parser is None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [CUSTOM]}, "tools[0].type"),
        ({"tools": [tool(), CUSTOM]}, "tools[1].type"),
        ({"tools": [CUSTOM], "tool_choice": {"type": "custom", "custom": {"name": "shell"}}}, "tools[0].type"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"tools": [tool()], "function_call": {"name": "f"}}, "function_call"),
    ],
)
def test_what_only_upstreams_know(fields: dict[str, Any], param: str) -> None:
    foreign = asked(**fields).foreign
    assert foreign is not None
    assert (foreign.param, foreign.code) == (param, "unsupported_parameter")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": 5}, "tools"),
        ({"tools": [5]}, "tools[0]"),
        ({"tools": [{}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"tools": [tool(), tool("a b")]}, "tools[1].function.name"),
        ({"tools": [tool("")]}, "tools[0].function.name"),
        ({"tools": [tool("x" * 129)]}, "tools[0].function.name"),
        ({"tools": [tool("x\n")]}, "tools[0].function.name"),
        ({"tools": [tool("é")]}, "tools[0].function.name"),
        ({"tools": [tool(), tool()]}, "tools[1].function.name"),
        ({"tools": [tool(parameters=[])]}, "tools[0].function.parameters"),
        ({"tools": [tool(parameters="{}")]}, "tools[0].function.parameters"),
        ({"tools": [tool(strict="yes")]}, "tools[0].function.strict"),
        ({"tools": [tool(temperature=1)]}, "tools[0].function.temperature"),
        ({"tools": [tool(str(i)) for i in range(129)]}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": NAMED, "tools": []}, "tool_choice"),
        ({"tool_choice": "sometimes", "tools": [tool()]}, "tool_choice"),
        ({"tool_choice": NAMED, "tools": [tool("other")]}, "tool_choice.function.name"),
        ({"tool_choice": {"type": "function"}, "tools": [tool()]}, "tool_choice.function"),
        ({"tool_choice": {"type": "allowed_tools"}, "tools": [tool()]}, "tool_choice.allowed_tools"),
        ({"tool_choice": allowed("a"), "tools": [tool()]}, "tool_choice.allowed_tools.tools[0].function.name"),
        ({"tool_choice": allowed(), "tools": [tool()]}, "tool_choice.allowed_tools.tools"),
        ({"parallel_tool_calls": "yes"}, "parallel_tool_calls"),
        # Bad input is bad input, whatever else is in the body.
        ({"tools": [CUSTOM, tool("find"), tool("find")]}, "tools[2].function.name"),
        ({"tools": [tool(), tool()], "functions": [{"name": "f"}]}, "tools[1].function.name"),
        ({"tool_choice": "required", "prediction": {}}, "tool_choice"),
    ],
)
@pytest.mark.parametrize("output", [None, Format()])
def test_what_is_wrong_is_named(fields: dict[str, Any], param: str, output: Format | None) -> None:
    with pytest.raises(InvalidRequest) as caught:
        asked(model_of(output), **fields)
    assert caught.value.param == param
    assert len(caught.value.message) < 1000


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "nonsense"},
        {"$ref": "#/$defs/missing"},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "enum": ["x"] * 100_000},
        {"type": "object", "properties": {"a": {"enum": []}}},
    ],
)
def test_schemas_that_are_none_are_refused_in_their_place(parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        asked(tools=[tool(), tool("b", parameters=parameters)])
    assert (caught.value.param or "").startswith("tools[1].function.parameters")


@pytest.mark.parametrize("choice", ["auto", "required", NAMED])
def test_numbers_beyond_all_bounds(choice: Any) -> None:
    strict = {"properties": {"a": {"type": "integer", "maximum": 0}}, "required": ["a"], "additionalProperties": False}
    tools = [tool(parameters={"type": "object"} | strict, strict=True)]
    body = orjson.dumps({"model": "m", "messages": HELLO, "tools": tools, "tool_choice": choice})
    body = body.replace(b'"maximum":0', b'"maximum":' + b"9" * 40)
    model = model_of()
    model.output = output_format("hermes", None)
    request = read_body(CHAT, body).request(CALLER, model, RequestRecord("id", "chat", 0.0, 0.0))
    assert request.guide is not None


def test_a_format_and_tools() -> None:
    json_object = {"response_format": {"type": "json_object"}, "tools": [tool()]}
    free = asked(model_of(Format(tag="x")), **json_object, parallel_tool_calls=False)
    assert (free.foreign, free.guide_param) == (None, "response_format")
    assert free.guide is not None
    assert free.guide.kind is GuideKind.STRUCTURAL_TAG
    asks_for = {"type": "json_schema", "json_schema": {"type": "object"}}
    assert orjson.loads(free.guide.text) == ["x", asks_for, False]
    # The guide holds from the first token, whatever the prompt has opened.
    assert free.parser is not None
    parser = free.parser("<think>")
    assert isinstance(parser, Parser)
    assert (parser.prompt_end, parser.use) == (None, ToolUse((Tool("find", None, SCHEMA),), parallel=False))
    # A model whose calls cannot be guided could not call.
    foreign = asked(**json_object).foreign
    assert foreign is not None
    assert foreign.param == "response_format"
    assert asked(**json_object, tool_choice="none").guide == Guide(GuideKind.JSON_OBJECT)
    # A forced call has no text that the format could be for.
    request = asked(**json_object, tool_choice="required")
    assert request.guide_param == "tool_choice"
    with pytest.raises(InvalidRequest) as caught:
        asked(tools=[tool()], tool_choice="required", guided_regex="x")
    assert caught.value.param == "guided_regex"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=10),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "function", "name", "parameters", "allowed_tools", "mode", "tools", "x"])
                | st.text(max_size=4),
                inner,
                max_size=4,
            )
        ),
        max_leaves=10,
    ),
    st.sampled_from(["tools", "tool_choice", "chat_template_kwargs", "documents", "reasoning_effort"]),
)
def test_any_value_is_taken_or_refused(value: Any, name: str) -> None:
    fields = {name: value} if name != "tool_choice" else {name: value, "tools": [tool()]}
    try:
        asked(**fields)
    except PenstockError as error:
        assert error.status == 400
        assert error.param is not None


def test_reading_knows_of_no_model() -> None:
    assert read(tools=[tool()]).foreign is None
