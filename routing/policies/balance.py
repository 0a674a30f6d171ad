"""Detects units that have more than their fair share of the load, by size."""

from collections.abc import Sequence
from typing import Final

from routing.contracts.units import Unit
from routing.policies.measures import backlog, sequences

#: Multiple of its fair share of the fleet's sequences from which on a unit is overloaded: SMG's figure.
FACTOR: Final = 1.5
#: Least excess over the fair share, in sequences. SMG has 64, which suits replicas that hold hundreds: with eight
#: replicas and 64 requests one could hold them all. AIBrix calls a fleet uneven at a difference of 8.
MARGIN: Final = 8


class Balance:
    """Compares the load of units with their fair shares, which are proportional to GPUs."""

    __slots__ = ("_backlog", "_sequences")

    def __init__(self, found: Sequence[Unit]) -> None:
        views = [unit.view for unit in found]
        count = sum(map(sequences, views))
        tokens = sum(map(backlog, views))
        gpus = sum(view.shape.gpus for view in views)
        #: Fair shares of one GPU.
        self._sequences = count / max(gpus, 1)
        self._backlog = tokens / max(gpus, 1)

    def overloaded(self, unit: Unit, saved_tokens: float) -> bool:
        """Whether a unit holds far more sequences than its fair share, or more waiting prompts than a cache hit saves.

        The latter: its waiting prompt tokens exceed the mean elsewhere by more than `saved_tokens`, so that the prompt
        would sooner be computed anew there.
        """
        view = unit.view
        gpus = view.shape.gpus
        held, fair = sequences(view), self._sequences * gpus
        if held > FACTOR * fair and held - fair > MARGIN:
            return True
        return backlog(view) - self._backlog * gpus > saved_tokens
