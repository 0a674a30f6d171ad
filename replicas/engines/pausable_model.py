"""A replica model that can be stopped between two steps, and go on with other limits and step times."""

import asyncio
from typing import TypeVar

from replicas.engine_limits import Limits
from replicas.model import ReplicaModel
from replicas.sequence import Phase, Sequence
from replicas.timing import StepTimer

S = TypeVar("S", bound=Sequence)


class PausableModel(ReplicaModel[S]):
    """The model of an engine whose shape can change. `looked` is set whenever a step could begin."""

    def __init__(self, limits: Limits, timer: StepTimer) -> None:
        super().__init__(limits, timer)
        self.paused = False
        self.looked = asyncio.Event()

    def begin(self, now: float) -> float | None:
        """Plan the next step as any model does; while it is paused there is nothing to do."""
        self.looked.set()
        return None if self.paused else super().begin(now)

    @property
    def reserved(self) -> int:
        """Blocks that are set aside for running sequences."""
        return self._reserved

    @property
    def timer(self) -> StepTimer:
        """The step times."""
        return self._timer

    @timer.setter
    def timer(self, timer: StepTimer) -> None:
        self._timer = timer

    def publish(self) -> None:
        """Make the full blocks of all running sequences reusable."""
        for sequence in self._running.values():
            if sequence.phase is Phase.DECODE:
                self._store(sequence, sequence.prompt + sequence.produced_at(self.clock) - 1)
            elif sequence.phase is Phase.PREFILL:
                self._store(sequence, sequence.computed)

    def change(self, limits: Limits, timer: StepTimer, now: float) -> None:
        """Go on with other limits and step times; sequences without room for their KV compute it anew."""
        carried = self.take_out()
        if not self.cache.resize(limits.kv_blocks):
            raise AssertionError("no sequence holds a block")
        self.limits, self._timer = limits, timer
        self.take_in(carried, now)
