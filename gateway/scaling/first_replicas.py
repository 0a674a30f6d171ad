"""When the first replica of a model at zero is expected, as far as the controller has told: for `retry-after`."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Final

from gateway.config.models.settings import Model
from gateway.scaling.status import FRESH_SECONDS, ModelStatus, PoolStatus, read_status
from gateway.tenancy.tenants.transactions import Storage
from protos.types import Role

#: Seconds in which a controller sees that requests wait, and has a replica started.
NOTICE_SECONDS: Final = 2.0


def first_replica_in(model: Model, status: ModelStatus | None, now: float) -> float:
    """Return the seconds from `now`, on the store's clock, until the model may serve.

    `status` None: nothing is known but the configuration. A model of prefill and decode replicas needs one of each.
    Infinite: nothing starts, since an operator has paused the model or set all its pools to 0.
    """
    if status is not None and _is_kept_at_zero(status):
        return math.inf
    known = {pool.name: pool for pool in status.pools} if status is not None else {}
    waits: dict[Role, list[float]] = {}
    for pool in model.pools:
        if pool.scaling is not None:
            startup = pool.scaling.startup_seconds
            waits.setdefault(pool.role, []).append(_seconds(startup, known.get(pool.name), now))
    soonest = {role: min(found) for role, found in waits.items()}
    both = [soonest[Role.BOTH]] if Role.BOTH in soonest else []
    if Role.PREFILL in soonest and Role.DECODE in soonest:
        both.append(max(soonest[Role.PREFILL], soonest[Role.DECODE]))
    return min(both, default=max(soonest.values()))


def _is_kept_at_zero(status: ModelStatus) -> bool:
    nothing_starts = not any(pool.starting for pool in status.pools)
    return nothing_starts and (status.paused or all(pool.pinned == 0 for pool in status.pools))


def _seconds(startup: float, status: PoolStatus | None, now: float) -> float:
    if status is not None and status.startup_seconds is not None:
        startup = status.startup_seconds
    # A start that lasts longer than others is taken to last for as long beyond them again: nobody knows more of it.
    left = [] if status is None else [abs(startup - (now - replica.since)) for replica in status.starting]
    return min(left, default=startup + NOTICE_SECONDS)


class FirstReplicas:
    """What one worker knows of it; `look` reads it anew."""

    def __init__(self, storage: Storage, models: Sequence[Model], clock: Callable[[], float] = time.monotonic) -> None:
        self._storage = storage
        self.use(models)
        self._clock = clock
        #: By model, on this process's clock.
        self._expected: dict[str, float] = {}

    def use(self, models: Sequence[Model]) -> None:
        """Go by these settings of the models from now on."""
        self._models = {model.name: model for model in models}

    async def look(self) -> None:
        """Read what the controller has told; an old status is no better than none.

        Raises:
            StoreUnavailable: The store did not answer.
        """
        now, status = await read_status(self._storage)
        fresh = status.models if status is not None and now - status.at <= FRESH_SECONDS else []
        told = {model.model: model for model in fresh}
        at = self._clock()
        self._expected = {
            name: at + first_replica_in(model, told.get(name), now) for name, model in self._models.items()
        }

    def seconds(self, model: str) -> float:
        """Return the seconds until the model may serve; below 0 where that is past and nothing was read since."""
        if model not in self._expected:
            return first_replica_in(self._models[model], None, 0.0)
        return self._expected[model] - self._clock()
