"""Rounds of a scaler in virtual time: what a controller would see, what it decides, and what is noted of both."""

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from loadtest.simulation.scaling.replica_lives import Lives, Stage
from replicas.controller.decision import Decision, Scaler
from replicas.controller.snapshot import Demand, Forecast, PoolSnapshot, Snapshot

#: A change of direction within so many seconds of the last change counts as a flap.
FLAP_SECONDS = 600.0


class Point(msgspec.Struct, frozen=True, array_like=True):
    """A fleet after a round at `at` seconds. Replicas of all pools together; `cost` in US dollars an hour."""

    at: float
    rate: float
    wanted: int
    ready: int
    starting: int
    draining: int
    cost: float
    expected: float | None


class Watch(Protocol):
    """What the gateways and engines tell a controller."""

    def demand(self, now: float) -> Demand:
        """Return what clients want."""
        ...

    def pool(self, name: str, now: float) -> PoolSnapshot:
        """Return what the engines of a pool report, without their lives."""
        ...


Forecaster = Callable[[float, float], Forecast | None]


class ScalingRounds:
    """Holds a round each `every` seconds. `forecaster` gets the time and the observed rate, and is asked each round."""

    def __init__(
        self,
        scaler: Scaler,
        lives: Lives,
        watch: Watch,
        *,
        every: float,
        until: float,
        forecaster: Forecaster | None = None,
    ) -> None:
        """There is no round after `until`."""
        self.points: list[Point] = []
        self.decisions: list[Decision] = []
        self.actions = self.flaps = 0
        self.next = every
        self._until = until
        self._scaler = scaler
        self._lives = lives
        self._watch = watch
        self._every = every
        self._forecaster = forecaster
        self._changed: dict[str, tuple[float, int, int]] = {}  # by pool: when, in which direction, what was wanted

    @property
    def due(self) -> float:
        """When there is something to do."""
        return min(self.next, self._lives.due)

    def hold(self, now: float) -> None:
        """Do what is due."""
        self._lives.advance(now)
        if now >= self.next:
            self.next += self._every
            if self.next > self._until:
                self.next = float("inf")
            self._round(now)

    def _round(self, now: float) -> None:
        demand = self._watch.demand(now)
        forecast = self._forecaster(now, demand.requests_per_second) if self._forecaster else None
        snapshot = Snapshot(
            now=now,
            demand=demand,
            pools={name: self._pool(name, now) for name in self._lives.pools},
            forecast=forecast,
            spot_price=self._spot_prices(),
            interruptions_per_hour={name: pool.interruptions_per_hour for name, pool in self._lives.pools.items()},
        )
        decision = self._scaler.decide(snapshot)
        self._count(decision, now)
        self._lives.follow(decision, now)
        self.decisions.append(decision)
        counts = {stage: sum(len(self._lives.living(name, stage)) for name in self._lives.pools) for stage in Stage}
        self.points.append(
            Point(
                now,
                demand.requests_per_second,
                sum(pool.wanted for pool in decision.pools.values()),
                counts[Stage.READY],
                counts[Stage.STARTING],
                counts[Stage.DRAINING],
                self._lives.cost_per_hour,
                forecast.mean[0] if forecast and forecast.mean else None,
            )
        )

    def _pool(self, name: str, now: float) -> PoolSnapshot:
        lives = self._lives
        starting = lives.living(name, Stage.STARTING)
        ready = lives.living(name, Stage.READY)
        return msgspec.structs.replace(
            self._watch.pool(name, now),
            ready=len(ready),
            starting=tuple(now - life.started for life in starting),
            stopping=len(lives.living(name, Stage.DRAINING)),
            spot_ready=sum(life.spot for life in ready),
            spot_starting=sum(life.spot for life in starting),
            startup_seconds=lives.pools[name].scaling.startup_seconds,
        )

    def _spot_prices(self) -> Mapping[str, float]:
        scalings = (pool.scaling for pool in self._lives.pools.values())
        return {scaling.name: scaling.spot_price for scaling in scalings if scaling.spot_price is not None}

    def _count(self, decision: Decision, now: float) -> None:
        for name, pool in decision.pools.items():
            before = self._changed.get(name)
            if before is None:
                have = len(self._lives.living(name, Stage.READY, Stage.STARTING))
                before = (float("-inf"), 0, have)
            at, direction, wanted = before
            if pool.wanted == wanted:
                self._changed[name] = before
                continue
            self.actions += 1
            turned = 1 if pool.wanted > wanted else -1
            self.flaps += turned == -direction and now - at < FLAP_SECONDS
            self._changed[name] = (now, turned, pool.wanted)
