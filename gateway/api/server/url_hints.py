"""Suggest the path that a client may have meant by an unknown one."""

from collections.abc import Iterable
from re import Pattern
from typing import Final

#: Wrong base URLs are wrong by a few path segments.
_MOST_PARTS: Final = 8
_VERSION: Final = "v1"


def suggested_path(path: str, known: Iterable[Pattern[str]]) -> str | None:
    """Find a known path that ends as this one does: a slash or `/v1` too many or too few, or a prefix before it."""
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
