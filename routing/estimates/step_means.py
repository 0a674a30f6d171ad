"""How long the steps of each replica have taken lately: what answers there wait for each token, prompts included."""

from typing import Final

from protos.types import Work
from routing.contracts.policy import ReplicaView

#: Steps over which the mean is taken, older ones counting ever less.
MEMORY_STEPS: Final = 60


class StepMeans:
    """By replica id, in seconds."""

    def __init__(self) -> None:
        self._means: dict[str, tuple[float, int]] = {}

    def stepped(self, view: ReplicaView, work: Work) -> None:
        """A replica has done steps, of which this was the last."""
        seconds, steps = work.us * 1e-6, view.load.steps
        mean, before = self._means.get(view.id, (seconds, steps))
        if before <= steps:
            keep = (1.0 - 1.0 / MEMORY_STEPS) ** (steps - before)
            seconds += (mean - seconds) * keep
        self._means[view.id] = (seconds, steps)

    def of(self, replica_id: str) -> float:
        """The mean; 0 of a replica that has done none."""
        known = self._means.get(replica_id)
        return 0.0 if known is None else known[0]

    def left(self, replica_id: str) -> None:
        """It is gone for good."""
        self._means.pop(replica_id, None)
