"""A bounded least-recently-used mapping."""

from collections import OrderedDict
from collections.abc import Hashable, ItemsView, ValuesView
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lru(Generic[K, V]):
    """A mapping of at most `size` entries that evicts the least recently used one."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Get a value and mark it as used; None if the key is absent."""
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Set a value and mark it as used."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def discard(self, key: K) -> None:
        """Remove a key, if present."""
        self._entries.pop(key, None)

    def __len__(self) -> int:
        return len(self._entries)

    def items(self) -> ItemsView[K, V]:
        """All entries, least recently used first."""
        return self._entries.items()

    def values(self) -> ValuesView[V]:
        """All values, the least recently used one first."""
        return self._entries.values()

    def clear(self) -> None:
        self._entries.clear()
