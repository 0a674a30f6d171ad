import pytest

from gateway.text.parsing.delta import CallStart, Reasoning, Text
from gateway.text.parsing.families.family_registry import output_format
from gateway.text.parsing.parser import OutputParser
from tests.gateway.text.parsing.answers import USE, Answer, Call, answer, fed, joined

CALL = '<tool_call>{"name": "search", "arguments": {"query": "</think>"}}</tool_call>'
SEARCH = Call("search", '{"query": "</think>"}')


def parser_of(tools: str | None = None, prompt_end: str | None = "", *, whole: bool = False) -> OutputParser:
    form = output_format(tools, "think")
    assert form is not None
    parser = form.parser(USE, prompt_end, whole=whole)
    assert parser is not None
    return parser


@pytest.mark.parametrize("tools", [None, "hermes", "llama3_json"])
def test_a_closing_tag_that_nothing_has_opened(tools: str | None) -> None:
    text = "Two and two.\n</think>\n\nIt is 4: </think>."
    for at in range(len(text)):
        pieces = text[:at], text[at:]
        assert joined(fed(parser_of(tools), filter(None, pieces))) == [Text("Two and two.\nIt is 4: </think>.")]
        deltas = fed(parser_of(tools, whole=True), filter(None, pieces))
        end = deltas.index(Reasoning(""))
        assert joined(deltas[:end]) == [Text("Two and two.\n")]
        assert joined(deltas[end + 1 :]) == [Text("It is 4: </think>.")]


@pytest.mark.parametrize(
    ("text", "prompt_end", "expected"),
    [
        ("</think>4", "", Answer("4")),
        ("<think>2</think>4</think>", "", Answer("4</think>", "2")),
        ("2</think>4</think>", "<think>\n", Answer("4</think>", "2")),
        # A guided answer has no thoughts but those that it opens.
        ('{"a": "</think>"}', None, Answer('{"a": "</think>"}')),
        ("2</think>", None, Answer("2</think>")),
        ("4 </thin", "", Answer("4 </thin")),
    ],
)
def test_where_it_may_come(text: str, prompt_end: str | None, expected: Answer) -> None:
    for pieces in ([text], list(text)):
        assert answer(parser_of(None, prompt_end), *pieces) == expected


def test_within_a_call_it_is_an_argument() -> None:
    text = f"Hm.\n</think>\n{CALL}"
    for pieces in ([CALL], list(CALL)):
        assert answer(parser_of("hermes"), *pieces) == Answer(calls=(SEARCH,))
    for pieces in ([text], list(text)):
        assert answer(parser_of("hermes"), *pieces) == Answer("Hm.\n", "", (SEARCH,))
    early = '<tool_call>{"arguments": {"query": "</think>"}, "name": "search"}</tool_call>'
    for pieces in ([early], list(early)):
        assert answer(parser_of("hermes"), *pieces) == Answer(calls=(SEARCH,))


@pytest.mark.parametrize("before", ["", "\n", "Hm.\n"])
def test_a_call_that_starts_an_answer_may_follow_it(before: str) -> None:
    deltas = fed(parser_of("llama3_json"), f'{before}</think>\n\n{{"name": "time_now", "parameters": {{}}}}')
    assert [delta.name for delta in deltas if isinstance(delta, CallStart)] == ["time_now"]


def test_text_flows_while_it_may_come() -> None:
    parser = parser_of()
    assert parser.flow() is None
    parser.feed("It")
    assert parser.flow() == Text("")
    assert parser.feed(" <") == [Text(" ")]
    assert parser.flow() is None
    assert parser.feed(" 5") == [Text("< 5")]
