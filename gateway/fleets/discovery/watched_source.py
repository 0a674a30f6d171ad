"""The base of replica sources that watch Kubernetes: renewal, its problem, the last list while it is away."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final

from gateway.config.models.addresses import Found
from gateway.kubernetes.list_watch import ListWatch

log = logging.getLogger(__name__)

#: Seconds that the first look may take.
_LOOK_SECONDS: Final = 5.0


class WatchedSource(ABC):
    """Watches objects of a cluster, and makes replicas of them. The subclass has `follow` of a `ReplicaSource`."""

    #: What is wrong where nothing else is, and there are no replicas.
    nothing_found: ClassVar[str]

    def __init__(self, text: str) -> None:
        """`text` names the source that is looked up, for operators."""
        self.text = text
        self._problem = ""
        #: The replicas last found, in a stable order.
        self.found: tuple[Found, ...] = ()

    @property
    def problem(self) -> str:
        """Describe the problem of `found` in one line; empty where there is none."""
        problems = list(filter(None, [*(watch.problem for watch in self._watches()), self._problem]))
        return "; ".join(problems) if problems or self.found else self.nothing_found

    async def look(self) -> None:
        """List the objects once; where that takes long, `follow` goes on with it."""
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                await self._list()
        except TimeoutError:
            log.warning("%s: the API server has not answered within %.0f s", self.text, _LOOK_SECONDS)
        self._renew()

    def _renewing(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Return what renews `found`, and calls `changed` where it is another one then."""

        def renew() -> None:
            before = self.found
            self._renew()
            if self.found != before:
                changed()

        return renew

    @abstractmethod
    def _watches(self) -> Iterable[ListWatch[Any]]:
        """Everything that is watched now."""

    @abstractmethod
    async def _list(self) -> None:
        """List everything that is watched once."""

    @abstractmethod
    def _renew(self) -> None:
        """Set `found` and `_problem` by the objects that are known."""
