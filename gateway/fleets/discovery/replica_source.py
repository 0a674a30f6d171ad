"""Define `ReplicaSource`, the seam for what finds replicas of a pool outside of the configuration and the store."""

from collections.abc import Callable, Sequence
from typing import Protocol

from gateway.config.models.addresses import Found


class ReplicaSource(Protocol):
    """Some replicas of one pool. What was last found stays while whoever is asked does not answer."""

    @property
    def text(self) -> str:
        """The address, service or folder that replicas are looked up in, for operators."""
        ...

    @property
    def found(self) -> Sequence[Found]:
        """The replicas last found, in a stable order."""
        ...

    @property
    def problem(self) -> str:
        """The problem of the last look-up, in one line; empty: there is none."""
        ...

    async def look(self) -> object:
        """Look once, for a few seconds at most."""
        ...

    async def follow(self, changed: Callable[[], None]) -> None:
        """Go on until cancelled; `changed` is called whenever `found` is another one."""
        ...
