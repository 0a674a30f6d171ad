import json

import pytest

from gateway.text.parsing.families.family_registry import recognised
from gateway.text.parsing.families.marked_json import GRANITE, learned
from gateway.text.parsing.tool_format import ToolFormat
from tests.gateway.text.parsing.answers import SINGLE, USE, Answer, Call, answer, fed, joined

OBJECT = '{"name": "probe_call", "arguments": {"probe_key": "probe value", "probe_flag": true}}'
LISTED = f"\n<calls>[{OBJECT}]</calls>\n<|end|>"


def form_of(written: str) -> ToolFormat:
    found = learned(written)
    assert found is not None
    return found


ARRAY, ALONE, OPEN = form_of(LISTED), form_of(f"[CALL]{OBJECT}[/CALL]"), form_of(f"<call> {OBJECT}")
PARIS = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
CLOCK = '{"name": "time_now", "arguments": {}}'
BOTH = (Call("get_weather", '{"city": "Paris"}'), Call("time_now", "{}"))


@pytest.mark.parametrize(
    ("written", "marks"),
    [
        (LISTED, {"<calls>", "</calls>"}),
        (f"[CALL]{OBJECT}[/CALL]", {"[CALL]", "[/CALL]"}),
        (f"Hm. <call> {OBJECT}", {"<call>"}),
        (f"<think>\n</think><|a|>[\n  {OBJECT}\n]<|b|>", {"<|a|>", "<|b|>"}),
        (f"<x>[1]</x><calls>{OBJECT}</calls>", {"<calls>", "</calls>"}),
        (
            LISTED.replace('"name"', '"tool_name"').replace('"arguments"', '"parameters"'),
            {"<calls>", "</calls>"},
        ),
    ],
)
def test_markers_are_learned(written: str, marks: set[str]) -> None:
    assert form_of(written).marks == marks


@pytest.mark.parametrize(
    "written",
    [
        "",
        OBJECT,
        f"Action: {OBJECT}",
        f"<calls>[{OBJECT}, {OBJECT}]",
        f"<calls>{OBJECT[:-1]}",
        "<calls>[]</calls>",
        f"<calls>{OBJECT.replace('probe_call', 'other')}",
        f"<calls>{OBJECT.replace('true', 'false')}",
        '<calls>{"probe_call": {"probe_key": "probe value", "probe_flag": true}}',
    ],
)
def test_other_forms_are_not_learned(written: str) -> None:
    assert learned(written) is None


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        (ARRAY, f"See.<calls>[{PARIS}, {CLOCK}]</calls>\nSo.", Answer("See.So.", "", BOTH)),
        (ARRAY, f"<calls>[\n{PARIS},\n{CLOCK}\n]\n</calls>", Answer(calls=BOTH)),
        (ARRAY, f"<calls>{PARIS}\n{CLOCK}</calls>", Answer(calls=BOTH)),
        (ARRAY, f"<calls>[{PARIS}]</calls><calls>[{CLOCK}]</calls>", Answer(calls=BOTH)),
        (ARRAY, f"<calls>[{PARIS}, {CLOCK}] So.", Answer("So.", "", BOTH)),
        (ARRAY, f"<calls>[{PARIS}, {CLOCK}", Answer(calls=BOTH)),
        (ALONE, f"[CALL]{PARIS}[/CALL]\n[CALL]{CLOCK}[/CALL]", Answer(calls=BOTH)),
        (OPEN, f"<call> {PARIS}\n<call> {CLOCK}", Answer(calls=BOTH)),
        (OPEN, f"<call> {PARIS} So.", Answer("So.", "", BOTH[:1])),
        (OPEN, f"<call> [{PARIS}] So.", Answer("So.", "", BOTH[:1])),
    ],
)
def test_calls(form: ToolFormat, text: str, expected: Answer) -> None:
    assert answer(form.new_parser(USE), text) == expected
    assert answer(form.new_parser(SINGLE), *text) == expected._replace(calls=expected.calls[:1])
    whole = joined(fed(form.new_parser(USE), [text]))
    for at in range(1, len(text)):
        assert joined(fed(form.new_parser(USE), [text[:at], text[at:]])) == whole


@pytest.mark.parametrize(
    "text",
    [
        "<calls>",
        "<calls>[",
        "<calls>[]</calls>",
        f"<calls>[{OBJECT}]</calls>",
        "<calls>[1]</calls>",
        "a <cal",
        "<calls>Hm",
    ],
)
def test_what_is_no_call_is_text(text: str) -> None:
    for pieces in ([text], list(text)):
        assert answer(ARRAY.new_parser(USE), *pieces) == Answer(text)


def test_names_in_other_words() -> None:
    text = '<calls>[{"tool_call_id": "0", "tool_name": "search", "parameters": {"query": "</calls>"}}]</calls>'
    (call,) = answer(ARRAY.new_parser(USE), *text).calls
    assert (call.name, json.loads(call.arguments)) == ("search", {"query": "</calls>"})


@pytest.mark.parametrize(
    "text",
    [
        f"<|tool_call|>[{PARIS}, {CLOCK}]",
        f"<function_call> {PARIS}<function_call> {CLOCK}",
        f"<|tool_call|>{PARIS}{CLOCK}",
    ],
)
def test_granite(text: str) -> None:
    for pieces in ([text], list(text)):
        assert answer(GRANITE.new_parser(USE), *pieces) == Answer(calls=BOTH)


def test_granite_is_recognised() -> None:
    # What it tells of parameters is no other family's.
    source = """', "parameters": ' please output <function_call> {\\"name\\": \\"no_function\\"}"""
    assert recognised(source, (), f"ASSISTANT:<function_call> {OBJECT}<|end|>").tools == "granite"
    assert recognised("respond with <|tool_call|> followed by a JSON list", ()).tools == "granite"
