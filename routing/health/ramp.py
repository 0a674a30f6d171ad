"""Slow start of a returning replica: a growing part of the decisions may choose it."""

from typing import Final

RAMP_SECONDS: Final = 10.0
FIRST_SHARE: Final = 0.1


class Ramp:
    """A share of decisions that grows from `began`; the decisions that may choose it are spread evenly."""

    __slots__ = ("_credit", "began")

    def __init__(self, began: float) -> None:
        self.began = began
        self._credit = 0.0

    def share(self, now: float) -> float:
        """Return the share of decisions that may choose it, 0.1 to 1."""
        passed = max(0.0, now - self.began) / RAMP_SECONDS
        return min(1.0, FIRST_SHARE + (1.0 - FIRST_SHARE) * passed)

    def takes_part(self, now: float) -> bool:
        """Count a decision; return whether it may choose the replica."""
        self._credit += self.share(now)
        if self._credit < 1.0:
            return False
        self._credit -= 1.0
        return True
