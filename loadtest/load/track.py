"""Tracks the progress of a benchmark."""

from collections.abc import Callable


class Track:
    """Counts the finished parts of a run; `show` gets a label, the parts done so far and their total."""

    def __init__(self, parts: int, show: Callable[[str, float, int], None] | None = None) -> None:
        self._parts = parts
        self._done = 0
        self._show = show

    def at(self, label: str, fraction: float = 0.0) -> None:
        """Set the progress of the current part."""
        if self._show is not None:
            self._show(label, self._done + min(1.0, fraction), self._parts)

    def part_done(self) -> None:
        """Count the current part as done."""
        self._done += 1
