"""A least-recently-used mapping bounded in bytes, for several threads."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ByteLru(Generic[K, V]):
    """A mapping of at most `max_bytes` that evicts the least recently used entries; `size_of` says an entry's bytes."""

    def __init__(self, max_bytes: int, size_of: Callable[[V], int]) -> None:
        self._max_bytes = max_bytes
        self._size_of = size_of
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._lock = Lock()
        #: The bytes of all entries.
        self.bytes = 0

    def get(self, key: K) -> V | None:
        """Get a value and mark it as used; None if the key is absent."""
        with self._lock:
            value = self._entries.get(key)
            if value is not None:
                self._entries.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> None:
        """Set a value and mark it as used; one larger than the whole mapping is not kept."""
        size = self._size_of(value)
        if size > self._max_bytes:
            return
        with self._lock:
            before = self._entries.pop(key, None)
            if before is not None:
                self.bytes -= self._size_of(before)
            self._entries[key] = value
            self.bytes += size
            while self.bytes > self._max_bytes:
                self.bytes -= self._size_of(self._entries.popitem(last=False)[1])
