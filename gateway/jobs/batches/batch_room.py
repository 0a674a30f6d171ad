"""Batch room: how many batch requests a worker may run now for one model, beside interactive requests.

Where replicas report their batch size, batches fill the free slots except for a reserve for the next interactive
requests: as many as the recent peak of interactive requests exceeds the present number, plus a part of the fleet that
is small while nothing interactive waits and doubles whenever something does. No more requests begin at once than an
engine's queue holds without blocking, since requests that begin together end together and would begin together again.
Where replicas report no size, or refuse, an additive-increase limit holds: one more for each answer, half as many after
a refusal. Nothing here waits or sleeps.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from math import floor
from typing import Final, Protocol

from gateway.scheduling.capacity import ENGINE_QUEUE, ENGINE_QUEUE_PART, Need, fits, servable
from gateway.scheduling.division import Divider
from gateway.tenancy.tenants.caller import is_background
from routing.contracts.policy import ReplicaView

#: The limit at the start where replicas report no batch size.
FIRST_LIMIT: Final = 8.0
#: Part of the slots that is reserved, at least and at most.
MIN_RESERVE: Final = 0.02
MAX_RESERVE: Final = 0.5
#: Half-life of the reserve beyond the least, in seconds.
RESERVE_SECONDS: Final = 5.0
#: Half-life of the peak of interactive requests, in seconds.
PEAK_SECONDS: Final = 15.0
#: A limit is halved, and the reserve doubled, at most once in so many seconds.
ADJUST_SECONDS: Final = 0.5
#: How old a snapshot of the fleet may be, in seconds.
SNAPSHOT_SECONDS: Final = 0.005
_ONE: Final = Need(1, 1, 1, 1)


class Fleet(Protocol):
    """The replicas of a model."""

    def candidates(self) -> Sequence[ReplicaView]:
        """Return the replicas that take requests."""
        ...


class AdmissionQueue(Protocol):
    """The admission queue of the model."""

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        ...

    @property
    def keeps_at_zero(self) -> bool:
        """Whether requests wait while the fleet has no replica, until one is started for them."""
        ...

    @property
    def divider(self) -> Divider:
        """The divider that counts admitted requests by tenant."""
        ...

    def depths(self) -> Mapping[str, int]:
        """The number of waiting requests by tenant."""
        ...


class Room:
    """The room of one model in one worker. Each request is `begun`, then `ended`."""

    def __init__(
        self,
        fleet: Fleet,
        admission_queue: AdmissionQueue,
        watermark: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`watermark` is the part of a replica's slots that is filled at all; `clock` counts seconds."""
        self._fleet = fleet
        self._admission_queue = admission_queue
        self._watermark = watermark
        self._clock = clock
        self.running = 0
        self._limit = FIRST_LIMIT
        self._reserve = MIN_RESERVE
        self._decayed_at = self._pressed_at = self._refused_at = self._refreshed_at = -1e9
        self._peak = 0.0
        self._free = self._burst = 0.0
        self._unsized = True

    def free(self, unsent: Callable[[], int]) -> int:
        """Give how many more may begin now; `unsent` counts those that have begun and no replica counts yet."""
        now = self._clock()
        if self._pressed(now):
            return 0
        if now - self._refreshed_at >= SNAPSHOT_SECONDS:
            self._refresh(now)
            count = unsent()
            self._free -= count
            self._burst -= count
        limit = self._limit - self.running
        return max(0, int(limit if self._unsized else min(self._free, self._burst, limit)))

    def begun(self) -> None:
        """Count a request that begins."""
        self.running += 1
        self._free -= 1.0
        self._burst -= 1.0

    def ended(self, *, well: bool) -> None:
        """Count a request that ended; `well`: with an answer, not refused for lack of room."""
        self.running -= 1
        if not well:
            now = self._clock()
            if now - self._refused_at >= ADJUST_SECONDS:
                self._refused_at = now
                self._limit = max(1.0, min(self._limit, self.running + 1.0) / 2.0)
        elif self.running + 1 >= self._limit * 0.5:
            self._limit += 1.0

    def _pressed(self, now: float) -> bool:
        """Whether interactive requests wait; if so, double the reserve."""
        if not self._admission_queue.waiting or all(is_background(name) for name in self._admission_queue.depths()):
            return False
        if now - self._pressed_at >= ADJUST_SECONDS:
            self._pressed_at = now
            self._decay_reserve(now)
            self._reserve = min(MAX_RESERVE, 2.0 * self._reserve)
        return True

    def _decay_reserve(self, now: float) -> None:
        """Let the reserve decay."""
        passed, self._decayed_at = min(now - self._decayed_at, 60.0), now
        self._reserve = max(MIN_RESERVE, self._reserve * 0.5 ** (passed / RESERVE_SECONDS))
        self._peak *= 0.5 ** (passed / PEAK_SECONDS)

    def _refresh(self, now: float) -> None:
        self._refreshed_at = now
        self._decay_reserve(now)
        others = self._admission_queue.divider.foreground
        self._peak = max(self._peak, float(others))
        free = burst = slots = 0.0
        unsized = False
        views = servable(self._fleet.candidates())
        if not views and self._admission_queue.keeps_at_zero:
            # One waits, so that a replica is started.
            self._unsized, self._free = False, 1.0 - self.running
            self._burst = self._free
            return
        for view in views:
            workers = view.load.workers or 1
            unsized = unsized or not view.max_batch_size
            slots += view.max_batch_size / workers
            if fits(view, _ONE, self._watermark):
                occupied = view.load.running + view.load.waiting
                # Only whole slots of a replica can be used.
                free += max(0.0, (floor(self._watermark * view.max_batch_size) - occupied) / workers - view.sent)
                queue = max(ENGINE_QUEUE, ENGINE_QUEUE_PART * view.max_batch_size) - view.load.waiting
                burst += max(0.0, queue / workers - view.sent)
        reserve = max(1.0, self._reserve * slots, self._peak - others)
        self._unsized = unsized
        self._free, self._burst = free - reserve, burst
        if not unsized:
            # The free slots are known; the limit only guards against replicas that refuse all the same.
            self._limit = max(self._limit, FIRST_LIMIT) if now - self._refused_at < 10.0 else slots + FIRST_LIMIT
