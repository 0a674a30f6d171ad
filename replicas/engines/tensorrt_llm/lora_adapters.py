"""LoRA adapters of the library: assigns their numbers and tracks which ones are loaded."""

from collections import OrderedDict
from collections.abc import Mapping

from protos.types import Adapter

#: Bound on remembered adapters; a forgotten one is loaded anew under another number.
_MOST = 4096


class UnknownAdapter(ValueError):
    """The adapter has no path and is not configured on this replica."""


class Adapters:
    """Adapters by number. Numbers are never reused: the library caches weights by number."""

    def __init__(self, paths: Mapping[str, str], capacity: int) -> None:
        """`capacity`: how many the library keeps in main memory before it drops the least recently used."""
        self._paths = dict(paths)
        self._capacity = capacity
        self._numbers: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._last = 0
        self._held: OrderedDict[str, None] = OrderedDict()
        self._changed = capacity > 0

    def find(self, adapter: Adapter) -> tuple[int, str]:
        """Return an adapter's number and path. Raises UnknownAdapter."""
        path = adapter.path or self._paths.get(adapter.name, "")
        if not path:
            raise UnknownAdapter(f"this replica knows no adapter {adapter.name}")
        key = (adapter.name, path)
        number = self._numbers.get(key)
        if number is None:
            self._last += 1
            number = self._numbers[key] = self._last
            if len(self._numbers) > _MOST:
                self._numbers.popitem(last=False)
        self._numbers.move_to_end(key)
        return number, path

    def used(self, name: str) -> None:
        """Note that a request with the adapter has run, so that it is loaded."""
        self._changed |= name not in self._held
        self._held[name] = None
        self._held.move_to_end(name)
        if len(self._held) > self._capacity:
            self._held.popitem(last=False)
            self._changed = True

    def changes(self) -> tuple[str, ...] | None:
        """Return the loaded adapters by name if they have changed since the last call, else None."""
        if not self._changed:
            return None
        self._changed = False
        return tuple(sorted(self._held))
