"""The store's clock without its jumps."""

import time
from collections.abc import Callable
from typing import Final

#: A difference in seconds beyond which the store's clock has jumped; smaller ones are followed bit by bit.
JUMP_SECONDS: Final = 2.0
_FOLLOWED: Final = 0.1


class SteadyClock:
    """Seconds since the epoch, as the store counted them when it was first heard, and never going back."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._offset: float | None = None
        self._last = 0.0
        #: The store's clock over ours when it was last heard, its jumps included.
        self._ahead = 0.0
        #: A sentence for operators while the store's clock is elsewhere; empty otherwise.
        self.warning = ""

    def heard(self, store_time: float) -> None:
        """Take the store's time of now."""
        self._ahead = store_time - self._monotonic()
        if self._offset is None:
            self._offset = store_time - self._monotonic()
        behind = store_time - self._offset - self._monotonic()
        if abs(behind) <= JUMP_SECONDS:
            self._offset += _FOLLOWED * behind
            self.warning = ""
        else:
            self.warning = f"the store's clock has jumped by {behind:+.0f} s, which is not followed"

    def now(self) -> float:
        """The time; needs that the store was heard once."""
        assert self._offset is not None
        self._last = max(self._last, self._offset + self._monotonic())
        return self._last

    def store_now(self) -> float:
        """The store's time with its jumps, for what others compare with it; needs that the store was heard once."""
        return self._ahead + self._monotonic()
