"""Model patterns, in which `*` stands for any characters and `?` for one."""

from collections.abc import Iterable
from fnmatch import fnmatchcase


def matches(patterns: Iterable[str], name: str) -> bool:
    """Whether any of the patterns matches a name, `/` included."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def covers(wide: str, narrow: str) -> bool:
    """Whether a pattern matches every name that another one matches."""
    # The shortest such name, and one with runs that only a `*` can take in whole. No pattern has these characters.
    name = narrow.replace("?", "\x01")
    return all(fnmatchcase(name.replace("*", filler), wide) for filler in ("", "\x02" * (len(wide) + 1)))
