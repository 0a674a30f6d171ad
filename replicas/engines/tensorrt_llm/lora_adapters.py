"""LoRA adapters: a number for each, which the library knows it by, and which of them it holds."""

from collections import OrderedDict
from collections.abc import Mapping

from protos.types import Adapter

#: Adapters that are remembered by number; one that is forgotten is loaded anew under another.
_MOST = 4096


class UnknownAdapter(ValueError):
    """An adapter without a path, which this replica was not told of."""


class Adapters:
    """Numbers are never given twice: the library keeps weights by number, and would answer with the wrong ones."""

    def __init__(self, paths: Mapping[str, str], capacity: int) -> None:
        """`capacity`: how many the library keeps in main memory before it drops the one used longest ago."""
        self._paths = dict(paths)
        self._capacity = capacity
        self._numbers: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._last = 0
        self._held: OrderedDict[str, None] = OrderedDict()
        self._changed = capacity > 0

    def find(self, adapter: Adapter) -> tuple[int, str]:
        """Its number and path. Raises UnknownAdapter."""
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
        """A request with it has run, so it is loaded."""
        self._changed |= name not in self._held
        self._held[name] = None
        self._held.move_to_end(name)
        if len(self._held) > self._capacity:
            self._held.popitem(last=False)
            self._changed = True

    def changes(self) -> tuple[str, ...] | None:
        """Those that are loaded, by name, if that has changed since the last time it was asked."""
        if not self._changed:
            return None
        self._changed = False
        return tuple(sorted(self._held))
