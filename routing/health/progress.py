"""Detects engines that stopped stepping behind a server that still answers."""

import random

from routing.health.patience import Patience

#: Seconds for which an engine may have requests without a step. The longest steps, prefills of a whole step's tokens,
#: take one or two seconds.
WEDGED_SECONDS = 5.0
#: Seconds without a step after which an engine is probed. Each worker adds up to half of it at random; the first probe
#: serves all workers, since they see its step.
IDLE_SECONDS = 10.0


class Progress:
    """Step progress of one engine; `tick` is called at regular intervals in which the event loop ran."""

    __slots__ = ("_idle", "_moved", "_steps", "_wedged", "idle")

    def __init__(self) -> None:
        self._wedged = Patience(WEDGED_SECONDS)
        self._idle = Patience(IDLE_SECONDS * random.uniform(1.0, 1.5))
        self._steps: int | None = None
        self._moved = False
        #: Whether it has made no step for so long that it must be probed.
        self.idle = False

    def begin(self) -> None:
        """Begin a session: its first report gives the count of steps to compare with."""
        self._steps = None
        self.renew()

    def renew(self) -> None:
        """Restart the timers: the engine has stepped, or is given time to."""
        self._moved, self.idle = True, False

    def reported(self, steps: int) -> bool:
        """Note the count of steps in a load; return whether it has changed."""
        before = self._steps
        if steps == before:
            return False
        self._steps = steps
        if before is None:
            return False
        self._moved, self.idle = True, False
        return True

    def tick(self, busy: bool) -> bool:
        """Count a tick in which it was `busy` or idle; return whether it counts as wedged."""
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
