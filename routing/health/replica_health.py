"""One replica's health: decides from reports of its session, engine and requests whether it gets requests.

Pure: `now` is in seconds of a monotonic clock, and `tick` is called at regular intervals in which the event loop ran
(routing/health/patience.py).
"""

from collections.abc import Callable
from math import inf
from typing import Final

from routing.health.breaker import Breaker
from routing.health.progress import Progress
from routing.health.ramp import Ramp
from routing.health.replica_status import State

#: Seconds between a failed probe and the next one, where no breaker decides.
PROBE_AGAIN_SECONDS: Final = 1.0
#: Seconds for which an engine without a step still counts as stepping.
STEPPING_SECONDS: Final = 1.0
_AWAY: Final = (State.CONNECTING, State.REFUSED)


class ReplicaHealth:
    """The state of one replica, apart from draining by operators or the replica itself.

    A replica that connects for the first time is trusted; a returning one must first answer a probe and then gets a
    growing part of the requests.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called after each change of `state` or `reason`."""
        self.state = State.CONNECTING
        self.reason = "not connected yet"
        self.progress = Progress()
        self.ramp: Ramp | None = None
        self.breaker = Breaker()
        #: Number of ejections, not counting extensions of one.
        self.ejections = 0
        #: Whether it has answered a probe or made a step since it connected.
        self.proven = False
        #: Whether a replica that connects for the first time is probed at once.
        self.prove_first = False
        #: The impossible value in its last report; empty where there was none.
        self.nonsense = ""
        self._changed = changed
        self._ejected_for = ""
        self._known = False
        self._probe_at = 0.0
        self._stepped_at = -inf

    @property
    def serves(self) -> bool:
        """Whether it may get requests."""
        return self.state is State.READY or self.state is State.RETURNING

    @property
    def is_outlier(self) -> bool:
        """Whether it is ejected only because others do better, so that it serves where there are no others."""
        return self.state is State.EJECTED and not self.nonsense

    def connected(self) -> None:
        """Note the first open session."""
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
        """Note that the last session has ended; return whether the replica should be ejected for it."""
        self.ramp = None
        self._become(State.CONNECTING, reason)
        return self.breaker.failed(now)

    def away(self, reason: str, *, refused: bool = False) -> None:
        """Note a failed attempt to connect while no session is open; `refused`: what answered does not match."""
        self._become(State.REFUSED if refused else State.CONNECTING, reason)

    def doubt(self, now: float, nonsense: str) -> None:
        """Note an implausible report; an empty `nonsense` clears it."""
        self.nonsense = nonsense
        if nonsense and self.state is not State.EJECTED:
            self.eject(now, f"it reports nonsense: {nonsense}")

    def stepped(self, now: float, steps: int) -> bool:
        """Note the count of steps in a report; return whether the engine has stepped since the last one."""
        if not self.progress.reported(steps):
            return False
        self._stepped_at = now
        if not self.proven:
            self._prove()
        return True

    def is_stepping(self, now: float) -> bool:
        """Whether the engine has stepped within STEPPING_SECONDS."""
        return now - self._stepped_at < STEPPING_SECONDS

    def takes_part(self, now: float) -> bool:
        """Whether the current decision may choose it. While it is returning this counts the decision."""
        return self.ramp is None or self.ramp.takes_part(now)

    def tick(self, now: float, busy: bool) -> bool:
        """Count a tick; return whether the engine is wedged with requests, which must go elsewhere."""
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
        """Eject it for a while, for longer each time."""
        self.ejections += not self.breaker.is_open
        self.breaker.open(now)
        self.ramp = None
        self._ejected_for = reason
        if self.state not in _AWAY:
            self._become(State.EJECTED, reason)

    def wants_probe(self, now: float) -> bool:
        """Whether a probe should be sent now."""
        if now < self._probe_at or self.state in _AWAY:
            return False
        if self.serves:
            return self.progress.idle or (self.prove_first and not self.proven)
        return self.state is not State.EJECTED or not self.breaker.remaining(now)

    def probe_begins(self) -> None:
        """Note that a probe was sent; the engine's time to step starts now."""
        self.progress.renew()

    def probe_ended(self, now: float, problem: str) -> bool:
        """Note a probe's end (`problem`: why it failed); return whether a replica in service should be ejected."""
        if problem or self.nonsense:
            return self._probe_failed(now, problem or self.nonsense)
        if not self.proven:
            self._prove()
        self.progress.renew()
        if self.breaker.remaining(now):
            return False  # the probe was sent before the ejection
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
        self.proven = True
        if self.prove_first:
            self._changed()

    def _become(self, state: State, reason: str = "") -> None:
        if (state, reason) != (self.state, self.reason):
            self.state, self.reason = state, reason
            self._changed()
