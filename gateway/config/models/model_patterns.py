"""Model name patterns: `*` stands for any characters and `?` for one."""

from collections.abc import Iterable
from fnmatch import fnmatchcase


def matches(patterns: Iterable[str], name: str) -> bool:
    """Whether any of the patterns matches a name, `/` included."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def covers(wide: str, narrow: str) -> bool:
    """Whether the pattern `wide` matches every name that `narrow` matches."""
    # Test the shortest such name, and one with runs that only `*` can match; patterns cannot hold these characters.
    name = narrow.replace("?", "\x01")
    return all(fnmatchcase(name.replace("*", filler), wide) for filler in ("", "\x02" * (len(wide) + 1)))
