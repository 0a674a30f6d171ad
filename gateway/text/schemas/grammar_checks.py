"""Checks of clients' grammars (EBNF of xgrammar and llama.cpp, or Lark's): scanned once for what no syntax allows."""

import re
from typing import Final

from protos.errors import InvalidRequest

MAX_GRAMMAR_CHARS: Final = 64 * 1024
_MAX_NESTED: Final = 200
# Possessive quantifiers, and of white space before a name only its own line's: else blank lines take quadratic time.
_RULE: Final = re.compile(
    r"^[^\S\n]*+[?!]*+[A-Za-z_][\w.-]*+\s*+(?:\[[^\]\n]{0,200}+\]\s*+)?(?:::=|:(?!:))", re.MULTILINE
)
_STRING: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_CLASS: Final = re.compile(r"\[(?:[^\]\\\n]|\\.)*\]")
_REGEX: Final = re.compile(r"/(?:[^/\\\n]|\\.)+/")


def check_grammar(text: str, param: str) -> None:
    """Check a grammar. Raises InvalidRequest if no syntax allows it."""
    if len(text) > MAX_GRAMMAR_CHARS:
        raise InvalidRequest(f"Invalid value for '{param}': longer than {MAX_GRAMMAR_CHARS} characters.", param=param)
    problem = _problem(text)
    if problem:
        raise InvalidRequest(f"Invalid value for '{param}': not a grammar, {problem}.", param=param)


def _problem(text: str) -> str:
    if not _RULE.search(text):
        return "it has no rule like 'root ::= ...'"
    at = nested = 0
    line = 1
    while at < len(text):
        char, step = text[at], 1
        if char == "\n":
            line += 1
        elif char == "#" or text.startswith("//", at):
            end = text.find("\n", at)
            step = (len(text) if end < 0 else end) - at
        elif char == '"' or char == "[" or (char == "/" and not text.startswith("//", at)):
            found = {'"': _STRING, "[": _CLASS, "/": _REGEX}[char].match(text, at)
            if found is None:
                return f"the {char} in line {line} is not closed"
            step = len(found[0])
        elif char == "(":
            nested += 1
            if nested > _MAX_NESTED:
                return f"more than {_MAX_NESTED} groups in one another"
        elif char == ")":
            if not nested:
                return f"the ) in line {line} closes nothing"
            nested -= 1
        at += step
    return f"{nested} of its groups are not closed" if nested else ""
