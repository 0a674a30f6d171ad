"""A replica model that can be stopped between two steps, and go on with other limits and step times."""

import asyncio
from collections.abc import Iterator
from typing import Final, TypeVar

from replicas.engine_limits import Limits
from replicas.kv_cache import PIECE_BLOCKS
from replicas.model import ReplicaModel
from replicas.sequence import Phase, Sequence
from replicas.timing import StepTimer

S = TypeVar("S", bound=Sequence)
#: Phases in which a sequence has KV of its own making.
_WRITING: Final = (Phase.PREFILL, Phase.DECODE)


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

    def publish(self) -> Iterator[None]:
        """Make the full blocks of all running sequences reusable, in pieces; call it while it is paused."""
        size, done = self.limits.tokens_per_block, 0
        for sequence in list(self._running.values()):
            # It may be cancelled between two pieces.
            while sequence.phase in _WRITING:
                decodes, before = sequence.phase is Phase.DECODE, len(sequence.table.shared)
                written = sequence.prompt + sequence.produced_at(self.clock) - 1 if decodes else sequence.computed
                self._store(sequence, min(written, (before + PIECE_BLOCKS - done) * size))
                done += len(sequence.table.shared) - before
                if done < PIECE_BLOCKS:
                    break
                done = 0
                yield

    def change(self, limits: Limits, timer: StepTimer, now: float) -> None:
        """Go on with other limits and step times; sequences without room for their KV compute it anew."""
        carried = self.take_out()
        if not self.cache.resize(limits.kv_blocks):
            raise AssertionError("no sequence holds a block")
        self.limits, self._timer = limits, timer
        self.take_in(carried, now)
