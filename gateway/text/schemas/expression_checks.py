"""Checks of clients' regular expressions: scanned once from left to right, never run."""

import re
from typing import Final

from protos.errors import InvalidRequest

MAX_EXPRESSION_CHARS: Final = 32 * 1024
_MAX_NESTED: Final = 200
_REPEATED: Final = re.compile(r"\{(\d{1,9})(?:(,)(\d{1,9})?)?\}")
_GROUP: Final = re.compile(r"\?(?:[:=!>|]|<[=!]|P?<[A-Za-z_]\w*>|P=\w+|[a-zA-Z]*(?:-[a-zA-Z]+)?[:)])")


def check_regex(text: str, param: str) -> None:
    """Check a regular expression. Raises InvalidRequest if no regex syntax allows it."""
    if len(text) > MAX_EXPRESSION_CHARS:
        raise InvalidRequest(
            f"Invalid value for '{param}': longer than {MAX_EXPRESSION_CHARS} characters.", param=param
        )
    problem = expression_problem(text)
    if problem:
        raise InvalidRequest(f"Invalid value for '{param}': not a regular expression, {problem}.", param=param)


def expression_problem(text: str) -> str:
    """Describe what is wrong with an expression; empty if nothing. What any of the regex syntaxes allows is valid."""
    at, open_groups, repeatable = 0, 0, False
    while at < len(text):
        char = text[at]
        step, can_repeat = 1, True
        if char == "\\":
            if at + 1 == len(text):
                return "it ends with a backslash"
            step = 2
        elif char == "[":
            end = _end_of_class(text, at)
            if end < 0:
                return f"the [ at {at} is not closed"
            step = end - at
        elif char == "(":
            open_groups += 1
            if open_groups > _MAX_NESTED:
                return f"more than {_MAX_NESTED} groups in one another"
            can_repeat = False
            if text.startswith("?", at + 1):
                kind = _GROUP.match(text, at + 1)
                if kind is None:
                    return f"no group begins like the one at {at}"
                # Inline flags are closed already.
                step = 1 + len(kind[0])
                open_groups -= kind[0].endswith(")")
        elif char == ")":
            if not open_groups:
                return f"the ) at {at} closes nothing"
            open_groups -= 1
        elif char in "*+?":
            if not repeatable:
                return f"there is nothing to repeat for the {char} at {at}"
            # Lazy and possessive quantifiers.
            step = 2 if text[at + 1 : at + 2] in ("?", "+") else 1
            can_repeat = False
        elif char == "{" and (found := _REPEATED.match(text, at)):
            if not repeatable:
                return f"there is nothing to repeat for the {{ at {at}"
            if found[3] and int(found[3]) < int(found[1]):
                return f"the bounds at {at} are the wrong way round"
            step, can_repeat = len(found[0]), False
            if text[at + step : at + step + 1] in ("?", "+"):
                step += 1
        elif char in "|^":
            can_repeat = False
        at, repeatable = at + step, can_repeat
    return f"{open_groups} of its groups are not closed" if open_groups else ""


def _end_of_class(text: str, start: int) -> int:
    """The index after a character class; -1 if it has no end."""
    at = start + 2 if text.startswith("^", start + 1) else start + 1
    if text.startswith("]", at):
        # A literal bracket in most syntaxes, and the end of an empty class in ECMAScript.
        at += 1
        if "]" not in text[at:]:
            return at
    while at < len(text):
        if text[at] == "\\":
            at += 2
        elif text[at] == "]":
            return at + 1
        else:
            at += 1
    return -1
