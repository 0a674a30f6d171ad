import pytest

from gateway.text.parsing.delta import Text
from gateway.text.parsing.families.family_registry import output_format
from gateway.text.parsing.parser import OutputParser
from tests.gateway.text.parsing.answers import USE, Answer, Call, answer


def parser() -> OutputParser:
    form = output_format("llama3_json", None)
    assert form is not None
    made = form.parser(USE, "")
    assert made is not None
    return made


CALL = '{"name": "get_weather", "parameters": {"city": "Paris"}}'
PARIS = Call("get_weather", '{"city": "Paris"}')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CALL, Answer(calls=(PARIS,))),
        (f"\n\n{CALL}\n", Answer(calls=(PARIS,))),
        (f"<|python_tag|>{CALL}", Answer(calls=(PARIS,))),
        (f"{CALL}; {CALL};\n{CALL}", Answer(calls=(PARIS, PARIS, PARIS))),
        (f"<|python_tag|>{CALL}; <|python_tag|>{CALL}", Answer(calls=(PARIS, PARIS))),
        (f"{CALL}\n{CALL}", Answer(calls=(PARIS, PARIS))),
        (f"I look. <|python_tag|>{CALL} Done.", Answer("I look. Done.", "", (PARIS,))),
        ('{"type": "function", "name": "search", "parameters": {}}', Answer(calls=(Call("search", "{}"),))),
        ('{"parameters": {"query": "{"}, "name": "search"}', Answer(calls=(Call("search", '{"query": "{"}'),))),
        (f"{CALL}; and so on", Answer("; and so on", "", (PARIS,))),
    ],
)
def test_calls(text: str, expected: Answer) -> None:
    for pieces in ([text], list(text)):
        assert answer(parser(), *pieces) == expected


@pytest.mark.parametrize(
    "text",
    [
        f"You may write {CALL} for that.",
        '{"name": "Bob", "age": 3}',
        '{"name": "search"}',
        '{"name": "search", "age": 3}',
        '{"answer": 42}',
        '<|python_tag|>brave_search.call(query="weather")',
        '  {"name": "sea',
        "{}",
    ],
)
def test_other_objects_are_text(text: str) -> None:
    for pieces in ([text], list(text)):
        assert answer(parser(), *pieces) == Answer(text)


def test_other_objects_are_not_held_back() -> None:
    made = parser()
    assert made.feed('{"answer') == []
    assert made.feed('": 4') == [Text("{"), Text('"answer": 4')]
