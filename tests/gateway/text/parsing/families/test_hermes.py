import pytest

from gateway.text.parsing.families.family_registry import output_format
from gateway.text.parsing.parser import OutputParser
from tests.gateway.text.parsing.answers import SINGLE, USE, Answer, Call, answer


def parser(*, single: bool = False, reasoning: str | None = None) -> OutputParser:
    form = output_format("hermes", reasoning)
    assert form is not None
    made = form.parser(SINGLE if single else USE, "")
    assert made is not None
    return made


CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
PARIS = Call("get_weather", '{"city": "Paris"}')


def test_as_qwen3_writes_it() -> None:
    text = (
        "<think>\nThe user wants the weather in two cities.\n</think>\n\nLet me look.\n"
        f'{CALL}\n<tool_call>\n{{"name": "get_weather", "arguments": {{"city": "東京", "days": 3}}}}\n</tool_call>'
    )
    assert answer(parser(reasoning="think"), *text) == Answer(
        "Let me look.\n",
        "The user wants the weather in two cities.\n",
        (PARIS, Call("get_weather", '{"city": "東京", "days": 3}')),
    )


@pytest.mark.parametrize(
    ("inner", "arguments"),
    [
        ('{"arguments": {"city": "Paris"}, "name": "get_weather"}', '{"city": "Paris"}'),
        ('{"name":"get_weather","arguments":{"city":"Paris"},"id":"x"}', '{"city":"Paris"}'),
        ('{"type": "function", "name": "get_weather", "parameters": {"a": 1}}', '{"a": 1}'),
        ('{"name": "get_weather", "arguments": "{\\"city\\": \\"Pa\\\\u0072is\\"}"}', '{"city": "Pa\\u0072is"}'),
        ('{"arguments": "{}", "name": "get_weather"}', "{}"),
        ('{"name": "get_weather"}', "{}"),
        ('{"name": "get_weather", "arguments": null}', "{}"),
        ('{"name": "get_weather", "arguments": {}, "arguments": {"b": 2}, "why": [1, {"c": 3}]}', "{}"),
        ('{"name": "get_weather", "arguments": {"text": "</tool_call>"}}', '{"text": "</tool_call>"}'),
    ],
)
def test_objects_of_other_kinds(inner: str, arguments: str) -> None:
    text = f"<tool_call>{inner}</tool_call>\n"
    for pieces in ([text], list(text)):
        assert answer(parser(), *pieces) == Answer(calls=(Call("get_weather", arguments),))


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>",
        "<tool_call>\n</tool_call>",
        "<tool_call>get_weather</tool_call>",
        '<tool_call>{"tool": "get_weather"}</tool_call>',
        '<tool_call>{"name": 5}</tool_call>',
        '<tool_call>{"name": "get_\\u0077eather", "arguments": {}}</tool_call>',
        '<tool_call>{"arguments": {"a": 1}}</tool_call>',
        '<tool_call>{"arguments": {"a": 1}, "name": "rm"}</tool_call>',
        '<tool_call>{"name": "get_weather_of_all_the_cities", "arguments": {}}</tool_call>',
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>",
        "Use </tool_call> or <tool_cal> or <tool_call",
    ],
)
def test_broken_calls_are_text(text: str) -> None:
    for pieces in ([text], list(text)):
        assert answer(parser(), *pieces) == Answer(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<tool_call>{"name": "search"</tool_call> Sorry.', Answer('<tool_call>{"name": "search"</tool_call> Sorry.')),
        ('<tool_call>{"name": "time_now"}</tool_call> Well.', Answer("Well.", "", (Call("time_now", "{}"),))),
        (
            '<tool_call>{"name": "search", "arguments": {"query": [1}</tool_call>' + CALL,
            Answer("", "", (Call("search", '{"query": [1}'), PARIS)),
        ),
        (f"{CALL[:-12]}{CALL}", Answer("", "", (PARIS, PARIS))),
        (f"<tool_call><tool_call>{CALL[11:]}", Answer("<tool_call>", "", (PARIS,))),
        (CALL.replace("}}", "}}}") + "Done", Answer("}\n</tool_call>Done", "", (PARIS,))),
        (
            CALL.replace("</", '{"name": "time_now", "arguments": {}}</'),
            Answer("", "", (PARIS, Call("time_now", "{}"))),
        ),
        (
            '<tool_call>{"name": "search", "arguments": {"query": "un',
            Answer("", "", (Call("search", '{"query": "un'),)),
        ),
    ],
)
def test_what_is_left_of_calls_that_break_off(text: str, expected: Answer) -> None:
    for pieces in ([text], list(text)):
        assert answer(parser(), *pieces) == expected


def test_later_calls_are_left_out_but_text_is_not() -> None:
    assert answer(parser(single=True), f"{CALL}\n{CALL}\nThat is it.") == Answer("That is it.", "", (PARIS,))


def test_ids_are_as_openais() -> None:
    first, second = answer(parser(), CALL, CALL, ids=True).calls
    assert first.id.startswith("call_")
    assert first.id != second.id
