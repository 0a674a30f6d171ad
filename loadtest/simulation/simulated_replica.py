"""One replica in virtual time: drives the engine model as fast as possible."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from loadtest.simulation.block_names import own_blocks
from protos.types import KvRemoved, KvStored, KvUpdate, Load, Role, Shape, Work
from replicas.engine_limits import CapacityPolicy, Limits
from replicas.model import ReplicaModel
from replicas.sequence import Sequence
from replicas.timing import StepTimer

if TYPE_CHECKING:
    from loadtest.simulation.flight import Flight

NEVER: Final = float("inf")
_UPDATE_HASHES: Final = 2048


@dataclass(slots=True, eq=False, kw_only=True)
class Leg(Sequence):
    """One replica's part of a request: all of it, its prefill, or its decoding after another replica's prefill."""

    flight: "Flight"
    hands_off: bool = False

    def further_blocks(self, count: int) -> list[int]:
        """Return names of its own: an answer's blocks are reused only where a later prompt in the trace has them."""
        return own_blocks(self.flight.number, len(self.hashes), count)


class Replica:
    """The model of one replica, its clock, and its events since the last call.

    `worked` has the steps that were done by the end of each of `works`. `load` is as of the last finished step, `due`
    is the end of the step in progress.
    """

    def __init__(self, name: str, pool: str, shape: Shape, role: Role, limits: Limits, timer: StepTimer) -> None:
        self.id, self.pool, self.shape, self.role, self.limits = name, pool, shape, role, limits
        self.model: ReplicaModel[Leg] = ReplicaModel(limits, timer)
        self.model.cache.drain_events()
        self.load = self.model.load
        self.due = NEVER
        self.last = 0.0  # when the last step ended
        self.steps = 0
        self.busy = 0.0  # s of steps with work
        self.version = 0  # grows whenever `load` may have changed
        self.prefilling = 0  # prefill legs that are still to be handed off
        self.ended: list[Leg] = []
        self.works: list[Work] = []
        self.worked: list[int] = []
        self._updates = 0

    @property
    def reserves_output(self) -> bool:
        """Whether a request runs only once there is room for all that it may ask for."""
        return self.limits.policy is CapacityPolicy.GUARANTEED_NO_EVICT

    def submit(self, leg: Leg, now: float) -> None:
        """Queue a leg that arrives now. The replica must have been advanced to `now`."""
        self.model.submit([leg], now)
        self.prefilling += leg.hands_off
        if self.due == NEVER:
            self._begin(now)

    def advance(self, until: float) -> None:
        """Do all steps that end by `until`; append their results to `ended` and `works`."""
        model = self.model
        while self.due <= until:
            now = self.due
            work = model.work
            ended = model.end(now)
            if work is not None:
                self._worked(work, 1)
            if ended:
                self.ended += ended
            steps, now = model.forward(now, until)
            if steps and model.work is not None:
                self._worked(model.work, steps)
                self.busy += now - self.due
            self.last = now
            self.load = model.load
            self.version += 1
            self._begin(now)

    def halt(self) -> float:
        """End the step in progress and begin no other; return when it ends, or ended."""
        if self.due == NEVER:
            return self.last
        self.last, self.due = self.due, NEVER
        work = self.model.work
        self.ended += self.model.end(self.last)
        if work is not None:
            self._worked(work, 1)
        self.load = self.model.load
        self.version += 1
        return self.last

    def start(self, now: float) -> None:
        """Begin to step with what its model has taken in."""
        self.load = self.model.load
        self._begin(now)

    def drain_kv(self, *, wanted: bool) -> list[KvUpdate]:
        """Return what the cache has stored and evicted since the last call, in messages of a server's size.

        Empty unless `wanted`; the events are consumed either way.
        """
        events = self.model.cache.drain_events()
        if not wanted:
            return []
        # Ordered sets: blocks that were stored and evicted in between cancel out.
        stored: dict[int, None] = {}
        removed: dict[int, None] = {}
        for event in events:
            match event.data:
                case KvStored(_, blocks):
                    _exchange((block for block, _ in blocks), removed, stored)
                case KvRemoved(blocks):
                    _exchange(blocks, stored, removed)
        names, gone = list(stored), list(removed)
        updates = []
        for at in range(0, max(len(names), len(gone)), _UPDATE_HASHES):
            self._updates += 1
            part = slice(at, at + _UPDATE_HASHES)
            updates.append(KvUpdate(self._updates, stored=names[part], removed=gone[part]))
        return updates

    def reported(self, workers: int) -> Load:
        """Return the load as the replica's server sends it to each of `workers` gateway workers."""
        load = self.load
        return Load(
            load.running,
            load.waiting,
            load.kv_blocks_used,
            load.kv_blocks_total,
            load.tokens_in_flight,
            False,
            load.prefill_tokens,
            workers,
            load.kv_blocks_reserved,
            load.prefill_pairs,
            self.steps,
        )

    def take_works(self) -> tuple[list[Work], list[int]]:
        """Return what was done since the last call, with the steps that were done by the end of each."""
        taken = self.works, self.worked
        self.works, self.worked = [], []
        return taken

    def _worked(self, work: Work, steps: int) -> None:
        self.steps += steps
        self.works.append(work)
        self.worked.append(self.steps)

    def _begin(self, now: float) -> None:
        seconds = self.model.begin(now)
        if seconds is None:
            self.due = NEVER
            return
        self.due = now + seconds
        if self.model.work is not None:
            self.busy += seconds


def _exchange(blocks: Iterable[int], undone: dict[int, None], done: dict[int, None]) -> None:
    for block in blocks:
        if block in undone:
            del undone[block]
        else:
            done[block] = None
