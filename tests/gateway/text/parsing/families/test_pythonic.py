import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.parsing.families.family_registry import output_format, recognised
from gateway.text.parsing.parser import OutputParser
from gateway.text.parsing.python_literal import json_of
from tests.gateway.text.parsing.answers import USE, Answer, Call, answer


def parser() -> OutputParser:
    form = output_format("pythonic", None)
    assert form is not None
    made = form.parser(USE, "")
    assert made is not None
    return made


CLOCK = Call("time_now", "{}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[get_weather(city='San Francisco', days=3), time_now()]",
            Answer(calls=(Call("get_weather", '{"city": "San Francisco", "days": 3}'), CLOCK)),
        ),
        ('\n[ search ( query = "a, (b] \\" c" , ) ]\n', Answer(calls=(Call("search", '{"query": "a, (b] \\" c"}'),))),
        (
            "[get_weather(city='é', options={'x': [1, 2.5, None, True], 'y': ('a',)})]",
            Answer(calls=(Call("get_weather", '{"city": "é", "options": {"x": [1, 2.5, null, true], "y": ["a"]}}'),)),
        ),
        ("<|python_start|>[time_now()]<|python_end|>", Answer(calls=(CLOCK,))),
        ("Wait. <|python_start|>[time_now()]<|python_end|> So.", Answer("Wait. So.", "", (CLOCK,))),
        (
            "[get_weather(city=San Francisco, CA)]",
            Answer("CA)]", "", (Call("get_weather", '{"city": "San Francisco"}'),)),
        ),
        ("[time_now(), time_now(1)]", Answer(", time_now(1)]", "", (CLOCK,))),
        ("[time_now(), time_n", Answer(", time_n", "", (CLOCK,))),
        ("[get_weather(city='Paris', days=", Answer(calls=(Call("get_weather", '{"city": "Paris"'),))),
        (
            "[get_weather(city='Paris' days=3)] yes",
            Answer("yes", "", (Call("get_weather", '{"city": "\'Paris\' days=3"}'),)),
        ),
        ("[get_weather(city=Paris, 3)]", Answer("3)]", "", (Call("get_weather", '{"city": "Paris"}'),))),
    ],
)
def test_calls(text: str, expected: Answer) -> None:
    for pieces in ([text], list(text)):
        assert answer(parser(), *pieces) == expected


@pytest.mark.parametrize(
    "text",
    ["[]", "[1, 2]", "[time_now]", "[time_now(5)]", "[rm(path='/')]", "[text](url)", "Call [time_now()]", "[time_now("],
)
def test_other_lists_are_text(text: str) -> None:
    for pieces in ([text], list(text)):
        assert answer(parser(), *pieces) == Answer(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a\\n\\t\\x41\\u00e9\\101\\'\\\"\\q'", "a\n\tAéA'\"\\q"),
        ("'\\ud83d\\ude00'", "😀"),
        ("'\\ud83d'", "�"),
        ("'\\U00110000'", "�"),
        ("{1: 'a', None: 2, 'b': {}}", {"1": "a", "null": 2, "b": {}}),
        ("[ ]", []),
        ("(1, )", [1]),
        ("-1_000", -1000),
        ("1e3", 1000.0),
        ("1e999", "1e999"),
        ("1__0", 10),
        ("1_.5", "1_.5"),
        ("007", 7),
        ("Paris", "Paris"),
        ("f(x)", "f(x)"),
        ("[1 2]", "[1 2]"),
        ("[1", "[1"),
        ("{[1]: 2}", "{[1]: 2}"),
        ("", ""),
        ("'a' 'b'", "'a' 'b'"),
        ("[" * 1000 + "]" * 1000, "[" * 1000 + "]" * 1000),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_literals(text: str, value: Any) -> None:
    assert json.loads(json_of(text)) == value


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(VALUES)
def test_what_python_writes_comes_back(value: Any) -> None:
    assert json.loads(json_of(repr(value))) == value


@given(st.text(alphabet="[]{}(),:'\"\\ a1-.eTrue", max_size=30))
def test_any_text_is_some_json(text: str) -> None:
    json.loads(json_of(text))


def test_the_marks_of_lfm2() -> None:
    text = "See. <|tool_call_start|>[search(query='x'), time_now()]<|tool_call_end|> So."
    form = output_format("lfm2", None)
    assert form is not None
    for pieces in ([text], list(text)):
        made = form.parser(USE, "")
        assert made is not None
        assert answer(made, *pieces) == Answer("See. So.", "", (Call("search", '{"query": "x"}'), CLOCK))
    written = "<|tool_call_start|>[probe_call(probe_key='probe value', probe_flag=True)]<|tool_call_end|>"
    assert recognised("<|tool_list_start|>", ()).tools == recognised("", (), written).tools == "lfm2"
