import json
from typing import Any

import pytest

from gateway.text.parsing.families.family_registry import output_format, recognised
from gateway.text.parsing.offered_tools import Tool, ToolUse
from gateway.text.parsing.schema_types import types_of
from tests.gateway.text.parsing.answers import USE, Answer, Call, answer


def parsed(*pieces: str, use: ToolUse = USE) -> Answer:
    form = output_format("glm45", "think")
    assert form is not None
    parser = form.parser(use, "")
    assert parser is not None
    return answer(parser, *pieces)


def pair(key: str, value: str) -> str:
    return f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n"


def test_as_glm_writes_it() -> None:
    text = (
        "\n<think>Two cities.</think>\nI look.\n"
        f"<tool_call>get_weather\n{pair('city', 'San Francisco')}{pair('days', '3')}</tool_call>\n"
        f"<tool_call>get_weather{pair('city', '5').replace(chr(10), '')}</tool_call>"
    )
    for pieces in ([text], list(text)):
        assert parsed(*pieces) == Answer(
            "I look.\n",
            "Two cities.",
            (Call("get_weather", '{"city": "San Francisco", "days": 3}'), Call("get_weather", '{"city": "5"}')),
        )


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "string"}, '"quoted"\n\\ é </arg_valu', '"quoted"\n\\ é </arg_valu'),
        ({"type": "string"}, " 5 ", " 5 "),
        ({"type": "integer"}, " 5 ", 5),
        ({"type": "integer"}, "five", "five"),
        ({"type": "object"}, '{"a": [1, null]}', {"a": [1, None]}),
        ({"type": ["string", "null"]}, "null", None),
        ({"type": ["string", "null"]}, "5", "5"),
        ({"type": ["string", "number"]}, "5", 5),
        ({"type": ["string", "null"]}, "[" * 5000, "[" * 5000),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"enum": ["1", 2]}, "2", 2),
        ({"const": "1"}, "1", "1"),
        ({"anyOf": [{"type": "string"}, {"const": "2"}]}, "true", "true"),
        ({"anyOf": [{"type": "string"}, {"type": "boolean"}]}, "true", True),
        ({"anyOf": [{"type": "string"}, True]}, "true", True),
        ({"$ref": "#/$defs/word"}, "true", "true"),
        ({"$ref": "#/$defs/none"}, "true", True),
        ({"$ref": "#/$defs/self"}, "true", True),
        ({}, "NaN", "NaN"),
        (None, "[1]", [1]),
        (5, "x", "x"),
    ],
)
def test_values_are_as_the_schema_has_them(schema: Any, value: str, expected: Any) -> None:
    properties = {} if schema is None else {"x": schema}
    both = {"$ref": "#/$defs/self"}
    definitions = {"word": {"type": "string"}, "self": {"anyOf": [both, both, both]}}
    use = ToolUse((Tool("f", None, {"type": "object", "properties": properties, "$defs": definitions}),))
    text = f"<tool_call>f\n{pair('x', value)}</tool_call>"
    for pieces in ([text], list(text)):
        (call,) = parsed(*pieces, use=use).calls
        assert json.loads(call.arguments) == {"x": expected}


def test_types_of_odd_schemas() -> None:
    odd: list[dict[str, Any]] = [{"properties": []}, {"properties": {"x": {"$ref": "#/properties/y"}}}, {}]
    for parameters in odd:
        assert types_of(parameters, "x") is None
    assert types_of(None, "x") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<tool_call>time_now</tool_call>", Answer(calls=(Call("time_now", "{}"),))),
        (f"<tool_call>time_now {pair('x', '{}')}</tool_call>", Answer(calls=(Call("time_now", '{"x": {}}'),))),
        (f"<tool_call>search\n{pair('query', 'x')} So.", Answer("So.", "", (Call("search", '{"query": "x"}'),))),
        ("<tool_call>search\n<arg_key>query</arg_key> x", Answer("x", "", (Call("search", "{}"),))),
        (
            "<tool_call>search\n<arg_key>query</arg_key><arg_value>a b",
            Answer("", "", (Call("search", '{"query": "a b'),)),
        ),
        ("<tool_call>get_weather\n<arg_key>days</arg_key><arg_value>12", Answer("", "", (Call("get_weather", ""),))),
        ("<tool_call>search\n<arg_key>que", Answer("", "", (Call("search", ""),))),
    ],
)
def test_what_is_left_of_calls_that_break_off(text: str, expected: Answer) -> None:
    for pieces in ([text], list(text)):
        assert parsed(*pieces) == expected


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>",
        "<tool_call>\n</tool_call>",
        "<tool_call>rm\n</tool_call>",
        '<tool_call>{"name": "search"}</tool_call>',
    ],
)
def test_broken_calls_are_text(text: str) -> None:
    for pieces in ([text], list(text)):
        assert parsed(*pieces) == Answer(text)


SAMPLE = (
    "<calls:x>\n<call:x>probe_call<sep:x>\n<k:x>probe_key</k:x>\n<v:x>probe value</v:x>\n"
    "<k:x>probe_flag</k:x>\n<v:x>true</v:x>\n</call:x>\n</calls:x><|end|>"
)
SECTION = (
    "<calls:x>\n<call:x>get_weather<sep:x>\n<k:x>city</k:x>\n<v:x>Paris</v:x>\n<k:x>days</k:x>\n<v:x>3</v:x>\n</call:x>\n"
    "<call:x>time_now<sep:x>\n</call:x>\n</calls:x>"
)
CALLED = (Call("get_weather", '{"city": "Paris", "days": 3}'), Call("time_now", "{}"))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (f"See.\n{SECTION}\nSo.", Answer("See.\nSo.", "", CALLED)),
        (SECTION.removeprefix("<calls:x>\n"), Answer(calls=CALLED)),
        (SECTION.removesuffix("\n</calls:x>"), Answer(calls=CALLED)),
        (f"<think:opensource>Hm.</think:opensource>{SECTION}", Answer("", "Hm.", CALLED)),
        ("<calls:x>No.", Answer("<calls:x>No.")),
        ("<calls:x><call:x>erase_all<sep:x>", Answer("<calls:x><call:x>erase_all<sep:x>")),
    ],
)
def test_other_tags_are_learned(said: str, expected: Answer) -> None:
    found = recognised("{% set open = '<think{}>'.format(suffix) %}{{ calls }}", (), SAMPLE)
    assert found[:2] == ("learned", "hy3")
    form = output_format(*found)
    assert form is not None
    for pieces in ([said], list(said)):
        parser = form.parser(USE, "")
        assert parser is not None
        assert answer(parser, *pieces) == expected


@pytest.mark.parametrize(
    "written", ["", SAMPLE.replace("true", "false"), SAMPLE.replace("probe_call", "other"), SAMPLE.replace("<v:x>", "")]
)
def test_other_forms_are_not_learned(written: str) -> None:
    assert recognised("{{ calls }}", (), written).tools is None
