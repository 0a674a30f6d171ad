"""Expressions of `re` as Hyperscan can read them: simpler ones, which find all that those find, and more."""

import re
from collections.abc import Iterator
from typing import Final

#: Counts beyond this make tables larger, and hardly find less.
_MOST: Final = 12
_LOOK: Final = re.compile(r"(?<!\\)\(\?<?[=!]")
_COUNT: Final = re.compile(r"(?<!\\x)\{(\d+)(?:,\d*)?\}(?P<last>\)*\Z)?")


def loosened(expression: str) -> list[str]:
    """Expressions of which one matches wherever this one does, without looking ahead or behind; each may match less."""
    while (look := _LOOK.search(expression)) is not None:
        expression = expression[: look.start()] + expression[_group_end(expression, look.start()) :]
    expression = re.sub(r"\(\?P<\w+>", "(?:", expression)
    expression = _COUNT.sub(_fewer, expression)
    # Alternatives by themselves cost less than together.
    expression = _inner(expression)
    if expression.startswith("(?i:") and _group_end(expression, 0) == len(expression):
        return [f"(?i:{part})" for part in _alternatives(_inner(expression[4:-1]))]
    return [expression]


def _fewer(count: re.Match[str]) -> str:
    if int(count[1]) <= _MOST:
        return count[0]
    return f"{{{_MOST}}}{count['last']}" if count["last"] is not None else f"{{{_MOST},}}"


def _inner(expression: str) -> str:
    """Without a group around all of it."""
    while expression.startswith("(?:") and _group_end(expression, 0) == len(expression):
        expression = expression[3:-1]
    return expression


def _signs(expression: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """The parentheses and bars of an expression, those in classes and escaped ones aside, and where they stand."""
    at, inside = start, False
    while at < len(expression):
        sign = expression[at]
        if sign == "\\":
            at += 1
        elif inside:
            inside = sign != "]"
        elif sign == "[":
            inside = True
            at += expression.startswith("[]", at) or 2 * expression.startswith("[^]", at)
        elif sign in "()|":
            yield at, sign
        at += 1


def _group_end(expression: str, start: int) -> int:
    """Where the group ends that begins there."""
    depth = 0
    for at, sign in _signs(expression, start):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return at + 1
    raise ValueError(f"a group without an end: {expression}")


def _alternatives(expression: str) -> Iterator[str]:
    """What stands between the outermost bars."""
    depth = begin = 0
    for at, sign in _signs(expression):
        depth += (sign == "(") - (sign == ")")
        if sign == "|" and depth == 0:
            yield expression[begin:at]
            begin = at + 1
    yield expression[begin:]
