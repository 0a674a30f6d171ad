"""Strings without which an expression cannot match, so that most texts need not be matched at all.

Knows the part of `re`'s syntax that cues are written in. Where it cannot tell it gives none, and the expression is
matched always.
"""

import re
from collections.abc import Iterator
from typing import Final

_LEAST: Final = 3
#: What a string costs that is in most texts.
_COMMON: Final = 5.0
_OFTEN: Final = frozenset({
    "the", "and", "you", "that", "this", "with", "are", "was", "for", "all", "any", "not", "can", "out", "off",
    "new", "has", "have", "from", "her", "his", "our", "one", "who", "what", "but", "how", "its", "use", "see",
    "say", "get", "may", "let", "now", "other", "their", "which", "when", "where", "will", "would", "there",
    "here", "into", "more", "some", "than", "then", "them", "they", "were", "been", "each", "over",
})  # fmt: skip
_LITERAL: Final = re.compile(r"[^\\\[\](){}?*+|.^$\x00-\x20]+")
_OPTIONAL: Final = re.compile(r"[?*]|\{0,")
_REPEAT: Final = re.compile(r"[+*?]\??|\{\d+(?:,\d*)?\}\??")
_LOOK: Final = re.compile(r"\(\?(?:!|=|<)")


def needles(source: str, *, later: bool = False) -> frozenset[str] | None:
    """One of these strings is in every text that the expression matches; `later`: after what it begins with."""
    branches = list(_branches(source))
    if len(branches) > 1:
        found = [needles(branch, later=later) for branch in branches]
        return None if None in found else frozenset().union(*(some for some in found if some is not None))
    best: frozenset[str] | None = None
    for place, part in _needed(source):
        if later and not place:
            continue
        some = needles(part[3:-1]) if part.startswith("(?:") else frozenset({part})
        if some and min(map(len, some)) >= _LEAST and (best is None or _worth(some) > _worth(best)):
            best = some
    return best


def _worth(some: frozenset[str]) -> float:
    """The rarer its strings are in texts of any kind, the more a choice is worth."""
    return -sum(_COMMON if word in _OFTEN else 1 / len(word) ** 2 for word in some)


def _needed(source: str) -> Iterator[tuple[int, str]]:
    """Groups and literals at the top of an expression that every match has, with their places."""
    place = 0
    while place < len(source):
        end = _end(source, place)
        part = source[place:end]
        literal = not part.startswith(("\\", "[", "(", ".", "^", "$"))
        repeat = _REPEAT.match(source, end)
        if not (repeat and _OPTIONAL.match(repeat[0])) and not _LOOK.match(part) and (literal or part.startswith("(")):
            yield place, part
        place = repeat.end() if repeat else end


def _branches(source: str) -> Iterator[str]:
    """The alternatives at the top of an expression."""
    start = place = 0
    while place < len(source):
        if source[place] == "|":
            yield source[start:place]
            start = place = place + 1
        else:
            place = _end(source, place)
    yield source[start:]


def _end(source: str, place: int) -> int:
    """Where the atom that begins here ends: a group, a class, an escape, or characters that stand for themselves."""
    sign = source[place]
    if sign == "\\":
        return place + 2
    if sign == "[":
        return _class_end(source, place)
    if sign == "(":
        place += 1
        while source[place] != ")":
            place = place + 1 if source[place] == "|" else _end(source, place)
        return place + 1
    literal = _LITERAL.match(source, place)
    if literal is None:
        return place + 1
    end = literal.end()
    # A repetition is of the last character alone.
    return end - 1 if end - place > 1 and _REPEAT.match(source, end) else end


def _class_end(source: str, place: int) -> int:
    place += 2 if source[place + 1] == "^" else 1
    while True:
        place += 2 if source[place] == "\\" else 1
        if source[place] == "]":
            return place + 1
