"""Loosen expressions of `re` for Hyperscan: simpler ones that match everywhere the originals do, and more."""

import re
from collections.abc import Iterator
from typing import Final

#: Larger counts make tables larger and hardly reject more.
_MOST: Final = 12
_LOOK: Final = re.compile(r"(?<!\\)\(\?<?[=!]")
_COUNT: Final = re.compile(r"(?<!\\x)\{(\d+)(?:,\d*)?\}(?P<last>\)*\Z)?")


def loosened(expression: str) -> list[str]:
    """Return expressions without lookaround, one of which matches wherever this one does; a match may be shorter."""
    while (look := _LOOK.search(expression)) is not None:
        expression = expression[: look.start()] + expression[_group_end(expression, look.start()) :]
    expression = re.sub(r"\(\?P<\w+>", "(?:", expression)
    expression = _COUNT.sub(_fewer, expression)
    # Separate alternatives cost less than one expression.
    expression = _inner(expression)
    if expression.startswith("(?i:") and _group_end(expression, 0) == len(expression):
        return [f"(?i:{part})" for part in _alternatives(_inner(expression[4:-1]))]
    return [expression]


def _fewer(count: re.Match[str]) -> str:
    if int(count[1]) <= _MOST:
        return count[0]
    return f"{{{_MOST}}}{count['last']}" if count["last"] is not None else f"{{{_MOST},}}"


def _inner(expression: str) -> str:
    """Remove a group around the whole expression."""
    while expression.startswith("(?:") and _group_end(expression, 0) == len(expression):
        expression = expression[3:-1]
    return expression


def _signs(expression: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """Yield (position, sign) of an expression's parentheses and bars, but for those in classes and escaped ones."""
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
    """Return the end of the group that begins at `start`. Raises ValueError for a group without an end."""
    depth = 0
    for at, sign in _signs(expression, start):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return at + 1
    raise ValueError(f"a group without an end: {expression}")


def _alternatives(expression: str) -> Iterator[str]:
    """Split an expression at its outermost bars."""
    depth = begin = 0
    for at, sign in _signs(expression):
        depth += (sign == "(") - (sign == ")")
        if sign == "|" and depth == 0:
            yield expression[begin:at]
            begin = at + 1
    yield expression[begin:]
