"""Expressions and grammars of clients."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.schemas.expression_checks import MAX_EXPRESSION_CHARS, check_regex
from gateway.text.schemas.grammar_checks import MAX_GRAMMAR_CHARS, check_grammar
from protos.errors import InvalidRequest

LONG = "a" * (MAX_EXPRESSION_CHARS + 1)
LONG_GRAMMAR = "x ::= " + "x" * MAX_GRAMMAR_CHARS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        "yes|no",
        r"[0-9]{3}-\w+",
        r"(a|aa)*+b",
        r"^(?:x)(?<name>y)(?P<other>z)$",
        "(?i)a",
        "(?=a)(?!b)(?<=c)(?<!d)",
        "(?s-m:a)",
        r"[]a]",
        r"[^]a]",
        "[]",
        r"[\]]",
        r"\p{L}\u0041\/",
        "a{,5}b{x}{",
        "a{2,}?",
        "x]}",
        "(a+)+$",
    ],
)
def test_an_expression_of_any_dialect_is_taken(text: str) -> None:
    check_regex(text, "guided_regex")


@pytest.mark.parametrize(
    "text",
    [
        "(",
        ")",
        "(a))",
        "[",
        "[a",
        "*",
        "a|*",
        "(+)",
        "a**",
        "\\",
        "x{3,2}",
        "{3}",
        "(?",
        "(?x",
        "(" * 201 + ")" * 201,
        "a" * (MAX_EXPRESSION_CHARS + 1),
    ],
)
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        check_regex(text, "guided_regex")
    assert refusal.value.param == "guided_regex"


@given(st.text("ab()[]{}*+?|\\^$.,-:=!<>1", max_size=20))
def test_what_python_compiles_is_taken(text: str) -> None:
    try:
        re.compile(text)
    except (re.error, OverflowError, FutureWarning):
        return
    check_regex(text, "p")


@pytest.mark.parametrize(
    "text",
    [
        'root ::= "x"',
        'root ::= "x" item ("," item)*\nitem ::= [0-9"(]+ # a "comment (\n',
        'start: "a" NAME\nNAME: /[a-z"(]+/ // so (',
        'root ::= "\\"" ("b" | "c")',
        '?start: x\nx[capture]: "y"',
        '\n \n\troot\n  ::= "x"',
    ],
)
def test_a_grammar_is_taken(text: str) -> None:
    check_grammar(text, "guided_grammar")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        'root ::= "x',
        "root ::= [a",
        'root ::= ("x"',
        'root ::= "x")',
        "start: /a",
        "root ::= " + "(" * 300,
        "root ::= " + "x" * MAX_GRAMMAR_CHARS,
        # Half a minute, were each blank line looked at from every one before it.
        "\n" * (MAX_GRAMMAR_CHARS - 1) + "x",
        "x" + " \n" * (MAX_GRAMMAR_CHARS // 2 - 1) + "x",
    ],
)
def test_what_is_no_grammar_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        check_grammar(text, "guided_grammar")
    assert refusal.value.param == "guided_grammar"
