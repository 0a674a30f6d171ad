"""What is shown of a text: the same however it is cut, and never what must not be."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protos.errors import FilterFailed
from safety.action import Action
from safety.expressions import ExpressionFilter
from safety.match import Match
from safety.screen import Rule, Screen, Screened, applied, screened
from safety.terms import TermFilter
from tests.safety.cuts import pieces

NAMES = TermFilter("name", ["anna", "anna bell", "bob"], words=False)
CODES = ExpressionFilter("code", ["b[0-9]{1,4}", "x-[a-z]{2,}"])
BAD = TermFilter("bad", ["evil", "ann", "b12 "], words=False)
RULES = [
    [Rule("names", NAMES, Action.REDACT)],
    [Rule("bad", BAD, Action.BLOCK)],
    [Rule("names", NAMES, Action.REDACT), Rule("codes", CODES, Action.REDACT)],
    [Rule("codes", CODES, Action.REDACT), Rule("bad", BAD, Action.BLOCK), Rule("names", NAMES, Action.FLAG)],
    [Rule("names", NAMES, Action.REDACT), Rule("codes", CODES, Action.REDACT), Rule("bad", BAD, Action.BLOCK)],
]
PARTS = [
    "anna",
    " bell",
    "bob",
    "b1",
    "12",
    "b12 ",
    "x-",
    "abc",
    "evi",
    "l",
    "evil",
    " ",
    "ann",
    "a",
    "é",
    "日",
    "\n",
    '"',
    ":",
    '\\": [',
]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=12).map("".join)


def by_pieces(rules: Sequence[Rule], parts: Sequence[str]) -> Screened:
    screen = Screen(rules)
    shown = ""
    for part in parts:
        shown += screen.feed(part)
        assert screen.blocked is None or not screen.feed("more")
        assert screen.decided <= screen.received
        assert screen.blocked or screen.received - screen.decided <= max(rule.filter.window for rule in rules)
    shown += screen.finish()
    return Screened(shown, screen.blocked, screen.findings)


@given(st.sampled_from(RULES), TEXTS, st.lists(st.integers(0, 100), max_size=8))
@example(RULES[4], "b12 evil", [3])
@example(RULES[4], "x-abanna bell", [4, 9])
@example(RULES[3], "annb12 ", [4])
def test_however_a_text_is_cut_the_same_is_shown(rules: list[Rule], text: str, cuts: list[int]) -> None:
    whole = screened(text, rules)
    for parts in (pieces(text, cuts), list(text)):
        shown = by_pieces(rules, parts)
        assert shown.text == whole.text
        assert (shown.blocked and shown.blocked[:4]) == (whole.blocked and whole.blocked[:4])
        # How far the last one goes is not seen where the text ends before it.
        assert {finding[:4] for finding in shown.findings} == {finding[:4] for finding in whole.findings}


@given(st.sampled_from(RULES), TEXTS)
def test_nothing_forbidden_is_shown(rules: list[Rule], text: str) -> None:
    whole = screened(text, rules)
    for rule in rules:
        if rule.action is Action.BLOCK:
            # What it says was there before, with what follows it gone: the matches that end there are others.
            assert not any(
                match.end < len(whole.text) for match in rule.filter.scan(whole.text) if "[" not in whole.text
            )
            assert (whole.blocked is not None) == bool(rule.filter.scan(text))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("hi anna!", "hi [NAME]!"),
        ("annab1", "[NAME]"),
        ("anna b1", "[NAME] [CODE]"),
        ("anna bell", "[NAME]"),
        ("x-abcdefgh ijk", "[CODE] ijk"),
        ("say ev", "say ev"),
        ("say evil anna", "say "),
        ("anna evil", "[NAME] "),
        # A number of JSON cannot become what is none.
        ('{"n": b12, "m" :[b12], "anna": "b12"}', '{"n": "[CODE]", "m" :["[CODE]"], "[NAME]": "[CODE]"}'),
        (r'"{\"n\": b12}"', r'"{\"n\": \"[CODE]\"}"'),
        (
            '{"n": [b12, "x", b12], "m": ": b12", "o": ["a: b12"]}',
            '{"n": ["[CODE]", "x", "[CODE]"], "m": ": [CODE]", "o": ["a: [CODE]"]}',
        ),
        ('{"n": [\n        b12\n    ]}', '{"n": [\n        "[CODE]"\n    ]}'),
        ('he wrote "my code": b12', 'he wrote "my code": [CODE]'),
        ("[b12]: b12", "[[CODE]]: [CODE]"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    rules = [*RULES[2], Rule("bad", TermFilter("bad", ["evil"], words=False), Action.BLOCK)]
    assert screened(text, rules).text == shown
    assert by_pieces(rules, list(text)).text == shown


def test_text_goes_on_as_soon_as_it_may() -> None:
    screen = Screen(RULES[0])
    assert [screen.feed(piece) for piece in ["an", "t, an", "na", " be", "", "ar"]] == [
        "",
        "ant",
        ", ",
        "",
        "",
        "[NAME] bear",
    ]
    assert screen.finish() == ""
    assert screen.replaced == [(5, 9)]


def test_text_that_is_decided_at_once_goes_out_with_two_pieces_at_most() -> None:
    screen = Screen([Rule("names", TermFilter("name", ["abcdefgh"], words=False), Action.REDACT)])
    assert [screen.feed(piece) for piece in ["so", "ab", "cd", "ef", "x", "y", "z"]] == [
        "so",
        "",
        "",
        "",
        "abcd",
        "efx",
        "y",
    ]
    assert screen.feed("w") + screen.finish() == "zw"


@given(st.sampled_from(RULES), TEXTS, st.lists(st.integers(0, 100), max_size=8))
def test_what_nobody_waits_for_is_looked_at_in_large_pieces(rules: list[Rule], text: str, cuts: list[int]) -> None:
    screen = Screen(rules)
    screen.wait_for(10)
    shown = "".join([screen.feed(part) for part in pieces(text, cuts)]) + screen.last("")
    assert shown == screened(text, rules).text
    patient = Screen(rules)
    patient.wait_for(1000)
    assert "".join([patient.feed(part) for part in pieces(text, cuts)]) == ""
    assert patient.last("anna") == screened(text + "anna", rules).text


def test_findings_of_a_match_in_parts_are_one() -> None:
    whole = by_pieces(RULES[3], ["x-a", "bc", "def", " "])
    assert [(f.rule, f.start, f.end) for f in whole.findings] == [("codes", 0, 8)]


def test_what_others_found_can_be_applied() -> None:
    findings = screened("anna and bob", RULES[0]).findings
    assert applied("anna and bob", findings).text == "[NAME] and [NAME]"


class Broken:
    """A filter with a fault of its own."""

    signs = None
    window = 8

    def __init__(self, matches: list[Match] | None = None, *, after: int = 0) -> None:
        self.matches, self.after, self.open = matches, after, 0

    def scan(self, text: str, plain: bytes | None = None) -> list[Match]:
        return self._found()

    def stream(self) -> "Broken":
        return Broken(self.matches, after=self.after)

    def feed(self, text: str) -> list[Match]:
        self.after -= 1
        self.open += len(text)
        return [] if self.after >= 0 else self._found()

    def finish(self) -> list[Match]:
        return []

    def _found(self) -> list[Match]:
        if self.matches is None:
            raise RuntimeError("anna is in this text")
        return self.matches


NONSENSE = [None, [Match(-1, 2, "x")], [Match(2, 2, "x")], [Match(0, 99, "x")], [Match(5, 3, "x")]]


@pytest.mark.parametrize("matches", NONSENSE)
@pytest.mark.parametrize("place", [0, 1])
def test_a_broken_filter_fails_closed(matches: list[Match] | None, place: int) -> None:
    rules = list(RULES[0])
    rules.insert(place, Rule("broken", Broken(matches), Action.FLAG))
    with pytest.raises(FilterFailed) as caught:
        screened("anna here", rules)
    assert "broken" in caught.value.detail
    assert "anna" not in caught.value.detail + caught.value.message
    screen = Screen(rules)
    with pytest.raises(FilterFailed):
        screen.feed("hello anna")


@pytest.mark.parametrize("matches", NONSENSE)
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("after", [0, 2])
def test_a_broken_filter_is_left_out_where_it_may_be(matches: list[Match] | None, place: int, after: int) -> None:
    rules = list(RULES[0])
    rules.insert(place, Rule("broken", Broken(matches, after=after), Action.FLAG))
    assert screened("anna here", rules, fail_open=True).text == "[NAME] here"
    screen = Screen(rules, fail_open=True)
    shown = "".join(screen.feed(char) for char in "so anna and bob") + screen.finish()
    assert shown == "so [NAME] and [NAME]"
    assert screen.failures == ["broken"]
