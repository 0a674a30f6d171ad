"""A bounded mapping for what a worker remembers."""

from collections import OrderedDict
from collections.abc import Hashable, ItemsView
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lru(Generic[K, V]):
    """Forgets what was used longest ago once it has more than `size` entries."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value, which counts as a use; None where there is none."""
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Remember a value, which counts as a use."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def discard(self, key: K) -> None:
        """Forget a value, if there is one."""
        self._entries.pop(key, None)

    def items(self) -> ItemsView[K, V]:
        """All entries, those used longest ago first."""
        return self._entries.items()

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
