"""What one class of replicas, of a shape and a role, takes for prompts and for answers: quick tables over its model."""

from collections.abc import Callable
from typing import Final

from protos.types import Role, Shape, Work
from routing.contracts.policy import ReplicaView
from routing.estimates.silent_steps import is_silent
from routing.estimates.step_model import StepModel

#: Prompt tokens of the steps from whose difference the time for one more is taken: both are bound by arithmetic.
SOME_TOKENS, MANY_TOKENS = 2048, 8192
#: The tables are made anew after so many steps learned, and later, once the class is known well, after so many.
FIRST_REFRESH, LAST_REFRESH = 8, 128
#: A class that is known well learns from one step in so many, which is enough to follow changes.
THINNING: Final = 8


class DecodeSteps(dict[int, float]):
    """By their number of decoding sequences, each worked out when it is first asked for."""

    __slots__ = ("_model",)

    def __init__(self, model: StepModel) -> None:
        super().__init__()
        self._model = model

    def __missing__(self, sequences: int) -> float:
        seconds = self[sequences] = self._model.seconds(sequences)
        return seconds


class ReplicaClass:
    """All figures are in seconds. `decode(sequences)` is a step of so many, without what their context adds."""

    __slots__ = ("_skip", "_until", "context_seconds", "decode", "model", "pair_seconds", "token_seconds")

    def __init__(self, model: StepModel) -> None:
        self.model = model
        self._skip = 0
        self._refresh()

    def learn(self, work: Work) -> None:
        """Take in a step."""
        steps = self.model.steps
        if steps > LAST_REFRESH * THINNING:
            self._skip += 1
            if self._skip % THINNING:
                return
        self.model.learn(work)
        if self.model.steps >= self._until:
            self._refresh()

    def _refresh(self) -> None:
        model = self.model
        self._until = model.steps + (FIRST_REFRESH if model.steps < LAST_REFRESH else LAST_REFRESH)
        # Asked for several times for each candidate of a decision: a call that does not go through Python.
        self.decode: Callable[[int], float] = DecodeSteps(model).__getitem__
        more = model.seconds(MANY_TOKENS) - model.seconds(SOME_TOKENS)
        #: For each prompt token in a step that is full of them; positive, whatever was learned.
        self.token_seconds = max(more / (MANY_TOKENS - SOME_TOKENS), 1e-9)
        self.context_seconds = model.context_seconds
        self.pair_seconds = model.pair_seconds


class ReplicaClasses:
    """The classes of one model's replicas, found by pool. A new one starts from the one with the nearest size.

    Pools of engines that say nothing of their steps are each a class of its own: what their shapes are, nobody knows.
    """

    def __init__(self) -> None:
        self._by_pool: dict[str, ReplicaClass] = {}
        self._by_class: dict[tuple[Shape, Role], ReplicaClass] = {}

    def of(self, view: ReplicaView) -> ReplicaClass:
        """The class of a replica."""
        found = self._by_pool.get(view.pool)
        if found is None:
            found = self._new(view.shape) if is_silent(view) else self._class_of(view.shape, view.role)
            self._by_pool[view.pool] = found
        return found

    def _class_of(self, shape: Shape, role: Role) -> ReplicaClass:
        found = self._by_class.get((shape, role))
        if found is None:
            found = self._by_class[shape, role] = self._new(shape)
        return found

    def _new(self, shape: Shape) -> ReplicaClass:
        known = [(other, made) for other, made in self._by_class.items() if made.model.steps]
        nearest = min(known, key=lambda pair: abs(pair[0][0].gpus - shape.gpus), default=None)
        return ReplicaClass(StepModel(shape.gpus, nearest[1].model if nearest else None))
