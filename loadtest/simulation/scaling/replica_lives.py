"""Lives of virtual replicas: started, ready, draining, gone; with the time and money that they take."""

import enum
import heapq
import random
from collections.abc import Sequence
from itertools import count
from typing import Final, Protocol

from loadtest.simulation.scaling.virtual_pool import VirtualPool
from replicas.controller.decision import Decision

#: Seconds between a spot replica's notice and its end.
NOTICE_SECONDS: Final = 120.0
_HOUR: Final = 3600.0


class Stage(enum.Enum):
    """The stages of a life."""

    STARTING = enum.auto()
    READY = enum.auto()
    DRAINING = enum.auto()
    GONE = enum.auto()


class Life:
    """One replica. `ends` is when a preempted one is taken away, `drained` when it was last sent a request."""

    __slots__ = ("drained", "ends", "id", "pool", "spot", "stage", "started", "stopped")

    def __init__(self, name: str, pool: VirtualPool, *, spot: bool, started: float) -> None:
        self.id, self.pool, self.spot, self.started = name, pool, spot, started
        self.stage = Stage.STARTING
        self.stopped = self.ends = self.drained = float("inf")

    @property
    def price(self) -> float:
        """US dollars an hour; 0 where unknown."""
        scaling = self.pool.scaling
        return (scaling.spot_price if self.spot else scaling.price) or 0.0


class Plant(Protocol):
    """What serves with the replicas that live."""

    def ready(self, life: Life, now: float) -> None:
        """Let a replica serve."""
        ...

    def drain(self, life: Life, now: float) -> None:
        """Send a replica nothing more."""
        ...

    def ended(self, life: Life, now: float) -> float | None:
        """Return when a draining replica has ended what it had; None: it has not."""
        ...

    def take(self, life: Life, now: float) -> None:
        """Take a replica away; what it has moves or is lost."""
        ...


class Lives:
    """All replicas of a virtual fleet, which follow decisions."""

    def __init__(self, pools: Sequence[VirtualPool], plant: Plant, seed: int) -> None:
        self.pools = {pool.name: pool for pool in pools}
        self.all: list[Life] = []
        self.starts = self.stops = self.interruptions = 0
        self._living: list[Life] = []
        self._plant = plant
        self._rng = random.Random(seed)
        self._events: list[tuple[float, int, Life, Stage]] = []
        self._order = count()

    def begin(self, pool: VirtualPool, ready: int) -> None:
        """Have replicas that are ready at time 0."""
        for _ in range(ready):
            life = self._new(pool, spot=False, now=0.0)
            life.stage = Stage.READY
            self._plant.ready(life, 0.0)

    @property
    def due(self) -> float:
        """When the next event is."""
        return self._events[0][0] if self._events else float("inf")

    def living(self, pool: str, *stages: Stage) -> list[Life]:
        """Return the lives of a pool in some stages, by their start."""
        return [life for life in self._living if life.pool.scaling.name == pool and life.stage in stages]

    def advance(self, now: float) -> None:
        """Do what is due: replicas become ready, get their notice, are taken away; drained ones end."""
        while self._events and self._events[0][0] <= now:
            at, _, life, stage = heapq.heappop(self._events)
            if life.stage is Stage.GONE:
                continue
            if stage is Stage.READY and life.stage is Stage.STARTING:
                life.stage = stage
                self._plant.ready(life, at)
            elif stage is Stage.DRAINING:
                self.interruptions += 1
                life.ends = at + NOTICE_SECONDS
                self._schedule(life.ends, life, Stage.GONE)
                self._stop(life, at)
            elif stage is Stage.GONE:
                self._plant.take(life, at)
                self._gone(life, at)
        for life in [life for life in self._living if life.stage is Stage.DRAINING]:
            ended = self._plant.ended(life, now)
            if ended is not None:
                self._plant.take(life, now)
                self._gone(life, ended)

    def follow(self, decision: Decision, now: float) -> None:
        """Start and stop what a decision asks for. Those that have started last go first."""
        for name, wanted in decision.pools.items():
            spot = min(wanted.spot, wanted.wanted)
            for is_spot, target in ((False, wanted.wanted - spot), (True, spot)):
                have = [life for life in self.living(name, Stage.STARTING, Stage.READY) if life.spot is is_spot]
                for _ in range(target - len(have)):
                    self.starts += 1
                    self._start(self.pools[name], spot=is_spot, now=now)
                have.sort(key=lambda life: (life.stage is Stage.STARTING, life.started))
                for life in have[target:]:
                    self.stops += 1
                    self._stop(life, now)

    def finish(self, now: float) -> None:
        """End the accounts."""
        for life in self.all:
            life.stopped = min(life.stopped, now)

    def replica_hours(self, *, spot: bool | None = None) -> float:
        """Return the replica-hours from starts to ends; with `spot` those of one kind."""
        return sum(self._hours(life) for life in self.all if spot in (None, life.spot))

    @property
    def gpu_hours(self) -> float:
        """GPU-hours from starts to ends."""
        return sum(self._hours(life) * life.pool.scaling.shape.gpus for life in self.all)

    @property
    def cost(self) -> float:
        """US dollars."""
        return sum(self._hours(life) * life.price for life in self.all)

    @property
    def cost_per_hour(self) -> float:
        """US dollars an hour, now."""
        return sum(life.price for life in self._living)

    def _hours(self, life: Life) -> float:
        return max(0.0, life.stopped - life.started) / _HOUR

    def _new(self, pool: VirtualPool, *, spot: bool, now: float) -> Life:
        life = Life(f"{pool.name}-{len(self.all)}", pool, spot=spot, started=now)
        self.all.append(life)
        self._living.append(life)
        return life

    def _start(self, pool: VirtualPool, *, spot: bool, now: float) -> None:
        life = self._new(pool, spot=spot, now=now)
        self._schedule(now + pool.scaling.startup_seconds, life, Stage.READY)
        if spot:
            rate, lost_at = pool.interruptions_per_hour, pool.spot_lost_at
            notice = now + _HOUR * self._rng.expovariate(rate) if rate else float("inf")
            notice = min(notice, lost_at) if lost_at >= now else notice
            if notice < float("inf"):
                self._schedule(notice, life, Stage.DRAINING)

    def _stop(self, life: Life, now: float) -> None:
        if life.stage is Stage.STARTING:
            self._gone(life, now)
        elif life.stage is Stage.READY:
            life.stage, life.drained = Stage.DRAINING, now
            self._plant.drain(life, now)

    def _gone(self, life: Life, now: float) -> None:
        life.stage, life.stopped = Stage.GONE, now
        self._living.remove(life)

    def _schedule(self, at: float, life: Life, stage: Stage) -> None:
        heapq.heappush(self._events, (at, next(self._order), life, stage))
