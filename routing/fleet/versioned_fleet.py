"""The fleet of a model whose requests go by version."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Final, NamedTuple

import msgspec

from protos.types import Role, Sampling, Submit
from routing.contracts.policy import ReplicaView
from routing.contracts.transport import Leg, Receiver
from routing.contracts.versions import NAMED, VERSIONS, VersionBits
from routing.fleet.fleet import Fleet
from routing.health.replica_status import ReplicaStatus, State
from routing.policies.abilities import Abilities
from routing.prefix.prefix_directory import PrefixDirectory
from routing.transports.default_sampling import with_defaults
from routing.transports.replica_connection import ReplicaConnection
from routing.transports.replica_spec import ReplicaSpec
from routing.transports.shared_parts import SharedParts

_COLD: Final = "it is not warm yet"


class _Group(NamedTuple):
    """Ready replicas, and the features that all of them have."""

    features: int
    ready: tuple[ReplicaConnection, ...]


class VersionedFleet(Fleet):
    """A fleet whose replicas are of versions, of which some serve; the others get what names them, and nothing else.

    A replica whose version is not known serves nothing.
    """

    def __init__(
        self,
        specs: Iterable[ReplicaSpec],
        worker: str,
        prefixes: PrefixDirectory | None = None,
        *,
        versions: VersionBits,
        serves: int,
        abilities: Abilities | None = None,
        clock: Callable[[], float] = time.monotonic,
        shared: SharedParts | None = None,
    ) -> None:
        """`serves` are the bits of the versions that serve; for all others see Fleet."""
        self.versions = versions
        #: The bits of the versions that serve, and of those that could serve a whole request now.
        self.serves = serves
        self.ready_versions = 0
        #: Called with the versions, by their bits, that could serve a request until now.
        self.on_lost: Callable[[int], None] = _ignore
        #: The bit of the version that takes requests of another one whose replicas are lost; 0: none does.
        self.stable = 0
        #: Called when it takes one.
        self.on_moved: Callable[[], None] = _ignore
        #: The version of which only warm replicas take requests, 0 for none, and those that are.
        self._warming = 0
        self._warm: frozenset[str] = frozenset()
        #: The last statuses with what served, and what was told of both.
        self._seen: tuple[Sequence[ReplicaStatus], tuple[object, ...]] = ((), ())
        self._told: Sequence[ReplicaStatus] = ()
        #: The ready replicas of each version, by its bit; under 0 those that serve.
        self._groups: dict[int, _Group] = {}
        super().__init__(specs, worker, prefixes, abilities=abilities, clock=clock, shared=shared, versions=versions)

    @property
    def ready(self) -> bool:
        """Whether a whole request can be served, by a version that serves."""
        return bool(self.ready_versions & self.serves)

    def serve(self, versions: int, warming: int = 0, warm: frozenset[str] = frozenset()) -> None:
        """Let these versions serve, by their bits, and no others; what has begun goes on.

        Of the version `warming` only the replicas that are `warm`, by id, take requests; the others are ready, and get
        nothing yet. 0: all of any version do.
        """
        if (versions, warming, warm) != (self.serves, self._warming, self._warm):
            self.serves, self._warming, self._warm = versions, warming, warm
            self._refresh()

    def problems(self) -> dict[str, str]:
        """Return why each replica that takes no requests does not, as Fleet does."""
        cold = {id_: _COLD for id_ in self._roster.ready if self._is_cold(self._connections[id_])}
        return super().problems() | cold

    def candidates(self, exclude: Sequence[str] = (), needs: int = 0, adapter: str = "") -> list[ReplicaView]:
        """Return the replicas that can take a request now, as Fleet does: of those that serve, or of its version."""
        group = self._groups.get(needs & VERSIONS)
        if group is None or needs & ~group.features or exclude or adapter or self._returning:
            return super().candidates(exclude, needs, adapter)
        return [connection.view for connection in group.ready]

    def has(self, needs: int, adapter: str = "") -> bool:
        """Whether a replica, or a pair, of the version that is among the needs can take such a request now."""
        version = needs & VERSIONS
        if not version & self.ready_versions:
            return False
        if not adapter and not needs & ~self._groups[version].features:
            return True
        return _whole(view.role for view in self.candidates((), needs, adapter))

    def moved(self, needs: int) -> int:
        """Return the needs with the stable version in place of the request's own, unless its client has named that."""
        if needs & NAMED or not self.stable or needs & VERSIONS in (0, self.stable):
            return needs
        self.on_moved()
        return needs & ~VERSIONS | self.stable

    def statuses(self) -> Sequence[ReplicaStatus]:
        """Return the status of every replica, as Fleet does, with the reason why one that is ready gets nothing."""
        seen = (super().statuses(), (self.serves, self._warming, self._warm))
        if seen[0] is not self._seen[0] or seen[1] != self._seen[1]:
            self._seen, self._told = seen, [self._with_reason(status) for status in seen[0]]
        return self._told

    def _with_reason(self, status: ReplicaStatus) -> ReplicaStatus:
        connection = self._connections.get(status.id)
        if status.state is not State.READY or connection is None:
            return status
        if self._is_cold(connection):
            return msgspec.structs.replace(status, share=0.0, reason=_COLD)
        if connection.marks & self.serves:
            return status
        why = "its version serves no requests now" if connection.marks else "it does not say its version"
        return msgspec.structs.replace(status, share=0.0, reason=why)

    def _is_cold(self, connection: ReplicaConnection) -> bool:
        return bool(connection.marks & self._warming) and connection.spec.id not in self._warm

    def _serving(
        self, ready: tuple[ReplicaConnection, ...]
    ) -> tuple[tuple[ReplicaConnection, ...], tuple[ReplicaConnection, ...]]:
        if self._warming:
            ready = tuple(connection for connection in ready if not self._is_cold(connection))
        of_version: dict[int, list[ReplicaConnection]] = {}
        for connection in ready:
            of_version.setdefault(connection.marks & VERSIONS, []).append(connection)
        of_version.pop(0, None)
        serving = tuple(connection for connection in ready if connection.marks & self.serves)
        self._groups = {0: _Group(0, serving)}
        before, self.ready_versions = self.ready_versions, 0
        for version, own in of_version.items():
            self._groups[version] = _Group(reduce(and_, [connection.features for connection in own]), tuple(own))
            if _whole(connection.spec.role for connection in own):
                self.ready_versions |= version
        if before & ~self.ready_versions:
            self.on_lost(before & ~self.ready_versions)
        return ready, serving


class PinnedFleet(VersionedFleet):
    """A fleet some of whose versions have sampling parameters for requests that name none."""

    #: By version; set before the first request.
    defaults: Mapping[str, Sampling] = {}

    def open(
        self,
        replica_id: str,
        submit: Submit,
        kv_tokens: int | None = None,
        compute_tokens: int | None = None,
        receiver: Receiver | None = None,
    ) -> Leg:
        """Send a request with its version's defaults, as `Transport.open` does. Raises ReplicaUnavailable."""
        defaults = self.defaults.get(self.version(replica_id))
        if defaults is not None:
            submit = with_defaults(submit, defaults)
        return super().open(replica_id, submit, kv_tokens, compute_tokens, receiver)


def _whole(roles: Iterable[Role]) -> bool:
    """Whether replicas of these roles can serve a whole request."""
    there = set(roles)
    return Role.BOTH in there or {Role.PREFILL, Role.DECODE} <= there


def _ignore(*_: int) -> None:
    """Ignore the call: no listener is set."""
