"""Whether an engine still steps, as its session tells: a server that speaks may stand before an engine that hangs."""

import random

from routing.health.patience import Patience

#: How long an engine may have requests and make no step. The longest steps, prefills of a whole step's tokens, take one
#: or two seconds.
WEDGED_SECONDS = 5.0
#: After how long without a step an engine is asked for one. Each worker waits for up to half as long again, and whoever
#: asks first has asked for all: they see the step that it makes.
IDLE_SECONDS = 10.0


class Progress:
    """The steps of one engine; `tick` is called at regular intervals of the event loop's life."""

    __slots__ = ("_idle", "_moved", "_steps", "_wedged", "idle")

    def __init__(self) -> None:
        self._wedged = Patience(WEDGED_SECONDS)
        self._idle = Patience(IDLE_SECONDS * random.uniform(1.0, 1.5))
        self._steps: int | None = None
        self._moved = False
        #: Whether it has made no step for so long that nobody knows if it still could.
        self.idle = False

    def begin(self) -> None:
        """A session has begun: its first report says how many steps there were before."""
        self._steps = None
        self.renew()

    def renew(self) -> None:
        """It has done something, or is given time to."""
        self._moved, self.idle = True, False

    def reported(self, steps: int) -> bool:
        """Its count of steps, as a load has it; whether that has changed."""
        before, self._steps = self._steps, steps
        if before is None or steps == before:
            return False
        self.renew()
        return True

    def tick(self, busy: bool) -> bool:
        """A tick has passed, in which it was `busy` or had nothing to do; whether it counts as wedged."""
        if self._moved:
            self._moved = False
            self._wedged.renew()
            self._idle.renew()
            return False
        if self._idle.tick():
            self.idle = True
        if not busy:
            self._wedged.renew()
            return False
        return self._wedged.tick()
