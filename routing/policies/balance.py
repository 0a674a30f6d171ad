"""Whether a unit has more than its part of the load, for its size."""

from collections.abc import Sequence
from typing import Final

from routing.contracts.units import Unit
from routing.policies.measures import backlog, sequences

#: Times its fair part of the fleet's sequences from which on a unit is overloaded: SMG's figure.
FACTOR: Final = 1.5
#: Sequences above its fair part, at least. SMG has 64, which suits replicas that hold hundreds: with eight replicas and
#: 64 requests one could hold them all and count as fine. AIBrix calls a fleet uneven at a difference of 8.
MARGIN: Final = 8


class Balance:
    """The load of some units against their fair parts, which go by GPUs."""

    __slots__ = ("_backlog", "_sequences")

    def __init__(self, found: Sequence[Unit]) -> None:
        views = [unit.view for unit in found]
        count = sum(map(sequences, views))
        tokens = sum(map(backlog, views))
        gpus = sum(view.shape.gpus for view in views)
        #: Fair parts of one GPU.
        self._sequences = count / max(gpus, 1)
        self._backlog = tokens / max(gpus, 1)

    def overloaded(self, unit: Unit, saved_tokens: float) -> bool:
        """Whether it holds far more sequences than its fair part, or prompts whose wait is not worth it.

        That is so when there are more prompt tokens before a request than in the mean elsewhere, by more than what is
        saved by going there: it would sooner be computed anew.
        """
        view = unit.view
        gpus = view.shape.gpus
        held, fair = sequences(view), self._sequences * gpus
        if held > FACTOR * fair and held - fair > MARGIN:
            return True
        return backlog(view) - self._backlog * gpus > saved_tokens
