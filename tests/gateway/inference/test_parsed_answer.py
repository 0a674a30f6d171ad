"""What is kept beside a parser: logprobs go with the text of their tokens."""

from gateway.inference.parsed_answer import ParsedAnswer
from gateway.text.parsing.delta import CallStart, Delta, Reasoning, Text
from gateway.text.parsing.plain import PlainParser
from gateway.text.sequence_text import TokenEntry
from protos.types import TokenLogprobs


class Scripted:
    """A parser that gives what it is told."""

    thinking = False

    def __init__(self, *said: list[Delta]) -> None:
        self._said = iter(said)

    def flow(self) -> None:
        return None

    def feed(self, text: str) -> list[Delta]:
        return next(self._said)

    finish = lambda self: self.feed("")  # noqa: E731


def entry(token: int) -> TokenEntry:
    return TokenEntry(token, TokenLogprobs(-0.5), 0)


def test_plain_text_keeps_its_entries() -> None:
    answer = ParsedAnswer(PlainParser())
    assert answer.take("a", [entry(1)]) == [Text("a", (entry(1),))]
    assert answer.take("b", []) == [Text("b")]
    assert answer.feed("c") == [Text("c")]
    assert answer.finish() == []


def test_entries_wait_for_the_text_that_is_held() -> None:
    answer = ParsedAnswer(Scripted([], [Text("ab"), Text("c")], []))
    assert answer.take("a", [entry(1)]) == []
    assert answer.take("bc", [entry(2)]) == [Text("ab", (entry(1),)), Text("c")]
    assert answer.finish() == []


def test_a_token_of_which_something_is_held_waits_for_all_of_it() -> None:
    answer = ParsedAnswer(Scripted([Text("a")], [Text("<b")], [Text("c")], []))
    assert answer.take("a<", [entry(1)]) == [Text("a")]
    assert answer.take("b", [entry(2)]) == [Text("<b", (entry(1), entry(2)))]
    assert answer.take("c", [entry(3)]) == [Text("c", (entry(3),))]


def test_white_space_that_is_left_out_belongs_to_its_token() -> None:
    answer = ParsedAnswer(Scripted([], [Text("a")], []))
    assert answer.take("\n", [entry(1)]) == []
    assert answer.take(" a ", [entry(2)]) == [Text("a", (entry(1), entry(2)))]


def test_what_is_thrown_away_is_told_by_nothing() -> None:
    start = CallStart(0, "id", "f")
    answer = ParsedAnswer(Scripted([start], [], [], [Text("done")], []))
    assert answer.take("<call>", [entry(1)]) == [start]
    assert answer.take('"note": "a ', [entry(2)]) == []
    assert answer.take('secret"}', [entry(3)]) == []
    assert answer.take(" done", [entry(4)]) == [Text("done", (entry(4),))]


def test_the_mark_that_closes_a_thought_is_no_text() -> None:
    parser = Scripted([Reasoning("hm")], [], [], [Text("t")])
    answer = ParsedAnswer(parser)
    parser.thinking = True
    assert answer.take("hm", [entry(1)]) == [Reasoning("hm")]
    assert answer.take("</th", [entry(2)]) == []
    assert answer.take("ink>", [entry(3)]) == []
    parser.thinking = False
    assert answer.take("t", [entry(4)]) == [Text("t", (entry(4),))]


def test_those_of_thoughts_and_calls_are_left_out() -> None:
    start = CallStart(0, "id", "f")
    answer = ParsedAnswer(Scripted([Reasoning("hm")], [start], [], [Text("t")]))
    assert answer.take("hm", [entry(1)]) == [Reasoning("hm")]
    assert answer.take("call", [entry(2)]) == [start]
    assert answer.take("t", [entry(3)]) == []
    assert answer.finish() == [Text("t", (entry(3),))]
