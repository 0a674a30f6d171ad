import re

import pytest

from gateway.text.parsing.families.family_registry import output_format
from gateway.text.parsing.parser import OutputParser
from tests.gateway.text.parsing.answers import USE, Answer, Call, answer


def parser(reasoning: str | None = None) -> OutputParser:
    form = output_format("mistral", reasoning)
    assert form is not None
    made = form.parser(USE, "")
    assert made is not None
    return made


PARIS = Call("get_weather", '{"city": "Paris"}')
CLOCK = Call("time_now", "{}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}}]', Answer(calls=(PARIS,))),
        (
            '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}, "id": "abcdefghi"}, '
            '{"name":"time_now","arguments":{}}]',
            Answer(calls=(PARIS, CLOCK)),
        ),
        ('Sure.[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}', Answer("Sure.", "", (PARIS,))),
        ('[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}[TOOL_CALLS]time_now[ARGS]{}', Answer(calls=(PARIS, CLOCK))),
        ('[TOOL_CALLS]get_weather[CALL_ID]123456789[ARGS]{"city": "Paris"}', Answer(calls=(PARIS,))),
        ('[TOOL_CALLS]get_weather{"city": "Paris"}', Answer(calls=(PARIS,))),
        (
            '[TOOL_CALLS]search[ARGS]{"query": "[TOOL_CALLS]"} ',
            Answer(calls=(Call("search", '{"query": "[TOOL_CALLS]"}'),)),
        ),
        ('[TOOL_CALLS]search[ARGS]{"query": "x', Answer(calls=(Call("search", '{"query": "x'),))),
        ('[TOOL_CALLS][{"name": "time_now"}, 5]', Answer(", 5]", "", (CLOCK,))),
    ],
)
def test_calls(text: str, expected: Answer) -> None:
    for pieces in ([text], list(text)):
        assert answer(parser(), *pieces) == expected


@pytest.mark.parametrize(
    "text",
    [
        "[TOOL_CALLS]",
        "[TOOL_CALLS] []",
        "[TOOL_CALLS]search",
        "[TOOL_CALLS]search[ARGS]none",
        "[TOOL_CALLS]search now[ARGS]{}",
        "[TOOL_CALLS]searching[ARGS]{}",
        '[TOOL_CALLS][{"name": "rm", "arguments": {}}]',
        "[ARGS] and [TOOL_CALL]",
    ],
)
def test_broken_calls_are_text(text: str) -> None:
    for pieces in ([text], list(text)):
        assert answer(parser(), *pieces) == Answer(text)


def test_ids_are_nine_letters_and_digits() -> None:
    text = "".join(f"[TOOL_CALLS]time_now[CALL_ID]{given}[ARGS]{{}}" for given in ("a1b2c3d4e", "a1b2c3d4e", "call_1"))
    first, second, third = [call.id for call in answer(parser(), text, ids=True).calls]
    assert first == "a1b2c3d4e"
    assert len({first, second, third}) == 3
    assert all(re.fullmatch("[A-Za-z0-9]{9}", given) for given in (second, third))


def test_the_id_of_an_array_counts_if_it_comes_in_time() -> None:
    late = '{"id": [1], "name": "time_now", "arguments": {}, "id": "zzzzzzzzz"}'
    text = f'[TOOL_CALLS][{{"id": "a1b2c3d4e", "name": "time_now"}}, {late}]'
    first, second = answer(parser(), *text, ids=True).calls
    assert first.id == "a1b2c3d4e"
    assert len(second.id) == 9
    assert second.id != "zzzzzzzzz"


def test_as_magistral_thinks() -> None:
    text = '[THINK]Hm, [TOOL_CALLS]?[/THINK][TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}'
    assert answer(parser("magistral"), *text) == Answer("", "Hm, [TOOL_CALLS]?", (PARIS,))
