"""Define `ReplicaSource`, the seam for what finds replicas of a pool outside of the configuration and the store."""

from collections.abc import Callable, Sequence
from typing import Protocol

from gateway.config.models.addresses import Found


class ReplicaSource(Protocol):
    """Some replicas of one pool. What was last found stays while whoever is asked does not answer."""

    @property
    def text(self) -> str:
        """What is looked up, for operators."""
        ...

    @property
    def found(self) -> Sequence[Found]:
        """The replicas last found, in a stable order."""
        ...

    @property
    def problem(self) -> str:
        """What is wrong with them, in one line; empty: nothing."""
        ...

    async def look(self) -> object:
        """Look once, for a few seconds at most."""
        ...

    async def follow(self, changed: Callable[[], None]) -> None:
        """Go on until cancelled; `changed` is called whenever `found` is another one."""
        ...
