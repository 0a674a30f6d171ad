import json
from typing import Any

import pytest

from gateway.text.parsing.families.family_registry import output_format, recognised
from gateway.text.parsing.families.nested_elements import FORMAT, MARK
from tests.gateway.text.parsing.answers import USE, Answer, Call, answer

WRITTEN = (
    f'</mm:think>{MARK}<tool_call>\n{MARK}<invoke name="probe_call">{MARK}<probe_key>probe value{MARK}</probe_key>'
    f"{MARK}<probe_flag>true{MARK}</probe_flag>{MARK}</invoke>\n{MARK}</tool_call>[end]\n"
)


def call(arguments: str, name: str = "get_weather") -> str:
    return f'~<tool_call>\n~<invoke name="{name}">{arguments}~</invoke>\n~</tool_call>'.replace("~", MARK)


def read(arguments: str, name: str = "get_weather") -> Any:
    text = call(arguments, name)
    whole = answer(FORMAT.new_parser(USE), text)
    assert answer(FORMAT.new_parser(USE), *text) == whole
    assert whole.text == ""
    return json.loads(whole.calls[0].arguments)


def test_it_is_recognised_by_its_call() -> None:
    found = recognised("{{ '<mm:think>' ~ thought ~ '</mm:think>' }}{{ call }}", (), WRITTEN)
    assert found == ("minimax_m3", "minimax_m3", None)
    assert recognised(f"{{% set mark = '{MARK}' %}}", ()).tools == "minimax_m3"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("~<city>Paris~</city>~<days>3~</days>", {"city": "Paris", "days": 3}),
        # The schema says what is a string.
        ("~<city>3~</city>", {"city": "3"}),
        ("~<city>a <b> </city> 'c'\n~</city>", {"city": "a <b> </city> 'c'\n"}),
        ("~<options>~<x>1~</x>~<y>no~</y>~</options>", {"options": {"x": 1, "y": "no"}}),
        (
            "~<options>~<x>~<item>1~</item>~<item>~<z>true~</z>~</item>~</x>~</options>",
            {"options": {"x": [1, {"z": True}]}},
        ),
        # An element within one of its own name.
        (
            "~<options>~<options>~<options>2~</options>~</options>~<x>1~</x>~</options>~<days>1~</days>",
            {"options": {"options": {"options": 2}, "x": 1}, "days": 1},
        ),
        ("~<more>7~</more>~<other>x y~</other>", {"more": 7, "other": "x y"}),
        ("\n~<city>Paris~</city>\n", {"city": "Paris"}),
        ("", {}),
    ],
)
def test_values(arguments: str, expected: Any) -> None:
    assert read(arguments) == expected


@pytest.mark.parametrize("broken", ["~<x>1", "~<x>1~</y>", "1~</x>", "~<x>1~</x>~</y>"])
def test_what_is_not_well_formed_is_text(broken: str) -> None:
    assert read(f"~<options>{broken}~</options>") == {"options": broken.replace("~", MARK)}


def test_values_that_are_nested_too_deeply_are_text() -> None:
    deep = "~<x>" * 40 + "1" + "~</x>" * 40
    assert read(f"~<options>{deep}~</options>") == {"options": deep.replace("~", MARK)}


@pytest.mark.parametrize(
    "text", [call("", "erase_all"), f"{MARK}<tool_call>\nNo.", f"{MARK}<invoke name=search>", MARK]
)
def test_what_is_no_call_is_text(text: str) -> None:
    for pieces in ([text], list(text)):
        assert answer(FORMAT.new_parser(USE), *pieces) == Answer(text)


@pytest.mark.parametrize(
    ("said", "reasoning"),
    [("<mm:think>Hm.</mm:think>{}", "Hm."), ("</mm:think>{}", ""), ("{}", "")],
)
def test_thoughts(said: str, reasoning: str) -> None:
    form = output_format("minimax_m3", "minimax_m3")
    assert form is not None
    parser = form.parser(USE, "]~b]ai\n")
    assert parser is not None
    text = said.format(call("~<city>Paris~</city>".replace("~", MARK)))
    assert answer(parser, *text) == Answer("", reasoning, (Call("get_weather", '{"city": "Paris"}'),))
