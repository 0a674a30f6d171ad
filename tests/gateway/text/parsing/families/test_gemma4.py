import json
from typing import Any

import pytest

from gateway.text.parsing.delta import CallArguments
from gateway.text.parsing.families.family_registry import output_format, recognised
from gateway.text.parsing.families.gemma4 import FORMAT
from tests.gateway.text.parsing.answers import SINGLE, USE, Answer, Call, answer, fed, joined

CITY = '<|tool_call>call:get_weather{city:<|"|>San {Francisco}, 1<|"|>,days:3}<tool_call|>'
CLOCK = "<|tool_call>call:time_now{}<tool_call|>"
CALLS = (Call("get_weather", '{"city": "San {Francisco}, 1", "days": 3}'), Call("time_now", "{}"))


def test_as_gemma_writes_it() -> None:
    text = f"<|channel>thought\nTwo.\n<channel|>See. {CITY}{CLOCK}\nSo."
    form = output_format("gemma4", "gemma4")
    assert form is not None
    for pieces in ([text], list(text)):
        parser = form.parser(USE, "")
        assert parser is not None
        assert answer(parser, *pieces) == Answer("See. So.", "Two.\n", CALLS)
        assert answer(FORMAT.new_parser(SINGLE), CITY, CLOCK).calls == CALLS[:1]
    whole = joined(fed(FORMAT.new_parser(USE), [CITY + CLOCK]))
    for at in range(1, len(CITY)):
        assert joined(fed(FORMAT.new_parser(USE), [CITY[:at], CITY[at:] + CLOCK])) == whole


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('<|"|><|"|>', ""),
        ('<|"|>"a"\n\\ }<tool_call|> <|"<|"|>', '"a"\n\\ }<tool_call|> <|"'),
        ("true", True),
        ("null", None),
        ("-1.5e3", -1500.0),
        ("{}", {}),
        ('{a:{b-c:[1,<|"|>x:y, {<|"|>]},d:false}', {"a": {"b-c": [1, "x:y, {"]}, "d": False}),
        ('{<|"|>a b<|"|>:1}', {"a b": 1}),
        ('{"a":1}', {"a": 1}),
        ("[[],[1, 2]]", [[], [1, 2]]),
        ("Paris", "Paris"),
        ("", ""),
    ],
)
def test_values(value: str, expected: Any) -> None:
    text = f'<|tool_call>call:search{{x:{value},<|"|>y z<|"|>:1}}<tool_call|>'
    for pieces in ([text], list(text)):
        (call,) = answer(FORMAT.new_parser(USE), *pieces).calls
        assert json.loads(call.arguments) == {"x": expected, "y z": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<|tool_call>call:time_now{} So.", Answer("So.", "", CALLS[1:])),
        ("<|tool_call>call:time_now{", Answer(calls=(Call("time_now", ""),))),
        ('<|tool_call>call:search{query:<|"|>a b', Answer(calls=(Call("search", '{"query": "a b'),))),
        ("<|tool_call>call:search{n:12", Answer(calls=(Call("search", ""),))),
        ("<|tool_call>call:search{n:12<tool_call|>", Answer(calls=(Call("search", '{"n": 12}'),))),
    ],
)
def test_calls_that_are_not_whole(text: str, expected: Answer) -> None:
    for pieces in ([text], list(text)):
        assert answer(FORMAT.new_parser(USE), *pieces) == expected


@pytest.mark.parametrize(
    "text",
    ["<|tool_call>", "<|tool_call>call:", "<|tool_call>call:rm{}<tool_call|>", "<|tool_call>time_now{}", "<|tool_ca"],
)
def test_what_is_no_call_is_text(text: str) -> None:
    for pieces in ([text], list(text)):
        assert answer(FORMAT.new_parser(USE), *pieces) == Answer(text)


def test_strings_are_streamed() -> None:
    parser = FORMAT.new_parser(USE)
    parser.feed('<|tool_call>call:search{query:<|"|>')
    assert parser.flow() == CallArguments(0, "")
    assert parser.feed('a"') == [CallArguments(0, 'a\\"')]


def test_it_is_recognised() -> None:
    source = "{{ '<|tool_call>call:' + name }}{{ '<|channel>thought' }}"
    written = '<|tool_call>call:probe_call{probe_flag:true,probe_key:<|"|>probe value<|"|>}<tool_call|><turn|>'
    assert recognised(source, (), written)[:2] == ("gemma4", "gemma4")
    assert recognised("", (), written).tools == "gemma4"
