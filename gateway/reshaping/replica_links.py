"""The controller's own sessions to replicas: how these stand in their groups, and the way of orders to them."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from protos.errors import ReplicaUnavailable
from protos.reshape import ReshapeOrder
from protos.types import Load
from replicas.reshape.group_view import Member
from routing.transports.control_link import ControlLink
from routing.transports.control_session import ControlSession
from routing.transports.replica_spec import ReplicaSpec

log = logging.getLogger(__name__)


class SeenReplica(msgspec.Struct, frozen=True):
    """A replica that can be reached, and how it stands; `member` None: it is in no group."""

    spec: ReplicaSpec
    member: Member | None


class Replicas(Protocol):
    """The seam to replicas."""

    def use(self, specs: Sequence[ReplicaSpec]) -> None:
        """Reach these replicas from now on, and no others."""
        ...

    def seen(self) -> Sequence[SeenReplica]:
        """All replicas that can be reached now."""
        ...

    def order(self, model: str, address: str, order: ReshapeOrder) -> None:
        """Send an order soon. Raises ReplicaUnavailable."""
        ...

    async def aclose(self) -> None:
        """End all sessions."""
        ...


class ReplicaLinks:
    """The `Replicas` of sessions."""

    def __init__(self, name: str) -> None:
        """`name` is how replicas see this process."""
        self._name = name
        self._links: dict[tuple[str, str], ControlLink] = {}
        self._closing: set[asyncio.Task[None]] = set()
        #: Called when a replica comes, goes, or says how it stands.
        self.changed: Callable[[], None] = _ignore

    def use(self, specs: Sequence[ReplicaSpec]) -> None:
        wanted = {(spec.model, spec.address): spec for spec in specs}
        for place, link in list(self._links.items()):
            if wanted.get(place) != link.spec:
                task = asyncio.create_task(self._links.pop(place).aclose())
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
        for place, spec in wanted.items():
            if place not in self._links:
                self._links[place] = ControlLink(spec, self._name, self._told)

    def seen(self) -> Sequence[SeenReplica]:
        # Before its first load a replica would be taken for one that runs nothing, and does not drain.
        return [
            SeenReplica(link.spec, _member(link.spec, session, session.load))
            for link in self._links.values()
            if (session := link.session) is not None and session.load is not None
        ]

    def order(self, model: str, address: str, order: ReshapeOrder) -> None:
        link = self._links.get((model, address))
        if link is None:
            raise ReplicaUnavailable(f"The replica at {address} is not known.")
        link.order(order)

    async def aclose(self) -> None:
        links, self._links = self._links, {}
        await asyncio.gather(*(link.aclose() for link in links.values()), *self._closing)

    def _told(self) -> None:
        self.changed()


def _member(spec: ReplicaSpec, session: ControlSession, load: Load) -> Member | None:
    membership = session.membership
    if membership is None:
        return None
    return Member(
        spec.address,
        session.epoch,
        membership,
        used=(load.kv_blocks_used + load.kv_blocks_reserved) * membership.info.kv_block_tokens,
        queued=load.waiting > 0,
        draining=load.draining,
    )


def _ignore() -> None:
    """Tell nobody."""
