"""The transport over the session protocol: opens, watches and reopens the sessions to one replica."""

import asyncio
import logging
import random
from operator import attrgetter
from typing import Final

import grpc.aio
import msgspec

from protos.codec import Step, Welcome
from protos.errors import PenstockError, ReplicaUnavailable
from protos.pem import PemError
from protos.protocol_error import ProtocolError
from protos.reshape import Membership
from protos.types import KvUpdate, Load, ReplicaInfo, Submit
from routing.contracts.policy import ReplicaView
from routing.contracts.transport import Leg, Receiver
from routing.health.plausibility import LoadBounds, update_problem
from routing.health.probe import PROBE, Probe, TokenProbe
from routing.transports.mismatch import group_problem, mismatch
from routing.transports.mux import Session, SessionRefused, describe
from routing.transports.replica_connection import ReplicaConnection, TransportContext
from routing.transports.replica_spec import ReplicaSpec
from routing.transports.replica_tls import readable_problem

log = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 2.0
#: Tokens per step assumed of an engine that does not report them: TensorRT-LLM's default.
ASSUMED_NUM_TOKENS = 8192
#: Seconds after a change of its shape for which a replica's channels may still report loads of the earlier one.
LATE_SECONDS: Final = 2.0
#: The fields of a view before and after those that change with each submit and report.
_IDENTITY: Final = attrgetter("id", "pool", "shape", "role")
_LIMITS: Final = attrgetter(
    "max_batch_size", "kv_block_tokens", "max_num_tokens", "reserves_output", "features", "adapters"
)


class SessionConnection(ReplicaConnection):
    """At most `spec.channels` sessions, the first ones filled first.

    That order matters: each session that has streams costs one message per engine step.
    """

    reports_steps = True

    def __init__(self, spec: ReplicaSpec, context: TransportContext) -> None:
        super().__init__(spec, context)
        self._worker = context.worker
        self._prefixes = context.prefixes
        self._kv_session: Session | None = None  # the one that carries KV updates
        self._bounds: LoadBounds
        #: The bounds of its shape before the last change, and until when, by the clock, loads may be within them.
        self._earlier: tuple[LoadBounds, float] | None = None
        #: The last load that was reported, and whether the view must be rebuilt before it is read.
        self._load = Load()
        self._is_stale = False
        self._sessions: list[Session] = []
        self._connecting = 0

    @property
    def connected(self) -> bool:
        return bool(self._sessions)

    @property
    def in_flight(self) -> int:
        return max(0, sum(session.streams for session in self._sessions) - (self._probe is not None))

    @property
    def longest(self) -> int:
        """KV tokens that the longest of this worker's sequences there may take."""
        return max((session.longest for session in self._sessions), default=0)

    def _begin(self) -> None:
        self._spawn_session(persistent=True)

    def open(
        self,
        submit: Submit,
        kv_tokens: int | None = None,
        compute_tokens: int | None = None,
        receiver: Receiver | None = None,
    ) -> Leg:
        """Send a request on the first session with room. Raises ReplicaUnavailable."""
        if not self._sessions:
            raise ReplicaUnavailable("The replica is not connected.")
        session = self._sessions[0]
        if session.streams + submit.sampling.n > self.spec.streams_per_channel:
            session = self._roomiest(submit.sampling.n)
        if self._view.reserves_output:
            kv_tokens = None
        leg = session.open(submit, kv_tokens, compute_tokens, receiver)
        self._is_stale = True
        return leg

    def _roomiest(self, sequences: int) -> Session:
        """Return the first session with room; without any, the emptiest, and connect one more if that may be."""
        for session in self._sessions:
            if session.streams + sequences <= self.spec.streams_per_channel:
                return session
        if len(self._sessions) + self._connecting < self.spec.channels:
            self._spawn_session(persistent=False)
        return min(self._sessions, key=lambda s: s.streams)

    def fail_streams(self, error: PenstockError) -> None:
        for session in self._sessions:
            session.fail_streams(error)

    def _ask(self) -> Probe | None:
        try:
            probe = TokenProbe(self._sessions[0].open(PROBE))
        except ReplicaUnavailable:
            return None  # the session has just ended
        self._is_stale = True
        return probe

    @property
    def view(self) -> ReplicaView:
        if self._is_stale:
            self._refresh_view(self._load)
        return self._view

    def _refresh_view(self, load: Load) -> None:
        """Rebuild the view, which is made from positional arguments for speed."""
        self._is_stale = False
        view, sessions = self._view, self._sessions
        if len(sessions) == 1:
            sums = sessions[0].unreported.sums
        else:
            sums = (0, 0, 0)
            for session in sessions:
                more = session.unreported.sums
                sums = (sums[0] + more[0], sums[1] + more[1], sums[2] + more[2])
        self._view = ReplicaView(*_IDENTITY(view), load, *sums, *_LIMITS(view))

    def _spawn_session(self, *, persistent: bool) -> None:
        self._connecting += 1
        self._spawn(self._keep(persistent))

    async def _keep(self, persistent: bool) -> None:
        """Keep one session: the persistent one is always reopened, an extra one ends when it is lost."""
        delay = FIRST_RETRY_SECONDS
        while True:
            session = await self._connect(kv_updates=persistent and self._prefixes is not None)
            self._connecting -= 1
            if session is not None:
                began = self._clock()
                await self._run(session, carries_kv=persistent)
                if self._clock() - began > LAST_RETRY_SECONDS:
                    delay = FIRST_RETRY_SECONDS
            if not persistent:
                return
            self._connecting += 1
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))
            delay = min(delay * 2, LAST_RETRY_SECONDS)

    async def _connect(self, *, kv_updates: bool) -> Session | None:
        try:
            session = await Session.connect(
                self.spec.address,
                self._worker,
                self._on_step,
                self._on_membership,
                tls=self.spec.tls,
                kv_updates=kv_updates,
            )
        except (grpc.RpcError, SessionRefused, ProtocolError, PemError, TimeoutError) as error:
            problem = readable_problem(describe(error), self.spec.address, self.spec.tls)
            self._report(problem, refused=isinstance(error, SessionRefused))
            return None
        except Exception:
            # Any exception: a replica that is never tried again is worse than one more failed attempt.
            log.exception("replica %s at %s", self.spec.id, self.spec.address)
            return None
        problem = mismatch(self.spec, session.welcome.info, session.welcome.membership)
        if problem:
            self._report(problem, refused=True)
            await session.aclose()
            return None
        self._admit(session.welcome)
        return session

    async def _run(self, session: Session, *, carries_kv: bool) -> None:
        if carries_kv:
            self._kv_begins(session)
        self._sessions.append(session)
        self._is_stale = True
        if len(self._sessions) == 1:
            self._became_reachable()
        why = ""
        try:
            why = await session.run()
        finally:
            if carries_kv and self._prefixes is not None:
                self._prefixes.left(self.spec.id)
            self._sessions.remove(session)
            self._is_stale = True
            if not self._sessions:
                self._became_unreachable(why)
            elif why:
                level = logging.INFO if self._may_leave else logging.WARNING
                log.log(level, "replica %s at %s lost one of its channels: %s", self.spec.id, self.spec.address, why)

    def _kv_begins(self, session: Session) -> None:
        if self._prefixes is not None:
            info = session.welcome.info
            self._kv_session = session
            # The first update will show whether its engine sends events.
            self._prefixes.joined(self.spec.id, info.kv_block_tokens, info.kv_blocks_total, exact=False)

    def _follow_kv(self, update: KvUpdate) -> None:
        if self._prefixes is not None and not self._prefixes.updated(self.spec.id, update):
            assert self._kv_session is not None, "an update that nobody asked for"
            self._kv_session.resync_kv()

    def _admit(self, welcome: Welcome) -> None:
        restarted = self.epoch not in (0, welcome.epoch)
        if restarted:
            log.warning("replica %s has restarted", self.spec.id)
        self.epoch = welcome.epoch
        membership = welcome.membership
        if self._sessions and not restarted:  # an extra channel: the others' reports are current
            if membership is not None:
                self._on_membership(membership)
            else:
                self._note_description(welcome.info)
                self._bounds = LoadBounds(welcome.info)
            return
        # Earlier reports belong to an earlier session, perhaps to an earlier engine.
        self._earlier = None
        self._view = msgspec.structs.replace(self._view, adapters=frozenset())
        self._describe(welcome.info, Load(kv_blocks_total=welcome.info.kv_blocks_total))
        if membership is not None or self.membership is not None:
            self.membership = membership
            self._listener.reshaped(self.spec.id, True)

    def _describe(self, info: ReplicaInfo, load: Load) -> None:
        """Take over what the replica says of itself, with a load that fits it."""
        spec = self.spec
        self._note_description(info)
        self._bounds = LoadBounds(info)
        self._load, self._is_stale = load, True
        self._view = ReplicaView(
            spec.id,
            spec.pool,
            info.shape,
            spec.role,
            load,
            max_batch_size=info.max_batch_size,
            kv_block_tokens=info.kv_block_tokens,
            max_num_tokens=info.max_num_tokens or ASSUMED_NUM_TOKENS,
            reserves_output=info.reserves_output,
            features=self.features,
            adapters=self._view.adapters,
        )

    def _on_membership(self, membership: Membership) -> None:
        """Take in how the replica stands in its host group. Raises ProtocolError where that cannot be."""
        before, info = self.membership, membership.info
        if before is not None and membership.revision < before.revision:
            return  # another channel was faster
        problem = mismatch(self.spec, info, membership) or group_problem(before, membership)
        if problem:
            raise ProtocolError(f"it says of its host group: {problem}")
        shape, was_parked = self._view.shape, self.parked
        self.membership = membership
        if info != self.info:
            self._earlier = self._bounds, self._clock() + LATE_SECONDS
            load = msgspec.structs.replace(self._load, kv_blocks_total=info.kv_blocks_total)
            self._describe(info, load)
        self._keep_kv(membership)
        if before is None or (before.state, before.span) != (membership.state, membership.span):
            where = f"GPUs {membership.span.start} to {membership.span.end - 1} of group {membership.group}"
            log.info("replica %s is %s on %s", self.spec.id, membership.state.value, where)
        self._listener.reshaped(self.spec.id, (shape, was_parked) != (info.shape, self.parked))

    def _keep_kv(self, membership: Membership) -> None:
        """Keep of the prefix directory what is true for the replica's new place."""
        if self._prefixes is not None and self._kv_session is not None:
            if self.parked:
                self._prefixes.emptied(self.spec.id)
            else:
                self._prefixes.resized(self.spec.id, membership.info.kv_blocks_total)

    def _report(self, problem: str, *, refused: bool) -> None:
        """Note a failed attempt to connect, unless it was an extra channel, without which requests can do."""
        if not self._sessions:
            self.health.away(problem, refused=refused)

    def _on_step(self, step: Step) -> None:
        load, health = step.load, self.health
        if step.stream_ids:
            health.progress.renew()
        nonsense = self._bounds.problem(load) if load is not None else health.nonsense
        if step.kv_update is not None or step.adapters is not None:
            nonsense = self._follow(step, nonsense)
        if nonsense != health.nonsense:
            if load is not None and self._is_late(load):
                return
            health.doubt(self._clock(), nonsense)
        if nonsense or load is None:
            return
        was_draining = self._load.draining
        self._load, self._is_stale = load, True
        if load.draining != was_draining:
            self._listener.changed()
        if health.stepped(self._clock(), load.steps) and step.work is not None:
            self._listener.worked(self.spec.id, step.work)
        self._listener.loaded()

    def _is_late(self, load: Load) -> bool:
        """Whether a load is of the replica's shape before the last change: another channel has told of that."""
        earlier = self._earlier
        return earlier is not None and self._clock() < earlier[1] and not earlier[0].problem(load)

    def _follow(self, step: Step, nonsense: str) -> str:
        """Take in KV update and adapters of a step whose load is plausible; return what is implausible."""
        update = step.kv_update
        if update is not None and not nonsense:
            assert self.info is not None, "a step before the welcome"
            nonsense = update_problem(update, self.info)
            if not nonsense:
                self._follow_kv(update)
        if step.adapters is not None and not nonsense:
            self._view = msgspec.structs.replace(self._view, adapters=frozenset(step.adapters))
        return nonsense
