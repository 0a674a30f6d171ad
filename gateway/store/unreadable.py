"""Records of the store that cannot be read: they may be another version's, or nobody's."""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import msgspec

#: msgspec says so in three ways: of the form, of bytes that are no text, and of lists within lists.
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

T = TypeVar("T")


def readable(records: Iterable[bytes], decode: Callable[[bytes], T]) -> list[T]:
    """Those that can be read."""
    found = []
    for record in records:
        try:
            found.append(decode(record))
        except UNREADABLE:
            continue
    return found
