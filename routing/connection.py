"""The sessions to one replica: opened, watched, reopened, and filled so that a step stays one message."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import grpc.aio

from protos.codec import ProtocolError, Step, Welcome
from protos.errors import PenstockError, ReplicaUnavailable
from protos.types import KvUpdate, Load, ReplicaInfo, Role, Shape, Submit, Work
from routing.health.plausibility import nonsense_in, nonsense_in_update
from routing.health.probe import PROBE, Probe
from routing.health.replica_health import ReplicaHealth
from routing.health.status import State
from routing.mux import Session, SessionRefused, describe
from routing.policy import ReplicaView
from routing.prefix.directory import PrefixDirectory
from routing.transport import Leg, Receiver
from routing.unreported import Unreported

log = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 2.0
#: Of an engine that does not say how many tokens it computes in a step: TensorRT-LLM's default.
ASSUMED_NUM_TOKENS = 8192
#: How loudly a state is said; what is not here is a warning.
_LEVELS = {State.READY: logging.DEBUG, State.RETURNING: logging.INFO, State.PROBING: logging.INFO}


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """A replica as the configuration names it; what answers at the address must match."""

    id: str
    address: str
    pool: str
    model: str
    engine: str
    shape: Shape
    role: Role
    channels: int
    streams_per_channel: int
    context: int = 0

    @property
    def target(self) -> str:
        """The address in gRPC's own notation."""
        return self.address.removeprefix("grpc://")


class ReplicaConnection:
    """The transport to one replica: `spec.channels` sessions at most, the first ones filled first.

    Filling first matters: each session that has streams costs one message per engine step.
    """

    def __init__(
        self,
        spec: ReplicaSpec,
        worker: str,
        changed: Callable[[], None],
        loaded: Callable[[], None],
        worked: Callable[[str, Work], None] = lambda replica_id, work: None,
        failing: Callable[[str, str], None] = lambda replica_id, reason: None,
        clock: Callable[[], float] = time.monotonic,
        prefixes: PrefixDirectory | None = None,
    ) -> None:
        """`changed` is called when the replica becomes usable or stops being so, `loaded` with each load reported.

        `worked` is called for each step of the engine that says what it did, and `failing` with a reason when the
        replica has failed so often that it should be left alone. `clock` counts seconds.
        `prefixes` is told of the replica's KV cache.
        """
        self.spec = spec
        self.info: ReplicaInfo | None = None
        self.health = ReplicaHealth(self._health_changed)
        self._worker = worker
        self._changed = changed
        self._loaded = loaded
        self._worked = worked
        self._failing = failing
        self._clock = clock
        self._prefixes = prefixes
        self._kv_session: Session | None = None  # the one that carries KV updates
        self._closing = False
        self._epoch = 0
        self._sessions: list[Session] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._connecting = 0
        self._probe: Probe | None = None
        self.view = ReplicaView(spec.id, spec.pool, spec.shape, spec.role, Load())

    @property
    def connected(self) -> bool:
        """Whether a session is open."""
        return bool(self._sessions)

    @property
    def ready(self) -> bool:
        """Whether a submit can be sent now, and is likely to be served."""
        return bool(self._sessions) and not self.view.load.draining and self.health.serves

    @property
    def in_flight(self) -> int:
        """Sequences that this worker has there."""
        return max(0, sum(session.streams for session in self._sessions) - (self._probe is not None))

    def start(self, *, prove_first: bool = False) -> None:
        """Begin to connect, and keep at it until `aclose`; `prove_first` asks for a token in the first session too."""
        self.health.prove_first = prove_first
        self._spawn_session(persistent=True)

    async def aclose(self) -> None:
        """End every session; their open streams fail."""
        self._closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def open(
        self,
        submit: Submit,
        kv_tokens: int | None = None,
        compute_tokens: int | None = None,
        receiver: Receiver | None = None,
    ) -> Leg:
        """Send a request on the first session with room, as `Transport.open` does. Raises ReplicaUnavailable."""
        if not self._sessions:
            raise ReplicaUnavailable("The replica is not connected.")
        limit = self.spec.streams_per_channel
        for session in self._sessions:
            if session.streams + submit.sampling.n <= limit:
                break
        else:
            if len(self._sessions) + self._connecting < self.spec.channels:
                self._spawn_session(persistent=False)
            session = min(self._sessions, key=lambda s: s.streams)
        leg = session.open(submit, None if self.view.reserves_output else kv_tokens, compute_tokens, receiver)
        self._see(self.view.load)
        return leg

    def fail_streams(self, error: PenstockError) -> None:
        """End every open stream with an error; the engine is told to stop."""
        for session in self._sessions:
            session.fail_streams(error)

    def tick(self, *, probes: bool) -> None:
        """Look after the replica; called at regular intervals of the event loop's life. `probes`: it may be asked."""
        now, load = self._clock(), self.view.load
        if self._probe is not None:
            self._probe.tick()
        busy = load.running + load.waiting + self.view.sent > 0
        if self.health.tick(now, busy):
            self.fail_streams(ReplicaUnavailable("The replica's engine stands still."))
        if probes and not load.draining:
            self._probe_if_due(now)

    def _probe_if_due(self, now: float) -> None:
        if self._probe is not None or not self._sessions or not self.health.wants_probe(now):
            return
        try:
            self._probe = Probe(self._sessions[0].open(PROBE))
        except ReplicaUnavailable:
            return  # the session has just ended
        self._see(self.view.load)
        self.health.probe_begins()
        self._spawn(self._ask(self._probe))

    async def _ask(self, probe: Probe) -> None:
        try:
            problem = await probe.problem()
        finally:
            self._probe = None
        # Of a replica that was lost meanwhile more is known than that.
        if self._sessions and self.health.probe_ended(self._clock(), problem):
            self._failing(self.spec.id, f"its probe: {problem}")

    def _see(self, load: Load) -> None:
        """Renew the view: once per request and per step, so no more than a struct made from positions."""
        view, sessions = self.view, self._sessions
        first = sessions[0].unreported if sessions else Unreported()
        sent, prompt_tokens, kv_tokens = first.sequences, first.prompt_tokens, first.kv_tokens
        for session in sessions[1:]:
            sent += session.unreported.sequences
            prompt_tokens += session.unreported.prompt_tokens
            kv_tokens += session.unreported.kv_tokens
        self.view = ReplicaView(
            view.id,
            view.pool,
            view.shape,
            view.role,
            load,
            sent,
            prompt_tokens,
            kv_tokens,
            view.max_batch_size,
            view.kv_block_tokens,
            view.max_num_tokens,
            view.reserves_output,
        )

    def _spawn_session(self, *, persistent: bool) -> None:
        self._connecting += 1
        self._spawn(self._keep(persistent))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep(self, persistent: bool) -> None:
        """Hold one session: the persistent one is reopened for ever, an extra one ends when it is lost."""
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
            session = await Session.connect(self.spec.target, self._worker, self._on_step, kv_updates=kv_updates)
        except (grpc.RpcError, SessionRefused, ProtocolError, TimeoutError) as error:
            self._report(describe(error), refused=isinstance(error, SessionRefused))
            return None
        except Exception:
            # Whatever it was: a replica that is never tried again is worse than one more failed attempt.
            log.exception("replica %s at %s", self.spec.id, self.spec.address)
            return None
        problem = self._mismatch(session.welcome.info)
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
        self._see(self.view.load)
        if len(self._sessions) == 1:
            self.health.connected()
            self._probe_if_due(self._clock())
        why = ""
        try:
            why = await session.run()
        finally:
            if carries_kv and self._prefixes is not None:
                self._prefixes.left(self.spec.id)
            self._sessions.remove(session)
            self._see(self.view.load)
            if not self._sessions:
                if self.health.lost(self._clock(), f"the connection was lost{': ' if why else ''}{why}"):
                    self._failing(self.spec.id, "its connection is lost again and again")
            elif why:
                log.warning("replica %s at %s lost one of its channels: %s", self.spec.id, self.spec.address, why)

    def _kv_begins(self, session: Session) -> None:
        if self._prefixes is not None:
            info = session.welcome.info
            self._kv_session = session
            # Whether its engine sends events shows when the first update comes.
            self._prefixes.joined(self.spec.id, info.kv_block_tokens, info.kv_blocks_total, exact=False)

    def _follow_kv(self, update: KvUpdate) -> None:
        if self._prefixes is not None and not self._prefixes.updated(self.spec.id, update):
            assert self._kv_session is not None, "an update that nobody asked for"
            self._kv_session.resync_kv()

    def _admit(self, welcome: Welcome) -> None:
        restarted = self._epoch not in (0, welcome.epoch)
        if restarted:
            log.warning("replica %s has restarted", self.spec.id)
        self._epoch = welcome.epoch
        self.info = welcome.info
        if self._sessions and not restarted:
            return  # an extra channel: what the others report is current
        # What was reported before belongs to an earlier session, perhaps to an earlier engine.
        spec, info = self.spec, welcome.info
        self.view = ReplicaView(
            spec.id,
            spec.pool,
            spec.shape,
            spec.role,
            Load(kv_blocks_total=info.kv_blocks_total),
            max_batch_size=info.max_batch_size,
            kv_block_tokens=info.kv_block_tokens,
            max_num_tokens=info.max_num_tokens or ASSUMED_NUM_TOKENS,
            reserves_output=info.reserves_output,
        )

    def _mismatch(self, info: ReplicaInfo) -> str:
        spec = self.spec
        expected = {"model": spec.model, "engine": spec.engine, "shape": spec.shape, "role": spec.role}
        wrong = [
            f"{name} is {_shown(getattr(info, name))}, configured {_shown(value)}"
            for name, value in expected.items()
            if getattr(info, name) != value
        ]
        if info.max_sequence_tokens < spec.context:
            wrong.append(f"max_sequence_tokens is {info.max_sequence_tokens}, the configured context {spec.context}")
        return "; ".join(wrong)

    def _report(self, problem: str, *, refused: bool) -> None:
        """An attempt to connect has failed, or was for a further channel, which requests can do without."""
        if not self._sessions:
            self.health.away(problem, refused=refused)

    def _health_changed(self) -> None:
        health, spec = self.health, self.spec
        if not self._closing:
            level = _LEVELS.get(health.state, logging.WARNING)
            because = f": {health.reason}" if health.reason else ""
            log.log(level, "replica %s at %s is %s%s", spec.id, spec.address, health.state.value, because)
        self._changed()

    def _on_step(self, step: Step) -> None:
        load = step.load
        if step.stream_ids:
            self.health.progress.renew()
        if self._is_nonsense(step):
            return
        if step.kv_update is not None:
            self._follow_kv(step.kv_update)
        if load is None:
            return
        was_draining = self.view.load.draining
        self._see(load)
        if load.draining != was_draining:
            self._changed()
        if self.health.stepped(self._clock(), load.steps) and step.work is not None:
            self._worked(self.spec.id, step.work)
        self._loaded()

    def _is_nonsense(self, step: Step) -> bool:
        """Whether nobody should go by what this step says of the engine; the replica is left alone then."""
        info, load, update = self.info, step.load, step.kv_update
        assert info is not None, "a step before the welcome"
        nonsense = nonsense_in(load, info) if load is not None else self.health.nonsense
        if not nonsense and update is not None:
            nonsense = nonsense_in_update(update, info)
        if nonsense != self.health.nonsense:
            self.health.doubt(self._clock(), nonsense)
        return bool(nonsense)


def _shown(value: object) -> str:
    """What a replica or the configuration says of itself, as the configuration writes it."""
    if isinstance(value, Shape):
        degrees = (("tp", value.tp), ("ep", value.ep), ("pp", value.pp))
        return " ".join(f"{name}{degree}" for name, degree in degrees if name == "tp" or degree > 1)
    return value.value if isinstance(value, Role) else str(value)
