from typing import Any

import jsonschema_rs
import orjson
import pytest

from gateway.text.parsing.delta import CallArguments, CallStart
from gateway.text.parsing.forced import forced_parser, forced_schema
from gateway.text.parsing.offered_tools import Tool, ToolChoice, ToolUse
from tests.gateway.text.parsing.answers import USE, WEATHER, Answer, Call, answer

REQUIRED = ToolUse(USE.tools, ToolChoice.REQUIRED)
ONE = ToolUse(USE.tools, ToolChoice.REQUIRED, parallel=False)
NAMED = ToolUse(USE.tools, ToolChoice.NAMED, "get_weather")
TREE = Tool(
    "plant",
    None,
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "root": {"$ref": "#/$defs/node"},
            "copy": {"$ref": "#/properties/label"},
            "label": {"type": "string", "default": {"$ref": "#/$defs/none"}},
            "default": {"$ref": "#/definitions/a~1b"},
            "again": {"$ref": "#"},
        },
        "required": ["root"],
        "additionalProperties": False,
        "$defs": {
            "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "size": {"type": "integer"}}}
        },
        "definitions": {"a/b": {"enum": [1, 2]}},
    },
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[{"name": "get_weather", "arguments": {"city": "Paris"}},\n {"name": "time_now", "parameters": {}}]',
            Answer(calls=(Call("get_weather", '{"city": "Paris"}'), Call("time_now", "{}"))),
        ),
        ('{"name":"time_now","arguments":{}}', Answer(calls=(Call("time_now", "{}"),))),
        ('[{"name": "search", "arguments": {"query": "a', Answer(calls=(Call("search", '{"query": "a'),))),
        ('[{"name": "rm", "arguments": {}}]', Answer('[{"name": "rm", "arguments": {}}]')),
        ("I must not.\0", Answer("I must not.\0")),
        ("[]", Answer("[]")),
        ("", Answer()),
    ],
)
def test_required_calls(text: str, expected: Answer) -> None:
    for pieces in ([text], list(text)):
        assert answer(forced_parser(REQUIRED), *pieces) == expected


def test_one_required_call() -> None:
    call = '{"name": "time_now", "arguments": {}}'
    assert answer(forced_parser(ONE), f"[{call}, {call}]") == Answer(calls=(Call("time_now", "{}"),))


def test_required_calls_stream() -> None:
    parser = forced_parser(REQUIRED)
    (start,) = parser.feed('[{"name": "search"')
    assert isinstance(start, CallStart)
    assert parser.feed(', "arguments": {"que') == [CallArguments(0, '{"que')]
    assert parser.feed("ry") == [CallArguments(0, "ry")]


def test_a_named_call_is_all_arguments() -> None:
    assert answer(forced_parser(NAMED), '{"city": ', "", '"Paris"}') == Answer(
        calls=(Call("get_weather", '{"city": "Paris"}'),)
    )
    assert answer(forced_parser(NAMED)) == Answer()
    assert answer(forced_parser(NAMED), "") == Answer()


def test_the_named_tools_schema_is_its_own() -> None:
    assert forced_schema(NAMED) is WEATHER.parameters
    schema = forced_schema(ToolUse(USE.tools, ToolChoice.NAMED, "time_now"))
    assert jsonschema_rs.is_valid(schema, {})
    assert not jsonschema_rs.is_valid(schema, {"x": 1})


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        ([{"name": "get_weather", "arguments": {"city": "Paris"}}], True),
        ([{"name": "time_now", "arguments": {}}, {"name": "get_weather", "arguments": {"city": "Paris"}}], True),
        ([], False),
        ([{"name": "get_weather", "arguments": {}}], False),
        ([{"name": "time_now", "arguments": {"city": "Paris"}}], False),
        ([{"name": "rm", "arguments": {}}], False),
        ([{"name": "time_now"}], False),
        ({"name": "time_now", "arguments": {}}, False),
    ],
)
def test_the_schema_of_required_calls(value: Any, valid: bool) -> None:
    assert jsonschema_rs.is_valid(forced_schema(REQUIRED), value) is valid


def test_one_call_at_most() -> None:
    call = {"name": "time_now", "arguments": {}}
    assert jsonschema_rs.is_valid(forced_schema(ONE), [call])
    assert not jsonschema_rs.is_valid(forced_schema(ONE), [call, call])


@pytest.mark.parametrize(
    ("arguments", "valid"),
    [
        ({"root": {"next": {"next": {"size": 1}}}}, True),
        ({"root": {"next": {"next": {"size": "1"}}}}, False),
        ({"root": {}, "copy": "x", "default": 2}, True),
        ({"root": {}, "copy": 5}, False),
        ({"root": {}, "default": 3}, False),
        ({"root": {}, "again": {"root": {}, "again": {"root": {}}}}, True),
        ({"root": {}, "again": {"root": {}, "again": {}}}, False),
    ],
)
def test_references_follow_their_definitions(arguments: Any, valid: bool) -> None:
    other = Tool("other", None, {"type": "object", "$defs": {"node": {"type": "string"}}})
    schema = forced_schema(ToolUse((other, TREE), ToolChoice.REQUIRED))
    jsonschema_rs.meta.validate(schema)
    assert jsonschema_rs.is_valid(schema, [{"name": "plant", "arguments": arguments}]) is valid


def test_data_in_a_schema_is_left_alone() -> None:
    schema = forced_schema(ToolUse((TREE,), ToolChoice.REQUIRED))
    properties = schema["items"]["anyOf"][0]["properties"]["arguments"]["properties"]
    assert properties["label"]["default"] == {"$ref": "#/$defs/none"}
    assert set(schema["$defs"]) == {"plant.node", "plant.a/b"}
    assert orjson.loads(orjson.dumps(TREE.parameters)) == TREE.parameters


def test_the_engines_grammar_takes_the_schema() -> None:
    llguidance = pytest.importorskip("llguidance")
    for use in (REQUIRED, ONE, NAMED, ToolUse((*USE.tools, TREE), ToolChoice.REQUIRED)):
        grammar = llguidance.LLMatcher.grammar_from_json_schema(orjson.dumps(forced_schema(use)).decode())
        failed, messages = llguidance.LLMatcher.validate_grammar_with_warnings(grammar)
        assert not failed, messages


def test_an_answer_that_is_cut_before_its_name_has_no_text() -> None:
    for text in ("[", '[{"na', '[{"name":"f'):
        assert answer(forced_parser(REQUIRED), text) == Answer()


@pytest.mark.parametrize("parameters", [None, {}, {"properties": {"a": {"type": "string"}}}])
def test_arguments_are_an_object_whatever_the_schema_leaves_out(parameters: dict[str, Any] | None) -> None:
    assert forced_schema(ToolUse((Tool("f", None, parameters),), ToolChoice.NAMED, "f"))["type"] == "object"
