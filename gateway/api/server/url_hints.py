"""Which path somebody may have meant who asked for one that is not there."""

from collections.abc import Iterable
from re import Pattern
from typing import Final

#: Where base URLs of clients are wrong, they are wrong by a few parts.
_MOST_PARTS: Final = 8
_VERSION: Final = "v1"


def meant(path: str, known: Iterable[Pattern[str]]) -> str | None:
    """A path of ours that ends as this one does: a slash or `/v1` too many or too few, or something before it."""
    parts = [part for part in path.split("/") if part]
    if len(parts) > _MOST_PARTS:
        return None
    known = list(known)
    for first in range(len(parts)):
        rest = parts[first:]
        if rest[0] == _VERSION:
            continue
        for tried in ("/".join(("", _VERSION, *rest)), "/".join(("", *rest))):
            if tried != path and any(pattern.match(tried) for pattern in known):
                return tried
    return None
