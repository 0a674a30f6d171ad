"""A registry of objects that several transports of a process share, with a count of their users."""

from collections.abc import Callable, Hashable
from typing import TypeVar, cast

T = TypeVar("T")


class SharedParts:
    """Objects by what makes them the same, each kept as long as somebody has it."""

    def __init__(self) -> None:
        self._parts: dict[Hashable, tuple[object, int]] = {}

    def take(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the object of the key, made if there is none."""
        part, users = self._parts.get(key) or (make(), 0)
        self._parts[key] = (part, users + 1)
        return cast("T", part)

    def give_back(self, key: Hashable) -> bool:
        """Note that a taker needs it no longer; return whether that was the last one."""
        part, users = self._parts[key]
        if users > 1:
            self._parts[key] = (part, users - 1)
            return False
        del self._parts[key]
        return True
