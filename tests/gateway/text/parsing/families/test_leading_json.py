import pytest

from gateway.text.parsing.families.family_registry import recognised
from gateway.text.parsing.families.leading_json import COMMAND_R, PHI4_MINI
from gateway.text.parsing.tool_format import ToolFormat
from tests.gateway.text.parsing.answers import SINGLE, USE, Answer, Call, answer, fed, joined

PHI = '[{"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "time_now", "arguments": {}}]'
COMMAND = PHI.replace('"name"', '"tool_name"').replace('"arguments"', '"parameters"')
CALLS = (Call("get_weather", '{"city": "Paris"}'), Call("time_now", "{}"))


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        (PHI4_MINI, f"functools{PHI}", Answer(calls=CALLS)),
        (PHI4_MINI, f"\n functools {PHI}\nSo.", Answer("So.", "", CALLS)),
        (PHI4_MINI, f"<|tool_call|>{PHI}<|/tool_call|>", Answer(calls=CALLS)),
        (PHI4_MINI, f"Hm. <|tool_call|>{PHI}<|/tool_call|>", Answer("Hm. ", "", CALLS)),
        (COMMAND_R, f"Action:\n```json\n{COMMAND}\n```", Answer(calls=CALLS)),
        (COMMAND_R, f"Action: ```json{COMMAND}```\nSo.", Answer("So.", "", CALLS)),
        (COMMAND_R, f"Plan: look.\nAction:```json\n{COMMAND}\n```", Answer("Plan: look.\n", "", CALLS)),
        (COMMAND_R, f"Action:\n```json\n{COMMAND}", Answer(calls=CALLS)),
    ],
)
def test_calls(form: ToolFormat, text: str, expected: Answer) -> None:
    assert answer(form.new_parser(USE), *text) == expected
    assert answer(form.new_parser(SINGLE), *text) == expected._replace(calls=CALLS[:1])
    whole = joined(fed(form.new_parser(USE), [text]))
    for at in range(1, len(text)):
        assert joined(fed(form.new_parser(USE), [text[:at], text[at:]])) == whole


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (PHI4_MINI, "functools"),
        (PHI4_MINI, "functools are [1]"),
        (PHI4_MINI, 'functools{"name": "time_now"}'),
        (PHI4_MINI, f"Use functools{PHI}"),
        (PHI4_MINI, "<|tool_"),
        (COMMAND_R, "Action: go"),
        (COMMAND_R, "Action:\n```json\n{}\n```"),
        (COMMAND_R, 'Action:\n```json\n[{"tool_name": "directly_answer", "parameters": {}}]\n```'),
        (COMMAND_R, f"The Action:\n```json\n{COMMAND}\n```"),
        (COMMAND_R, "\nActio"),
    ],
)
def test_what_is_no_call_is_text(form: ToolFormat, text: str) -> None:
    for pieces in ([text], list(text)):
        assert answer(form.new_parser(USE), *pieces) == Answer(text)


def test_they_are_recognised() -> None:
    assert recognised('should be written as functools[{"name": ...}]', (), "|>").tools == "phi4_mini"
    written = (
        'Action:\n```json\n[\n    {\n        "tool_name": "probe_call",\n        "parameters": {\n'
        '            "probe_key": "probe value",\n            "probe_flag": true\n        }\n    }\n]```\n<|turn|>'
    )
    assert recognised("{{ '\\nAction:\\n```json' }}\n\"parameters\": '", (), written).tools == "command_r"
