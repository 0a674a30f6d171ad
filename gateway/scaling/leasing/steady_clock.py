"""The store's clock without jumps that do not stay."""

import time
from collections.abc import Callable, Iterable
from typing import Final

from gateway.scaling.intents import Intent, moved_by

#: A difference in seconds beyond which the store's clock has jumped; smaller ones are followed bit by bit.
JUMP_SECONDS: Final = 2.0
#: Seconds after which a jump is followed at once, where the clock has gone on evenly since.
FOLLOW_SECONDS: Final = 60.0
_FOLLOWED: Final = 0.1


class SteadyClock:
    """Seconds since the epoch, as the store counts them. It goes back only where it follows a jump that stays."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._offset: float | None = None
        self._last = 0.0
        #: The store's clock over ours when it was last heard, its jumps included.
        self._ahead = 0.0
        #: The same after a jump, and when it was first heard so.
        self._jumped: tuple[float, float] | None = None
        #: A sentence for operators while the store's clock is elsewhere; empty otherwise.
        self.warning = ""

    def heard(self, store_time: float) -> float:
        """Take the store's time of now; returns by how many seconds a jump is followed, mostly 0."""
        now = self._monotonic()
        ahead = self._ahead = store_time - now
        if self._offset is None:
            self._offset = ahead
        behind = ahead - self._offset
        if abs(behind) <= JUMP_SECONDS:
            self._offset += _FOLLOWED * behind
            self._jumped, self.warning = None, ""
            return 0.0
        if self._jumped is None or abs(ahead - self._jumped[0]) > JUMP_SECONDS:
            self._jumped = (ahead, now)
        if now - self._jumped[1] >= FOLLOW_SECONDS:
            self._offset, self._last, self._jumped, self.warning = ahead, 0.0, None, ""
            return behind
        self.warning = (
            f"the store's clock has jumped by {behind:+.0f} s, which is followed once it has stayed so for "
            f"{FOLLOW_SECONDS:.0f} s"
        )
        return 0.0

    def now(self) -> float:
        """The time; needs that the store was heard once."""
        assert self._offset is not None
        self._last = max(self._last, self._offset + self._monotonic())
        return self._last

    def store_now(self) -> float:
        """The store's time with its jumps, for what others compare with it; needs that the store was heard once."""
        return self._ahead + self._monotonic()


class FollowedJump:
    """A jump that is followed, and by which all intents are set, once each.

    Where a write may have been done although the store did not answer, the next round goes by what it finds.
    """

    def __init__(self) -> None:
        #: By how many seconds the clock was set that is not known to be written down.
        self.seconds = 0.0
        #: By intent when it was made, as it may have been written, and how much of `seconds` is in that.
        self._written: dict[str, tuple[float, float]] = {}

    def add(self, seconds: float) -> None:
        """Follow a jump; 0: there is none."""
        self.seconds += seconds

    def moved(self, intents: Iterable[Intent]) -> list[Intent]:
        """Set stored intents by what they lack of the jump."""
        found = []
        for intent in intents:
            made, part = self._written.get(intent.id, (None, 0.0))
            found.append(moved_by(self.seconds - (part if intent.made == made else 0.0), intent))
        return found

    def note(self, intents: Iterable[Intent]) -> None:
        """Note intents of the clock of now that are about to be written."""
        if self.seconds:
            self._written |= {intent.id: (intent.made, self.seconds) for intent in intents}

    def done(self) -> None:
        """Everything is written."""
        self.seconds, self._written = 0.0, {}
