"""The fleet of one model: connects to its replicas, watches their health and shows policies a snapshot."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf

from protos.errors import ReplicaDraining, ReplicaUnavailable, UpstreamRateLimited
from protos.features import Feature
from protos.types import Role, Submit, Work
from routing.contracts.policy import ReplicaView
from routing.contracts.transport import Leg, Receiver
from routing.contracts.versions import VersionBits
from routing.fleet.alike import as_fast_as_each_other, serving_of, stand_in_key
from routing.fleet.host_groups import Awaited, awaits_member, held_by_widths, with_epoch
from routing.fleet.replica_statuses import ReplicaStatuses, Roster
from routing.fleet.ticker import Ticker
from routing.fleet.wanted_replicas import WantedReplicas
from routing.health.outcomes import Outcome, outcome_of
from routing.health.panic import may_eject
from routing.health.replica_health import STEPPING_SECONDS
from routing.health.replica_pace import Pace, SlowPeers
from routing.health.replica_status import ReplicaStatus, State
from routing.policies.abilities import Abilities, known_adapters
from routing.prefix.prefix_directory import PrefixDirectory
from routing.transports.replica_connection import Listener, ReplicaConnection, TransportContext, no_marks
from routing.transports.replica_spec import ReplicaSpec
from routing.transports.shared_parts import SharedParts
from routing.transports.transport_registry import connection_to

log = logging.getLogger(__name__)

#: Ticks at a time of a fleet whose replicas need nothing of them but to be counted.
CALM_TICKS = 4
#: Seconds between comparisons of the replicas' paces.
JUDGE_SECONDS = 1.0


class Fleet:
    """All replicas of one model, by id. `on_load` is called whenever a replica reports its load, comes or goes.

    `on_work` is called for each step that an engine reports, with the replica's view after it, `on_left` with the id
    of a replica that is gone for good, or has another shape from now on, and `on_widths` with the new `wide_tokens`.
    """

    def __init__(
        self,
        specs: Iterable[ReplicaSpec],
        worker: str,
        prefixes: PrefixDirectory | None = None,
        *,
        abilities: Abilities | None = None,
        clock: Callable[[], float] = time.monotonic,
        shared: SharedParts | None = None,
        versions: VersionBits | None = None,
    ) -> None:
        """`worker` names this process to replicas, `prefixes` follows their KV caches, `clock` counts seconds.

        `abilities` matches replicas with requests' needs; `shared` has what it uses together with other fleets;
        `versions` are the model's, where its requests go by version.
        """
        self.prefixes = prefixes
        self._abilities = abilities or Abilities(versions=versions)
        self.on_load: Callable[[], None] = _ignore
        self.on_work: Callable[[ReplicaView, Work], None] = _ignore
        self.on_left: Callable[[str], None] = _ignore
        self.on_widths: Callable[[int], None] = _ignore
        self._clock = clock
        self._shared = shared or SharedParts()
        listener = Listener(self._refresh, self._loaded, self._worked, self._failing, self._touch, self._reshaped)
        marks = no_marks if versions is None else versions.marks
        self._transport_context = TransportContext(worker, listener, clock, prefixes, self._shared, marks)
        self._connections = {spec.id: connection_to(spec, self._transport_context) for spec in specs}
        self.members = WantedReplicas(connection.spec for connection in self._connections.values())
        self._closing: set[asyncio.Task[None]] = set()
        self._prove_first = False
        #: The replicas that serve, and those among which a request finds the version that it needs.
        self._ready: tuple[ReplicaConnection, ...] = ()
        self._all_ready: tuple[ReplicaConnection, ...] = ()
        #: The replicas that can take a request now.
        self.ready_ids: frozenset[str] = frozenset()
        self._roster, self._statuses, self.awaited = Roster(), ReplicaStatuses(), Awaited(self._connections)
        #: KV tokens that the narrowest and the widest shape hold, and both of shapes that launchers make; 0: none does.
        self.narrow_tokens, self.wide_tokens = self._launched = (0, 0)
        #: Whether the last statuses hold until `_touch`, and how many ticks may be and have been put off until then.
        self._is_still, self._may_skip, self._skipped = False, 0, 0
        #: Ready replicas that only a part of the decisions may choose.
        self._returning: frozenset[ReplicaConnection] = frozenset()
        self._refreshed = asyncio.Event()
        #: Replicas drained by operators -> when, by `clock`, the streams still open there are ended.
        self._drains: Mapping[str, float] = {}
        self._paces = {id_: Pace() for id_ in self._connections}
        self._slow, self._judged_at = SlowPeers(), clock()
        #: It is there between `start` and `aclose`.
        self._ticker: Ticker | None = None

    def __len__(self) -> int:
        return len(self._connections) - len(self.members.leaving)

    def start(self, *, prove_first: bool = False) -> None:
        """Begin to connect to every replica and to tick them.

        With `prove_first` a replica gets no requests before it has answered a probe, while others of its role have.
        """
        self._prove_first = prove_first
        for connection in self._connections.values():
            connection.start(prove_first=prove_first)
        self._ticker = self._shared.take(Ticker, Ticker)
        self._ticker.join(self.tick)

    async def aclose(self) -> None:
        """Close every connection."""
        if self._ticker is not None:
            ticker, self._ticker = self._ticker, None
            ticker.leave(self.tick)
            if self._shared.give_back(Ticker):
                await ticker.aclose()
        await asyncio.gather(*(connection.aclose() for connection in self._connections.values()), *self._closing)

    def set_replicas(self, specs: Iterable[ReplicaSpec]) -> None:
        """Replace the fleet's replicas; call it after `start`.

        A replica that is not among them gets no more requests. Its streams may end within LEAVE_SECONDS; after that
        they end with ReplicaDraining, so that they go on elsewhere, and the replica's state is dropped.
        """
        present = {id_: connection.spec for id_, connection in self._connections.items()}
        before = set(self.members.leaving)
        self.members.want(specs, present, self._clock())
        for id_ in sorted(self.members.leaving.keys() - before):
            log.info("replica %s at %s is no longer among the replicas", id_, present[id_].address)
        self._connect_missing()
        self._refresh()

    def launch(self, narrow: int, wide: int) -> None:
        """Note the KV tokens that a replica holds of either shape that launchers make; 0: there are none."""
        if self._launched != (narrow, wide):
            self._launched = (narrow, wide)
            self._refresh()

    def answers(self, replica_id: str) -> bool:
        """Whether the replica can be reached."""
        connection = self._connections.get(replica_id)
        return connection is not None and connection.connected

    @property
    def ready(self) -> bool:
        """Whether a whole request can be served: by one replica, or by a prefill and a decode replica together."""
        roles = {connection.spec.role for connection in self._ready}
        return Role.BOTH in roles or {Role.PREFILL, Role.DECODE} <= roles

    @property
    def ready_replicas(self) -> int:
        """Number of replicas that take requests."""
        return len(self._all_ready)

    @property
    def refused_replicas(self) -> int:
        """Number of replicas that answer as something else than what is configured."""
        return sum(connection.health.state is State.REFUSED for connection in self._connections.values())

    async def wait_ready(self, minimum: int) -> None:
        """Return once `minimum` replicas, or all if there are fewer, can take a request."""
        while len(self._all_ready) < min(minimum, len(self)):
            await self._refreshed.wait()

    async def wait_tried(self, minimum: int) -> None:
        """Return as `wait_ready` does, or once it is known of all that waiting would not help."""
        while len(self._all_ready) < min(minimum, len(self)) and not all(c.tried for c in self._connections.values()):
            await self._refreshed.wait()

    def problems(self) -> dict[str, str]:
        """Return why each replica that takes no requests does not, by id; for operators, not for clients."""
        told = {id_: self._roster.state(c) for id_, c in self._connections.items() if id_ not in self._roster.ready}
        return {id_: reason or state.value for id_, (state, reason) in told.items()}

    def statuses(self) -> Sequence[ReplicaStatus]:
        """Return the status of every replica, for operators: the same object as the last time if none may differ."""
        if not self._is_still:
            known, now = self._connections.values(), self._clock()
            self._statuses.renew(known, self._roster, now, self.prefixes, self.wide_tokens)
            self._is_still = self._statuses.hold
        return self._statuses.last

    def candidates(self, exclude: Sequence[str] = (), needs: int = 0, adapter: str = "") -> list[ReplicaView]:
        """Return the replicas that can take a request with these needs and adapter now, without the excluded ids.

        A replica that is returning is included in a growing part of the calls.
        """
        ready: Sequence[ReplicaConnection] = self._ready
        if not (needs or adapter or exclude or self._returning):
            return [c.view for c in ready]
        if needs:
            ready = [c for c in self._all_ready if not needs & ~c.view.features]
        if adapter:
            ready = [c for c in ready if self._abilities.can(c, needs, adapter)]
        if exclude:
            return [c.view for c in ready if c.spec.id not in exclude]
        if self._returning:
            now, returning = self._clock(), self._returning
            taking = [c.view for c in ready if c not in returning or c.health.takes_part(now)]
            if taking:
                return taking
            # All capable replicas are returning.
        return [c.view for c in ready]

    def lacks(self, needs: int, adapter: str = "") -> list[Feature]:
        """Return the features that no replica, ready or not, offers; see Abilities.lacks."""
        return self._abilities.lacks(self._connections.values(), needs, adapter)

    def why_not(self, needs: int, adapter: str = "") -> dict[str, str]:
        """Return why each ready replica that cannot take such a request cannot, by id."""
        return self._abilities.why_not(self._all_ready, needs, adapter)

    @property
    def known_adapters(self) -> frozenset[str]:
        """Return the LoRA adapters that any replica serves by name."""
        return known_adapters(self._connections.values())

    def moved(self, needs: int) -> int:
        """Return the needs of a request for whose own no replica is left; the same where nothing else may serve it."""
        return needs

    def unavailable(self) -> ReplicaUnavailable:
        """Return the error for a request that no replica can take now, with a retry time where replicas gave one."""
        waits = [wait for c in self._connections.values() if (wait := c.back_off) is not None]
        if waits:
            return UpstreamRateLimited("The model's provider takes no more requests now.", retry_after=min(waits))
        return ReplicaUnavailable("No replica of this model can take the request now.")

    def taker(self, epoch: int, needs: int, adapter: str) -> ReplicaView | None:
        """Return the replica with an epoch, of which another one says that it has a request's KV cache.

        None: it cannot take the request. Whether it is still parked it knows better than this worker.
        """
        taker = with_epoch(self._connections.values(), epoch)
        if taker is None or self._roster.drains(taker) or not taker.health.serves:
            return None
        return taker.view if self._abilities.can(taker, needs, adapter) else None

    @property
    def awaits_member(self) -> bool:
        """Whether a replica that is parked may serve again before long."""
        return awaits_member(self._connections.values())

    def takes(self, replica_id: str) -> bool:
        """Whether the replica can take a request now."""
        return replica_id in self.ready_ids

    def open(
        self,
        replica_id: str,
        submit: Submit,
        kv_tokens: int | None = None,
        compute_tokens: int | None = None,
        receiver: Receiver | None = None,
    ) -> Leg:
        """Send a request to one replica, as `Transport.open` does. Raises ReplicaUnavailable."""
        connection = self._connections.get(replica_id)
        if connection is None:
            raise ReplicaUnavailable("The replica has left the fleet.")
        self._touch()
        return connection.open(submit, kv_tokens, compute_tokens, receiver)

    def version(self, replica_id: str) -> str:
        """Return the served model's version as reported, else as configured; may be empty."""
        connection = self._connections.get(replica_id)
        return connection.version if connection is not None else ""

    def fingerprint(self, replica_id: str) -> str:
        """Return the `system_fingerprint` of answers: the engine's own name, then `@` and the model's version."""
        connection = self._connections.get(replica_id)
        return connection.fingerprint if connection is not None else ""

    def succeeded(self, replica_id: str) -> None:
        """Note that an attempt at the replica succeeded."""
        if (connection := self._connections.get(replica_id)) is not None:
            connection.health.breaker.succeeded(self._clock())

    def failed(self, replica_id: str, error: BaseException, lasted: float = inf, *, begun: bool = False) -> None:
        """Note that an attempt at the replica ended with an error, whoever's fault; it `lasted` that many seconds.

        `begun`: some of its answer had come.
        """
        connection = self._connections.get(replica_id)
        if connection is None:
            return
        self._touch()
        health, now = connection.health, self._clock()
        # An engine that reports no steps shows by an answer that it steps.
        stepping = health.is_stepping(now) or (begun and not connection.reports_steps)
        outcome = outcome_of(error, stepping=stepping or lasted < STEPPING_SECONDS)
        if outcome is Outcome.SUCCESS:
            health.breaker.succeeded(now)
        elif outcome is Outcome.FAULT and health.breaker.failed(now):
            self._failing(replica_id, f"its requests fail, the last one with {getattr(error, 'detail', '') or error}")

    def drain(self, until: Mapping[str, float]) -> None:
        """Drain these replicas, and no others: they get no requests.

        Streams still open at the given time of the fleet's clock end with ReplicaDraining, so that they go on
        elsewhere.
        """
        before, self._drains = self._drains, until
        for id_ in sorted(before.keys() ^ until.keys()):
            what = "drained, by an operator or as its pool shrinks" if id_ in until else "no longer drained"
            log.info("replica %s is %s", id_, what)
            if id_ in self._connections:
                self._connections[id_].drained = id_ in until
        if before.keys() != until.keys():
            self._refresh()

    def tick(self) -> None:
        """Tick every replica's timers; called at regular intervals in which the event loop ran."""
        if self._skipped < self._may_skip:
            self._skipped += 1
            return
        ticks, self._skipped = self._skipped + 1, 0
        now, drains = self._clock(), self._drains
        for connection in self._connections.values():
            connection.tick(probes=not drains or connection.spec.id not in drains, ticks=ticks)
        for id_, until in drains.items():
            if now >= until and id_ in self._connections:
                self._connections[id_].fail_streams(ReplicaDraining("The replica is being drained."))
        if self._roster.leaving:
            self._remove_leaving(now)
        if now - self._judged_at >= JUDGE_SECONDS:
            self._judged_at = now
            self._eject_slow(now)
        calm = not drains and not self._roster.leaving and all(c.is_calm for c in self._connections.values())
        self._may_skip = CALM_TICKS - 1 if calm else 0

    def _reshaped(self, replica_id: str, in_shape: bool) -> None:
        """Note a replica's new place in its host group, which may be another shape."""
        if replica_id not in self._connections:
            return
        self._paces[replica_id] = Pace()
        self._slow.forget(replica_id)
        if in_shape:
            self.on_left(replica_id)
        self._refresh()

    def _touch(self) -> None:
        """Note that a replica's status may change, or what its ticks are for."""
        self._is_still = False
        self._may_skip = 0

    def _connect_missing(self) -> None:
        """Begin to connect to the replicas that are wanted and not present."""
        for spec in self.members.missing(self._connections):
            log.info("replica %s at %s is among the replicas", spec.id, spec.address)
            connection = self._connections[spec.id] = connection_to(spec, self._transport_context)
            connection.drained = spec.id in self._drains
            self._paces[spec.id] = Pace()
            connection.start(prove_first=self._prove_first)

    def _remove_leaving(self, now: float) -> None:
        """Remove the leaving replicas whose streams have ended or whose time is over."""
        for id_, until in list(self.members.leaving.items()):
            connection = self._connections[id_]
            if now >= until:
                connection.fail_streams(ReplicaDraining("The replica has left the fleet."))
            if not connection.in_flight:
                self._remove(connection)

    def _remove(self, connection: ReplicaConnection) -> None:
        id_ = connection.spec.id
        self.members.ends(id_)
        del self._connections[id_], self._paces[id_]
        self._slow.forget(id_)
        self._refresh()
        task = asyncio.create_task(self._close(connection))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close(self, connection: ReplicaConnection) -> None:
        try:
            await connection.aclose()
        finally:
            # Only after the close: its last reports have been processed.
            id_ = connection.spec.id
            if self.prefixes is not None:
                self.prefixes.left(id_)
            self.on_left(id_)
            self.members.ended(id_)
            if self._ticker is not None:
                self._connect_missing()

    def _eject_slow(self, now: float) -> None:
        """Eject replicas that have been much slower than their peers for a while."""
        kinds = as_fast_as_each_other(self._all_ready)
        slow = self._slow.judged(({id_: self._paces[id_] for id_ in kind} for kind in kinds), now)
        for id_, reason in slow.items():
            self._paces[id_] = Pace()
            self._failing(id_, reason)

    def _failing(self, replica_id: str, reason: str) -> None:
        """Eject a failing replica, unless too many of its role are ejected already."""
        connection = self._connections.get(replica_id)
        if connection is None or connection.health.breaker.is_open:
            return
        self._touch()
        health, group = connection.health, stand_in_key(connection)
        peers = [c for c in self._connections.values() if c.connected and not c.parked and stand_in_key(c) == group]
        if may_eject(len(peers), sum(peer.health.state is State.EJECTED for peer in peers)):
            health.eject(self._clock(), reason)
            return
        if connection.connected:
            log.warning("replica %s stays in service, for too few would be left: %s", replica_id, reason)
        health.breaker.close(self._clock())

    def _refresh(self) -> None:
        self._touch()
        roster = Roster(drained=self._drains.keys(), leaving=self.members.leaving.keys())
        able = [c for c in self._connections.values() if c.connected and not c.parked and not roster.drains(c)]
        ready, returning = serving_of(able)
        self._all_ready, self._ready = self._serving(tuple(c for c in able if c in ready))
        self.ready_ids = frozenset(c.spec.id for c in self._all_ready)
        self._returning = frozenset(returning)
        self.narrow_tokens, self.wide_tokens = held_by_widths(self._connections.values(), self._launched)
        self.on_widths(self.wide_tokens)
        self._roster = replace(roster, ready=frozenset(c.spec.id for c in ready), returning=self._returning)
        refreshed, self._refreshed = self._refreshed, asyncio.Event()
        refreshed.set()
        self.on_load()
        self.awaited.changed(serves=bool(self._ready))

    def _serving(
        self, ready: tuple[ReplicaConnection, ...]
    ) -> tuple[tuple[ReplicaConnection, ...], tuple[ReplicaConnection, ...]]:
        """Return the ready replicas that take requests, and of these those for requests that need no version."""
        return ready, ready

    def _worked(self, replica_id: str, work: Work) -> None:
        connection = self._connections.get(replica_id)
        if connection is not None:
            self._paces[replica_id].note(work, self._clock())
            # A view is rebuilt when it is read: only for whoever learns from it.
            if self.on_work is not _ignore:
                self.on_work(connection.view, work)

    def _loaded(self) -> None:
        self._touch()
        self.on_load()


def _ignore(*_: object) -> None:
    """Ignore the call: no listener is set."""
