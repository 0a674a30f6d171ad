"""Define `Rounds`, the seam for what changes a simulated fleet while it serves."""

from collections.abc import Sequence
from typing import Protocol

from loadtest.simulation.simulated_replica import Replica
from protos.types import Work


class Rounds(Protocol):
    """Looks at a running simulation at times of its own, and lets replicas join, drain and go."""

    @property
    def due(self) -> float:
        """The virtual time of the next round; infinite: there is none."""
        ...

    def hold(self, now: float) -> None:
        """Hold the round that is due at `now`; everything has been advanced to then."""
        ...

    def stepped(self, replica: Replica, works: Sequence[Work]) -> None:
        """Note steps that a replica has reported."""
        ...
