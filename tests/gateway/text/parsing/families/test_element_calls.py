import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.parsing.delta import CallArguments, CallStart, Text
from gateway.text.parsing.families.element_calls import (
    DEEPSEEK_V32,
    MINIMAX_M2,
    QWEN3_CODER,
    ElementForm,
    format_of,
    learned_elements,
)
from gateway.text.parsing.offered_tools import Tool, ToolUse
from gateway.text.parsing.tool_format import ToolFormat
from tests.gateway.text.parsing.answers import SINGLE, USE, Answer, Call, answer, fed, joined

SEED = format_of(
    ElementForm("<s:calls>", "</s:calls>", "<function=", "</function>", "<parameter=", "</parameter>", padded=False)
)
FORMATS = {"qwen3_coder": QWEN3_CODER, "minimax_m2": MINIMAX_M2, "deepseek_v32": DEEPSEEK_V32, "learned": SEED}


def qwen(*calls: str) -> str:
    return "".join(f"<tool_call>\n{call}\n</tool_call>\n" for call in calls)


def function(name: str, **values: str) -> str:
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
    return f"<function={name}>\n{parameters}</function>"


def written(name: str) -> str:
    """Two calls as the family writes them, in one section."""
    if name == "qwen3_coder":
        return qwen(function("get_weather", city="San Francisco", days="3"), function("time_now"))
    if name == "learned":
        return (
            "<s:calls>\n<function=get_weather>\n<parameter=city>San Francisco</parameter>\n"
            "<parameter=days>3</parameter>\n</function>\n<function=time_now>\n</function>\n</s:calls>"
        )
    mark, section = ("", "minimax:tool_call") if name == "minimax_m2" else ("｜DSML｜", "｜DSML｜function_calls")
    said = ("", "") if name == "minimax_m2" else (' string="true"', ' string="false"')
    return (
        f'<{section}>\n<{mark}invoke name="get_weather">\n'
        f'<{mark}parameter name="city"{said[0]}>San Francisco</{mark}parameter>\n'
        f'<{mark}parameter name="days"{said[1]}>3</{mark}parameter>\n</{mark}invoke>\n'
        f'<{mark}invoke name="time_now">\n</{mark}invoke>\n</{section}>'
    )


WEATHER = Call("get_weather", '{"city": "San Francisco", "days": 3}')
CLOCK = Call("time_now", "{}")


def parsed(*pieces: str, use: ToolUse = USE, form: ToolFormat = QWEN3_CODER) -> Answer:
    return answer(form.new_parser(use), *pieces)


@pytest.mark.parametrize("name", FORMATS)
def test_as_models_write_them(name: str) -> None:
    text = f"I look.\n{written(name)}\nSo."
    for pieces in ([text], list(text)):
        assert parsed(*pieces, form=FORMATS[name]) == Answer("I look.\nSo.", "", (WEATHER, CLOCK))
        assert parsed(*pieces, form=FORMATS[name], use=SINGLE) == Answer("I look.\nSo.", "", (WEATHER,))


@pytest.mark.parametrize("name", FORMATS)
def test_every_cut_gives_the_same(name: str) -> None:
    text = f"a <b {written(name)} c"
    whole = joined(fed(FORMATS[name].new_parser(USE), [text]))
    for at in range(1, len(text)):
        assert joined(fed(FORMATS[name].new_parser(USE), [text[:at], text[at:]])) == whole


@pytest.mark.parametrize("name", FORMATS)
def test_every_start_keeps_what_was_said(name: str) -> None:
    text = written(name)
    for at in range(len(text)):
        got = parsed(text[:at], form=FORMATS[name])
        assert got == parsed(*text[:at], form=FORMATS[name])
        if got.calls:
            assert WEATHER.arguments.startswith(got.calls[0].arguments)
        # A further call that is cut before its name is given back.
        assert text[:at].endswith(got.text)
        assert got.calls or got.text == text[:at]


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "string"}, '"quoted"\n\\ é </paramete', '"quoted"\n\\ é </paramete'),
        ({"type": "string"}, " 5 ", " 5 "),
        ({"type": "string"}, "", ""),
        ({"type": "string"}, "\n", "\n"),
        ({"type": "string"}, "\n\na\n\n", "\n\na\n\n"),
        ({"type": "string"}, "</function>\n</tool_call>", "</function>\n</tool_call>"),
        ({"type": "integer"}, "5", 5),
        ({"type": "integer"}, "five", "five"),
        ({"type": "boolean"}, "True", True),
        ({"type": ["boolean", "null"]}, "None", None),
        ({"type": "object"}, '{"a": [1, null]}', {"a": [1, None]}),
        ({"type": "object"}, "{'a': [True, None]}", {"a": [True, None]}),
        ({"type": "array"}, '[\n  "<b>"\n]', ["<b>"]),
        ({"type": ["string", "null"]}, "null", None),
        ({"type": ["string", "null"]}, "5", "5"),
        ({"type": ["string", "number"]}, "5", 5),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({}, "NaN", "NaN"),
        ({}, "two words", "two words"),
        ({}, "", ""),
        (None, "[1]", [1]),
    ],
)
def test_values_are_as_the_schema_has_them(schema: Any, value: str, expected: Any) -> None:
    properties = {} if schema is None else {"x": schema}
    use = ToolUse((Tool("f", None, {"type": "object", "properties": properties}),))
    text = qwen(function("f", x=value))
    for pieces in ([text], list(text)):
        (call,) = parsed(*pieces, use=use).calls
        assert json.loads(call.arguments) == {"x": expected}


@pytest.mark.parametrize("text", ["<parameter=city></parameter>", "<parameter=city>\n</parameter>"])
def test_an_empty_value_on_one_line(text: str) -> None:
    for pieces in ([text], list(text)):
        got = parsed("<function=get_weather>", *pieces, "</function>")
        assert got.calls == (Call("get_weather", '{"city": ""}'),)


@given(st.text(alphabet='\n</parmet>=a "\\', max_size=20), st.integers(1, 5))
def test_any_string_comes_back(value: str, size: int) -> None:
    value = value.replace("</parameter>", "")
    text = qwen(function("search", query=value))
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert [json.loads(call.arguments) for call in parsed(*pieces).calls] == [{"query": value}]


def test_a_tag_says_what_the_schema_does_not() -> None:
    for said, expected in (("true", "5"), ("false", 5)):
        text = (
            f'<｜DSML｜invoke name="time_now"><｜DSML｜parameter name="x" string="{said}">5</｜DSML｜parameter>'
            "</｜DSML｜invoke>"
        )
        (call,) = parsed(*text, form=DEEPSEEK_V32).calls
        assert json.loads(call.arguments) == {"x": expected}


def test_strings_are_streamed() -> None:
    parser = QWEN3_CODER.new_parser(USE)
    assert [type(delta) for delta in parser.feed("<function=search>\n<parameter=query>\n")] == [
        CallStart,
        CallArguments,
    ]
    assert parser.flow() == CallArguments(0, "")
    assert parser.feed("one") == [CallArguments(0, "one")]
    assert parser.feed("\n") == []
    assert parser.flow() is None
    assert parser.feed("two") == [CallArguments(0, "\\ntwo")]
    assert parser.feed("\n</parameter>\n</function>") == [CallArguments(0, '"'), CallArguments(0, "}")]
    assert parser.flow() is None
    assert parser.feed("Text") == [Text("Text")]
    assert parser.flow() == Text("")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Sections and closing tags that are missing.
        (function("time_now"), Answer(calls=(CLOCK,))),
        (f"<tool_call>{function('time_now')}", Answer(calls=(CLOCK,))),
        (f"{function('time_now')} So.", Answer("So.", "", (CLOCK,))),
        ("<function=time_now></tool_call>So.", Answer("So.", "", (CLOCK,))),
        (
            "<function=search><parameter=query>x</parameter><function=time_now>",
            Answer(calls=(Call("search", '{"query": "x"}'), Call("time_now", ""))),
        ),
        # Several calls in a section.
        (
            f"<tool_call>{function('time_now')}{function('time_now')}</tool_call>",
            Answer(calls=(CLOCK, CLOCK)),
        ),
        # An answer that breaks off.
        ("<function=search>\n<parameter=query>\na b", Answer(calls=(Call("search", '{"query": "a b'),))),
        ("<function=get_weather>\n<parameter=days>\n12", Answer(calls=(Call("get_weather", ""),))),
        ("<function=search>\n<parameter=que", Answer(calls=(Call("search", ""),))),
        ("<function=search>\n<para", Answer(calls=(Call("search", ""),))),
    ],
)
def test_calls_that_are_not_whole(text: str, expected: Answer) -> None:
    for pieces in ([text], list(text)):
        assert parsed(*pieces) == expected


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>",
        "<tool_call>\n</tool_call>",
        "<tool_call>\ntext",
        qwen(function("rm", path="/")),
        "<function=",
        "<function=time_now",
        f"<function={'x' * 600}>",
        "<function=time_now\n>",
        "a < b <func",
    ],
)
def test_what_is_no_call_is_text(text: str) -> None:
    for pieces in ([text], list(text)):
        assert parsed(*pieces) == Answer(text)


def test_one_of_several_calls_is_of_no_offered_tool() -> None:
    other = function("rm", path="/")
    text = f"<tool_call>\n{function('time_now')}\n{other}\n{function('time_now')}\n</tool_call>"
    for pieces in ([text], list(text)):
        assert parsed(*pieces) == Answer(f"{other}\n", "", (CLOCK, CLOCK))


def test_a_key_without_an_end_is_bounded() -> None:
    got = parsed("<function=search><parameter=", *("k" * 600))
    assert got.calls[0].arguments.startswith('{"kkk') or got.calls[0].arguments == ""


@pytest.mark.parametrize(
    ("written", "marks"),
    [
        (
            '<c:calls>\n<c:do name="probe_call">\n<c:with name="probe_key">probe value</c:with>\n'
            '<c:with name="probe_flag">true</c:with>\n</c:do>\n</c:calls><end>',
            {"<c:calls>", "</c:calls>"},
        ),
        (
            "<call=probe_call>\n<arg=probe_key>\nprobe value\n</arg>\n<arg=probe_flag>\nTrue\n</arg>\n</call><end>",
            set[str](),
        ),
    ],
)
def test_tags_are_learned(written: str, marks: set[str]) -> None:
    found = learned_elements(written)
    assert found is not None
    assert found.marks == marks
    use = ToolUse((Tool("probe_call"),))
    for pieces in ([written], list(written)):
        got = answer(found.new_parser(use), *pieces)
        assert got.text == "<end>"
        assert [json.loads(call.arguments) for call in got.calls] == [{"probe_key": "probe value", "probe_flag": True}]


def test_there_are_no_tags_to_learn() -> None:
    for written in ("", "probe_call(probe_key='probe value')", '<tool_call>{"name": "probe_call"}</tool_call>'):
        assert learned_elements(written) is None
