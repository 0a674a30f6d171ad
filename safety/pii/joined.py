"""What stands at places of a text, and what cells of its tables are, as one."""

from collections.abc import Sequence

from safety.match import Match


class Joined:
    """Tells both in order. Where they overlap, the one that begins first says what it is, of two a cell last."""

    __slots__ = ("_cells", "_label", "_matches", "end")

    def __init__(self) -> None:
        self._matches: list[Match] = []
        self._cells: list[Match] = []
        self._label = ""
        #: Where the last one ends that has been told.
        self.end = 0

    @property
    def waits(self) -> bool:
        """Whether something is still to be told."""
        return bool(self._matches or self._cells)

    def take(self, matches: Sequence[Match], cells: Sequence[Match], decided: int) -> list[Match]:
        """More of both; gives those that begin before `decided`, before which none will come any more."""
        self._matches += matches
        self._cells += cells
        told: list[Match] = []
        # Of those that begin together, the sort leaves the order as it is.
        for match in sorted((*self._matches, *self._cells), key=_start):
            if match.start >= decided:
                break
            if match.start >= self.end:
                told.append(match)
                self._label = match.label
            elif match.end > self.end:
                told.append(match._replace(start=self.end, label=self._label))
            self.end = max(self.end, match.end)
        self._matches = [match for match in self._matches if match.start >= decided]
        self._cells = [cell for cell in self._cells if cell.start >= decided]
        return told


def _start(match: Match) -> int:
    return match.start
