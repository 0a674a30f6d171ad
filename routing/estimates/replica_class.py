"""Step times of a replica class (one shape and role) as fast lookup tables over its step model."""

from collections.abc import Callable
from typing import Final

from protos.types import Role, Shape, Work
from routing.contracts.policy import ReplicaView
from routing.contracts.versions import VERSIONS
from routing.estimates.silent_steps import is_silent
from routing.estimates.step_model import StepModel

#: Prompt tokens of the two steps whose difference gives the time per token: both are bound by arithmetic.
SOME_TOKENS, MANY_TOKENS = 2048, 8192
#: Steps learned between rebuilds of the tables: at first, and once the class is well known.
FIRST_REFRESH, LAST_REFRESH = 8, 128
#: A well-known class learns from one step in this many, which is enough to follow changes.
THINNING: Final = 8


class DecodeSteps(dict[int, float]):
    """Seconds of a decode step by number of sequences, computed on first use."""

    __slots__ = ("_model",)

    def __init__(self, model: StepModel) -> None:
        super().__init__()
        self._model = model

    def __missing__(self, sequences: int) -> float:
        seconds = self[sequences] = self._model.seconds(sequences)
        return seconds


class ReplicaClass:
    """Step times in seconds. `decode(sequences)` is a step of that many, without the cost of their context."""

    __slots__ = ("_skip", "_until", "context_seconds", "decode", "model", "pair_seconds", "token_seconds")

    def __init__(self, model: StepModel) -> None:
        self.model = model
        self._skip = 0
        self._refresh()

    def learn(self, work: Work) -> bool:
        """Learn from a step; return whether the step times given here have changed."""
        steps = self.model.steps
        if steps > LAST_REFRESH * THINNING:
            self._skip += 1
            if self._skip % THINNING:
                return False
        self.model.learn(work)
        if self.model.steps < self._until:
            return False
        self._refresh()
        return True

    def _refresh(self) -> None:
        model = self.model
        self._until = model.steps + (FIRST_REFRESH if model.steps < LAST_REFRESH else LAST_REFRESH)
        # Called several times per candidate of a decision: `__getitem__` avoids a Python call.
        self.decode: Callable[[int], float] = DecodeSteps(model).__getitem__
        more = model.seconds(MANY_TOKENS) - model.seconds(SOME_TOKENS)
        #: Seconds per prompt token in a full step; always positive.
        self.token_seconds = max(more / (MANY_TOKENS - SOME_TOKENS), 1e-9)
        self.context_seconds = model.context_seconds
        self.pair_seconds = model.pair_seconds


class ReplicaClasses:
    """The classes of one model's replicas. A new one starts from the one with the nearest size.

    Each pool of engines that report no steps is a class of its own, since its shape is unknown. Pools of two versions
    are of two classes. A replica keeps its class until it has `left`.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, ReplicaClass] = {}
        self._by_class: dict[tuple[Shape, Role, int, str], ReplicaClass] = {}

    def of(self, view: ReplicaView) -> ReplicaClass:
        """Return the class of a replica."""
        found = self._by_id.get(view.id)
        if found is None:
            found = self._by_id[view.id] = self._class_of(view)
        return found

    def left(self, replica_id: str) -> None:
        """Drop a replica that is gone, or of another shape from now on; its class stays known."""
        self._by_id.pop(replica_id, None)

    def _class_of(self, view: ReplicaView) -> ReplicaClass:
        kind = (view.shape, view.role, view.features & VERSIONS, view.pool if is_silent(view) else "")
        found = self._by_class.get(kind)
        if found is None:
            found = self._by_class[kind] = self._new(view.shape)
        return found

    def _new(self, shape: Shape) -> ReplicaClass:
        known = [(kind[0], made) for kind, made in self._by_class.items() if made.model.steps and not kind[3]]
        nearest = min(known, key=lambda pair: abs(pair[0].gpus - shape.gpus), default=None)
        return ReplicaClass(StepModel(shape.gpus, nearest[1].model if nearest else None))
