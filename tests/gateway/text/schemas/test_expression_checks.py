"""Expressions of clients."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.schemas.expression_checks import MAX_EXPRESSION_CHARS, check_regex
from protos.errors import InvalidRequest

LONG = "a" * (MAX_EXPRESSION_CHARS + 1)


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
