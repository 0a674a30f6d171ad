"""How long a model lately took to its first token, in one worker."""

from typing import Final

#: Weight of the newest answer; about the last ten count.
_NEWEST: Final = 0.2


class FirstTokenTimes:
    """`seconds` is a moving mean, 0 before the first answer, so that a model that nobody knows yet gets its chance."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def note(self, seconds: float) -> None:
        """One more answer has begun, or was given up, so long after it was asked for."""
        self.seconds = seconds if not self.seconds else self.seconds + _NEWEST * (seconds - self.seconds)
