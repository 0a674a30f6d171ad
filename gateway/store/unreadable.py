"""Decoding of stored records that may be unreadable, as after a downgrade."""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import msgspec

#: msgspec's errors: a wrong form, bytes that are no UTF-8, and lists nested too deeply.
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

T = TypeVar("T")


def readable(records: Iterable[bytes], decode: Callable[[bytes], T]) -> list[T]:
    """Decode the records, leaving out those that cannot be read."""
    found = []
    for record in records:
        try:
            found.append(decode(record))
        except UNREADABLE:
            continue
    return found
