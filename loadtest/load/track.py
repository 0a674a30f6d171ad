"""How far a benchmark is, told to whoever shows it."""

from collections.abc import Callable


class Track:
    """Counts the parts of a run that are done; `show` gets a label, the parts done so far and all of them."""

    def __init__(self, parts: int, show: Callable[[str, float, int], None] | None = None) -> None:
        self._parts = parts
        self._done = 0
        self._show = show

    def at(self, label: str, fraction: float = 0.0) -> None:
        """The current part is this far."""
        if self._show is not None:
            self._show(label, self._done + min(1.0, fraction), self._parts)

    def part_done(self) -> None:
        """The current part is over."""
        self._done += 1
