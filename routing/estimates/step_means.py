"""Mean recent step time of each replica, prompts included: the time that answers there wait for each token."""

from typing import Final

from protos.types import Work
from routing.contracts.policy import ReplicaView

#: Steps over which the mean is taken (exponentially fading).
MEMORY_STEPS: Final = 60


class StepMeans:
    """Mean step seconds by replica id."""

    def __init__(self) -> None:
        self._means: dict[str, tuple[float, int]] = {}

    def stepped(self, view: ReplicaView, work: Work) -> None:
        """Note steps of a replica, of which `work` was the last."""
        seconds, steps = work.us * 1e-6, view.load.steps
        mean, before = self._means.get(view.id, (seconds, steps))
        if before <= steps:
            keep = (1.0 - 1.0 / MEMORY_STEPS) ** (steps - before)
            seconds += (mean - seconds) * keep
        self._means[view.id] = (seconds, steps)

    def of(self, replica_id: str) -> float:
        """Return the mean in seconds; 0 for a replica without steps."""
        known = self._means.get(replica_id)
        return 0.0 if known is None else known[0]

    def left(self, replica_id: str) -> None:
        """Drop a replica that is gone for good."""
        self._means.pop(replica_id, None)
