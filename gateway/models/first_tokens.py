"""A moving mean of a model's time to first token (TTFT) in one worker."""

from typing import Final

#: Weight of the newest answer; about the last ten count.
_NEWEST: Final = 0.2


class FirstTokenTimes:
    """`seconds` is the moving mean of the TTFT; it is 0 before the first answer, so that an unused model is tried."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def note(self, seconds: float) -> None:
        """Add one time to first token, or the time after which the request was abandoned."""
        self.seconds = seconds if not self.seconds else self.seconds + _NEWEST * (seconds - self.seconds)
