"""Step times of a replica whose shape changes: what is left to move holds its steps up."""

from math import inf

from replicas.reshape.cost import Cost
from replicas.timing import Batch, Series, StepTimer


class HeldUpTimer:
    """The step times of another timer, the first `cost.steps` of them longer by equal parts of `cost.seconds`."""

    def __init__(self, timer: StepTimer, cost: Cost) -> None:
        #: Steps that are still held up, and by how many seconds each is.
        self.left = cost.steps
        self.part = cost.seconds / cost.steps
        self._timer = timer

    def step_seconds(self, batch: Batch) -> float:
        """Return the seconds of the next step; each call is one."""
        seconds = self._timer.step_seconds(batch)
        if self.left:
            self.left -= 1
            seconds += self.part
        return seconds

    def skip(self) -> None:
        """Note that a part's time has passed without a step."""
        self.left -= 1

    def decode_series(self, sequences: int, context: int) -> Series:
        """Return the series; while steps are held up none is done together with others."""
        return Series(inf, 0.0) if self.left else self._timer.decode_series(sequences, context)

    def transfer_seconds(self, tokens: int) -> float:
        """Return what the other timer says."""
        return self._timer.transfer_seconds(tokens)
