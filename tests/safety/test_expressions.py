"""Expressions of RE2: which can be used, and that streams agree with whole texts."""

import pytest
import re2
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from safety.expressions import BadExpression, ExpressionFilter
from safety.match import Match
from tests.safety.cuts import assert_agrees, streamed

PATTERNS = [
    r"PRJ-[0-9]{3,6}",
    r"\bcat(?:s|fish)?\b",
    r"(?i)secret:\s{0,3}\w{1,10}",
    r"a{1,3}b?[ab]*",
    r"(foo|ba+r{2,3}|quux){1,2}",
    r"^begin",
    r"x(?:y|yz)?z{0,2}",
    r"[^\x00-\x{7f}]{2}",
    r"k[0-9]{2,}",
    r"é\p{Greek}{1,2}",
    r"q.{0,5}?q",
]
BOUNDED = [pattern for pattern in PATTERNS if "a+" not in pattern]
PARTS = [
    "PRJ-",
    "123",
    "4567",
    "cat",
    "cats",
    "fish",
    "secret:",
    "SECRET: ",
    "a",
    "aab",
    "bbb",
    "foo",
    "bar",
    "quux",
    "begin",
]
PARTS += ["x", "y", "z", "k1", "9", " ", "\n", "é", "αβγ", "日本", "\ud800", "\0", "q", "qq", "-", "\u0301", "🙂"]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=14).map("".join)


@pytest.mark.parametrize("pattern", BOUNDED)
@given(TEXTS, st.lists(st.integers(0, 1000), max_size=8))
def test_streams_agree_with_whole_texts(pattern: str, text: str, cuts: list[int]) -> None:
    assert_agrees(ExpressionFilter("own", [pattern]), text, cuts)


@given(TEXTS, st.lists(st.integers(0, 1000), max_size=8), st.booleans())
@example("k12k34", [3], False)
@example("aaab k1", [2], True)
def test_streams_agree_with_all_at_once(text: str, cuts: list[int], ignore_case: bool) -> None:
    assert_agrees(ALL_CASES if ignore_case else ALL, text, cuts)


ALL = ExpressionFilter("own", BOUNDED)
ALL_CASES = ExpressionFilter("own", BOUNDED, ignore_case=True)


ATOMS = st.sampled_from(["a", "b", "[ab]", "c", ".", "\\b", "^", "$", "\\w", "[^a]", "\\x61", "(?i:A)", "\\pL"])
REPEATS = st.sampled_from(["", "", "?", "{2}", "{1,3}", "{0,2}", "??", "{1,2}?", "{0}"])


def longer(inner: "st.SearchStrategy[str]") -> "st.SearchStrategy[str]":
    groups = st.sampled_from(["({})", "(?:{})", "(?P<n>{})", "(?i:{})", "(?i){}"])
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(groups, inner, REPEATS).map(lambda parts: f"(?:{parts[0].format(parts[1])}){parts[2]}"),
    )


EXPRESSIONS = st.recursive(st.tuples(ATOMS, REPEATS).map("".join), longer, max_leaves=6)


@settings(max_examples=400)
@given(
    EXPRESSIONS,
    st.sampled_from(["", "a+", "[ab]*", "\\w{2,}"]),
    st.text("abcA \n", max_size=14),
    st.lists(st.integers(0, 20)),
)
def test_any_expression_is_what_re2_makes_of_it(head: str, tail: str, text: str, cuts: list[int]) -> None:
    pattern = f"(?:{head}){tail}" if "|" in head else head + tail
    try:
        filter_ = ExpressionFilter("own", [pattern])
    except BadExpression:
        assume(False)
    assert [(match.start, match.end) for match in filter_.scan(text)] == [
        found.span() for found in re2.compile(pattern).finditer(text)
    ]
    assert_agrees(filter_, text, cuts)


def test_a_match_without_bound_is_told_in_parts() -> None:
    stream = ExpressionFilter("own", [r"sk-[a-z0-9]{4,}"]).stream()
    told = [
        [(match.start, match.end) for match in stream.feed(piece)] for piece in ["an s", "k-12", "34", "5" * 200, " x"]
    ]
    assert told == [[], [], [], [(3, 10), (10, 210)], []]
    assert stream.open == 212


def test_text_goes_on_as_soon_as_nothing_begins_there() -> None:
    stream = ExpressionFilter("own", [r"PRJ-[0-9]{6}"]).stream()
    opened = []
    for piece in ["see P", "R", "IDE PRJ-12", "3", "x"]:
        stream.feed(piece)
        opened.append(stream.open)
    assert opened == [4, 4, 10, 10, 18]


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(abc", "not an expression of RE2: missing "),
        ("a(?=b)", "not an expression of RE2: "),
        (r"(a)\1", "not an expression of RE2: "),
        ("a*", "matches the empty text"),
        (r"\b", "matches the empty text"),
        ("", "matches the empty text"),
        ("a.*b", "without bound"),
        ("a|b+", "without bound"),
        ("(?:ab)+", "without bound"),
        ("[0-9]{1,513}", "can match 513 characters"),
        ("(" * 101 + "a" + ")" * 101, "nested more than 100 deep"),
        ("(" * 400 + "a" + ")" * 400, "nested more than 100 deep"),
        ("(?:b|" * 400 + "a" + ")" * 400, "nested more than 100 deep"),
        ("a(?i)" * 400 + "b", "nested more than 100 deep"),
        (r"\Qa\E", r"\\Q is not supported"),
        ("a\ud800", "half a surrogate pair"),
        ("(((((a{1,100}){1,100}){1,100})))", "not an expression of RE2"),
    ],
)
def test_what_cannot_be_used(pattern: str, problem: str) -> None:
    with pytest.raises(BadExpression, match=problem) as caught:
        ExpressionFilter("own", ["fine", pattern])
    assert caught.value.index == 1


def test_groups_may_be_nested() -> None:
    filter_ = ExpressionFilter("own", ["(" * 100 + "a" + ")" * 100, "(b)" * 200])
    assert filter_.scan("xa" + "b" * 200) == [Match(1, 2, "own"), Match(2, 202, "own")]


def test_evil_expressions_take_linear_time() -> None:
    filter_ = ExpressionFilter("own", [r"(?:a|a|aa){1,40}b"])
    text = "a" * 100_000
    assert filter_.scan(text) == []
    assert streamed(filter_, [text]) == []
