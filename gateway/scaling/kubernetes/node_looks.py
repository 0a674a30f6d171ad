"""Looks at the nodes that replicas run on, now and then."""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

from gateway.kubernetes.api_server import ApiServer
from gateway.kubernetes.objects import Node
from gateway.kubernetes.resources import NODES
from gateway.scaling.kubernetes.nodes import is_spot, notice_seconds
from protos.cluster_errors import ClusterObjectMissing, ClusterRefuses, ClusterUnavailable

log = logging.getLogger(__name__)

#: Seconds between two looks at a node: a notice is 25 s long at least.
_EVERY_SECONDS: Final = 3.0
#: Seconds after which a node is forgotten that was not looked at.
_FORGOTTEN_SECONDS: Final = 60.0
#: Seconds for which it is not asked again after a role has not allowed it.
_REFUSED_SECONDS: Final = 60.0


class NodeLooks:
    """What is known of nodes; the role needs the verb `get` on nodes, and without it orders say what is preemptible."""

    def __init__(self, server: ApiServer, clock: Callable[[], float]) -> None:
        """`clock` gives the seconds since the epoch."""
        self._server = server
        self._clock = clock
        self._seen: dict[str, tuple[float, Node | None]] = {}
        #: When the nodes that have a notice go.
        self._going: dict[str, float] = {}
        self._refused_at: float | None = None

    async def look(self, names: Collection[str]) -> None:
        """Look at nodes that were not looked at lately, and forget those that nobody asks about any more."""
        now = self._clock()
        self._seen = {name: one for name, one in self._seen.items() if now - one[0] < _FORGOTTEN_SECONDS}
        self._going = {name: at for name, at in self._going.items() if name in self._seen}
        if self._refused_at is not None and now - self._refused_at < _REFUSED_SECONDS:
            return
        due = [name for name in sorted(names) if now - self._seen.get(name, (0.0, None))[0] >= _EVERY_SECONDS]
        await asyncio.gather(*(self._look_at(name, now) for name in due))

    def is_spot(self, name: str) -> bool | None:
        """Whether a node is preemptible; None: not known."""
        node = self._seen.get(name, (0.0, None))[1]
        return None if node is None else is_spot(node)

    def goes_at(self, name: str) -> float | None:
        """When a node goes, in seconds since the epoch; None: nothing says that it does."""
        return self._going.get(name)

    async def _look_at(self, name: str, now: float) -> None:
        try:
            node = await self._server.get(NODES, name)
        except ClusterRefuses as error:
            if self._refused_at is None:
                log.warning("%s; a replica is preemptible where it was ordered so, and no notice is seen", error)
            self._refused_at = now
            return
        except ClusterObjectMissing:
            return
        except ClusterUnavailable as error:
            log.info("%s", error)
            return
        self._refused_at = None
        self._seen[name] = (now, node)
        seconds = notice_seconds(node)
        if seconds is None:
            self._going.pop(name, None)
        else:
            self._going.setdefault(name, now + seconds)
