import json

import pytest

from gateway.text.parsing.families.family_registry import output_format, recognised
from gateway.text.parsing.families.keyed_json import learned_keyed
from gateway.text.parsing.tool_format import ToolFormat
from tests.gateway.text.parsing.answers import SINGLE, USE, Answer, Call, answer, fed, joined

ARGUMENTS = '{"probe_key": "probe value", "probe_flag": true}'
SAMPLE = f'<|calls|>[{{"probe_call": {ARGUMENTS}}}]<|done|>'
PARIS = '{"get_weather": {"city": "Paris"}}'
CLOCK = '{"time_now": {}}'
BOTH = (Call("get_weather", '{"city": "Paris"}'), Call("time_now", "{}"))


def form_of(written: str) -> ToolFormat:
    found = learned_keyed(written)
    assert found is not None
    return found


FORM = form_of(SAMPLE)


@pytest.mark.parametrize(
    ("written", "marks"),
    [
        (SAMPLE, {"<|calls|>", "<|done|>"}),
        (f'<x>[1]<calls> [{{"probe_call": {ARGUMENTS}}}]', {"<calls>"}),
    ],
)
def test_markers_are_learned(written: str, marks: set[str]) -> None:
    assert form_of(written).marks == marks


@pytest.mark.parametrize(
    "written",
    [
        "",
        SAMPLE.removeprefix("<|calls|>"),
        SAMPLE.replace("true", "false"),
        SAMPLE.replace("probe_call", "other"),
        SAMPLE[:-10],
        f'<|calls|>[{{"name": "probe_call", "arguments": {ARGUMENTS}}}]',
    ],
)
def test_other_forms_are_not_learned(written: str) -> None:
    assert learned_keyed(written) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"See.<|calls|>[{PARIS}, {CLOCK}]<|done|>\nSo.", Answer("See.So.", "", BOTH)),
        (f"<|calls|>[\n{PARIS},\n{CLOCK}\n]\n<|done|>", Answer(calls=BOTH)),
        (f"<|calls|>{PARIS}{CLOCK}", Answer(calls=BOTH)),
        (f"<|calls|>[{PARIS}]<|calls|>[{CLOCK}", Answer(calls=BOTH)),
        (f"<|calls|>[{PARIS}, {CLOCK}] So.", Answer("So.", "", BOTH)),
    ],
)
def test_calls(text: str, expected: Answer) -> None:
    assert answer(FORM.new_parser(USE), text) == expected
    assert answer(FORM.new_parser(SINGLE), *text) == expected._replace(calls=expected.calls[:1])
    whole = joined(fed(FORM.new_parser(USE), [text]))
    for at in range(1, len(text)):
        assert joined(fed(FORM.new_parser(USE), [text[:at], text[at:]])) == whole


@pytest.mark.parametrize(
    "text",
    [
        "<|calls|>",
        "<|calls|>[",
        "<|calls|>[]",
        "<|calls|>[1]<|done|>",
        '<|calls|>[{"get_weather": "Paris"}]',
        '<|calls|>[{"get_weather"',
        f'<|calls|>[{{"erase_all": {ARGUMENTS}}}]<|done|>',
        '<|calls|>[{"get_weather\\"": {}}]',
        "a <|cal",
    ],
)
def test_what_is_no_call_is_text(text: str) -> None:
    for pieces in ([text], list(text)):
        assert answer(FORM.new_parser(USE), *pieces) == Answer(text)


def test_an_unknown_tool_after_a_call_is_text() -> None:
    got = answer(FORM.new_parser(USE), *f'<|calls|>[{PARIS}, {{"erase_all": {{}}}}]<|done|>')
    assert got.calls == BOTH[:1]
    assert "erase_all" in got.text


def test_arguments_come_as_they_are_written() -> None:
    text = '<|calls|>[{"search": {"query": "] } <|done|> {\\"", "deep": {"x": [1, {}]}}}]<|done|>'
    (call,) = answer(FORM.new_parser(USE), *text).calls
    assert json.loads(call.arguments) == {"query": '] } <|done|> {"', "deep": {"x": [1, {}]}}


def test_a_call_ends_a_thought_that_is_open() -> None:
    source = "{{ '<|inner_prefix|>' + thought + '<|inner_suffix|>' }}{{ calls }}"
    found = recognised(source, (), SAMPLE)
    assert found[:2] == ("learned", "apertus")
    form = output_format(*found)
    assert form is not None
    for thought in ("<|inner_prefix|>Hm.", "<|inner_prefix|>Hm.<|inner_suffix|>"):
        parser = form.parser(USE, "")
        assert parser is not None
        assert answer(parser, *f"{thought}<|calls|>[{PARIS}]<|done|>") == Answer("", "Hm.", BOTH[:1])
