"""Tell a worker's fleets what the replicas hold that launchers start in each other's place, as it is learned."""

import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Final, Protocol

from gateway.config.models.settings import Model
from gateway.scaling.demand.kv_rooms import read_rooms, relaunch_rooms
from gateway.tenancy.tenants.transactions import Storage

#: Seconds between two looks into the store.
LOOK_SECONDS: Final = 5.0


class Fleet(Protocol):
    """A model's replicas, as far as they are told."""

    def launch(self, narrow: int, wide: int) -> None:
        """Note the KV tokens that a replica of either shape holds; 0: there are none."""
        ...


class LaunchedRooms:
    """Of models whose configuration leaves open what such replicas hold; of others it is known from the start."""

    def __init__(
        self,
        storage: Storage,
        models: Sequence[Model],
        fleets: Mapping[str, Fleet],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`fleets` are by model."""
        self._storage, self._clock = storage, clock
        self._models = [
            (model, fleets[model.name])
            for model in models
            if model.reshape is not None and model.reshape.relaunch is not None and not all(relaunch_rooms(model, {}))
        ]
        self._looked_at = -inf

    async def look(self) -> None:
        """Tell what is known by now, if it is time. Raises StoreUnavailable."""
        if not self._models or self._clock() - self._looked_at < LOOK_SECONDS:
            return
        rooms = await read_rooms(self._storage)
        self._looked_at = self._clock()
        for model, fleet in self._models:
            narrow, wide = relaunch_rooms(model, rooms)
            # While one of them is not known, nobody would start the other one for a request.
            fleet.launch(*((narrow, wide) if narrow and wide else (0, 0)))
