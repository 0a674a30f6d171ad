"""One replica's health: from what its session, its engine and its requests say, whether it gets requests.

Pure: `now` is in seconds, of any clock that only advances, and `tick` is called at regular intervals of the event
loop's life (routing/health/patience.py).
"""

from collections.abc import Callable
from math import inf
from typing import Final

from routing.health.breaker import Breaker
from routing.health.progress import Progress
from routing.health.ramp import Ramp
from routing.health.replica_status import State

#: How long after a probe that failed the next one is sent, where no breaker says so.
PROBE_AGAIN_SECONDS: Final = 1.0
#: How long an engine without a step counts as at work.
STEPPING_SECONDS: Final = 1.0
_AWAY: Final = (State.CONNECTING, State.REFUSED)


class ReplicaHealth:
    """The state of one replica, less what operators and the replica itself say of draining.

    A replica that connects for the first time is trusted; one that comes back must first answer a probe, and then gets
    a growing part of the requests.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called after each change of `state` or `reason`."""
        self.state = State.CONNECTING
        self.reason = "not connected yet"
        self.progress = Progress()
        self.ramp: Ramp | None = None
        self.breaker = Breaker()
        #: How often it was left alone, not counting that it was for longer.
        self.ejections = 0
        #: Whether it has answered a probe, or done a step, since it connected.
        self.proven = False
        #: Whether a replica that connects for the first time is asked for a token at once, though nobody waits for it.
        self.prove_first = False
        #: What was impossible in its last report; empty where nothing was.
        self.nonsense = ""
        self._changed = changed
        self._ejected_for = ""
        self._known = False
        self._probe_at = 0.0
        self._stepped_at = -inf

    @property
    def serves(self) -> bool:
        """Whether it is fit for requests."""
        return self.state is State.READY or self.state is State.RETURNING

    @property
    def is_outlier(self) -> bool:
        """Whether it is left alone only because others do better, so that it will do where there are no others."""
        return self.state is State.EJECTED and not self.nonsense

    def connected(self) -> None:
        """A session is open where there was none."""
        first, self._known = not self._known, True
        self.proven, self.nonsense, self._probe_at = False, "", 0.0
        self.progress.begin()
        if self.breaker.is_open:
            self._become(State.EJECTED, self._ejected_for)
        elif first:
            self._become(State.READY)
        else:
            self._become(State.PROBING, "it must answer a probe first")

    def lost(self, now: float, reason: str) -> bool:
        """The last session has ended; whether that was once too often."""
        self.ramp = None
        self._become(State.CONNECTING, reason)
        return self.breaker.failed(now)

    def away(self, reason: str, *, refused: bool = False) -> None:
        """An attempt to connect has failed, while no session is open; or what answered is `refused` as another."""
        self._become(State.REFUSED if refused else State.CONNECTING, reason)

    def doubt(self, now: float, nonsense: str) -> None:
        """Something impossible was reported; or, with nothing, something possible after it."""
        self.nonsense = nonsense
        if nonsense and self.state is not State.EJECTED:
            self.eject(now, f"it reports nonsense: {nonsense}")

    def stepped(self, now: float, steps: int) -> bool:
        """The count of steps in a report; whether the engine has made any since the last one."""
        if not self.progress.reported(steps):
            return False
        self._stepped_at = now
        self._prove()
        return True

    def is_stepping(self, now: float) -> bool:
        """Whether the engine has lately made steps."""
        return now - self._stepped_at < STEPPING_SECONDS

    def takes_part(self, now: float) -> bool:
        """Whether the decision at hand may choose it. Counts the decision, while it is returning."""
        return self.ramp is None or self.ramp.takes_part(now)

    def tick(self, now: float, busy: bool) -> bool:
        """A tick has passed; whether the engine stands still with requests, which can only go elsewhere."""
        if self.ramp is not None and self.ramp.share(now) >= 1.0:
            self.ramp = None
            self._become(State.READY)
        if not self.progress.tick(busy) or self.state in _AWAY:
            return False
        if self.state is not State.EJECTED:
            self.ramp = None
            self._become(State.WEDGED, "its engine has requests and makes no steps")
        return True

    def eject(self, now: float, reason: str) -> None:
        """Leave it alone for a while, for longer each time."""
        self.ejections += not self.breaker.is_open
        self.breaker.open(now)
        self.ramp = None
        self._ejected_for = reason
        if self.state not in _AWAY:
            self._become(State.EJECTED, reason)

    def wants_probe(self, now: float) -> bool:
        """Whether a token should be asked for now."""
        if self.state in _AWAY or now < self._probe_at:
            return False
        if self.state is State.EJECTED:
            return not self.breaker.remaining(now)
        return not self.serves or self.progress.idle or (self.prove_first and not self.proven)

    def probe_begins(self) -> None:
        """A probe is on its way; from now on the engine has its time to step."""
        self.progress.renew()

    def probe_ended(self, now: float, problem: str) -> bool:
        """A probe was answered, or `problem` says why not; whether a replica in service has failed once too often."""
        if problem or self.nonsense:
            return self._probe_failed(now, problem or self.nonsense)
        self._prove()
        self.progress.renew()
        if self.breaker.remaining(now):
            return False  # it was asked before it was ejected
        if not self.serves:
            if self.breaker.is_open:
                self.breaker.close(now)
            self.ramp = Ramp(now)
            self._become(State.RETURNING, "it was away and gets a growing part of the requests")
        return False

    def _probe_failed(self, now: float, problem: str) -> bool:
        self._probe_at = now + PROBE_AGAIN_SECONDS
        if self.state is State.EJECTED:
            self.eject(now, f"its probe: {problem}")
        elif self.state is State.PROBING:
            self._become(State.PROBING, f"its probe: {problem}")
        return self.serves and self.breaker.failed(now)

    def _prove(self) -> None:
        if not self.proven:
            self.proven = True
            if self.prove_first:
                self._changed()

    def _become(self, state: State, reason: str = "") -> None:
        if (state, reason) != (self.state, self.reason):
            self.state, self.reason = state, reason
            self._changed()
