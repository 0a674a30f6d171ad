"""Grammars of clients."""

import pytest

from gateway.text.schemas.grammar_checks import MAX_GRAMMAR_CHARS, check_grammar
from protos.errors import InvalidRequest

LONG_GRAMMAR = "x ::= " + "x" * MAX_GRAMMAR_CHARS


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
