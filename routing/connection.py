"""The sessions to one replica: opened, watched, reopened, and filled so that a step stays one message."""

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

import grpc.aio

from protos.codec import ProtocolError, Step, Welcome
from protos.errors import ReplicaUnavailable
from protos.types import Load, ReplicaInfo, Role, Shape, Submit
from routing.mux import Session, SessionRefused, describe
from routing.policy import ReplicaView
from routing.transport import TokenStream
from routing.unreported import Unreported

log = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 5.0
#: Of an engine that does not say how many tokens it computes in a step: TensorRT-LLM's default.
ASSUMED_NUM_TOKENS = 8192


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

    def __init__(self, spec: ReplicaSpec, worker: str, changed: Callable[[], None], loaded: Callable[[], None]) -> None:
        """`changed` is called when the replica becomes usable or stops being so, `loaded` with each load reported."""
        self.spec = spec
        self.info: ReplicaInfo | None = None
        self.problem = "not connected yet"
        self._worker = worker
        self._changed = changed
        self._loaded = loaded
        self._epoch = 0
        self._sessions: list[Session] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._connecting = 0
        self.view = ReplicaView(spec.id, spec.pool, spec.shape, spec.role, Load())

    @property
    def ready(self) -> bool:
        """Whether a submit can be sent now."""
        return bool(self._sessions) and not self.view.load.draining

    def start(self) -> None:
        """Begin to connect, and keep at it until `aclose`."""
        self._spawn_session(persistent=True)

    async def aclose(self) -> None:
        """End every session; their open streams fail."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def open(self, submit: Submit, kv_tokens: int | None = None) -> TokenStream:
        """Send a request on the first session with room. Raises ReplicaUnavailable."""
        if not self._sessions:
            raise ReplicaUnavailable("The replica is not connected.")
        limit = self.spec.streams_per_channel
        session = next((s for s in self._sessions if s.streams + submit.sampling.n <= limit), None)
        if session is None:
            if len(self._sessions) + self._connecting < self.spec.channels:
                self._spawn_session(persistent=False)
            session = min(self._sessions, key=lambda s: s.streams)
        stream = session.open(submit, None if self.view.reserves_output else kv_tokens)
        self._see(self.view.load)
        return stream

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
        task = asyncio.create_task(self._keep(persistent))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep(self, persistent: bool) -> None:
        """Hold one session: the persistent one is reopened for ever, an extra one ends when it is lost."""
        delay = FIRST_RETRY_SECONDS
        while True:
            session = await self._connect()
            self._connecting -= 1
            if session is not None:
                delay = FIRST_RETRY_SECONDS
                await self._run(session)
            if not persistent:
                return
            self._connecting += 1
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))
            delay = min(delay * 2, LAST_RETRY_SECONDS)

    async def _connect(self) -> Session | None:
        try:
            session = await Session.connect(self.spec.target, self._worker, self._on_step)
        except (grpc.RpcError, SessionRefused, ProtocolError, TimeoutError) as error:
            self._report(describe(error))
            return None
        except Exception:
            # Whatever it was: a replica that is never tried again is worse than one more failed attempt.
            log.exception("replica %s at %s", self.spec.id, self.spec.address)
            return None
        problem = self._mismatch(session.welcome.info)
        if problem:
            self._report(problem)
            await session.aclose()
            return None
        self._admit(session.welcome)
        return session

    async def _run(self, session: Session) -> None:
        self._sessions.append(session)
        self._see(self.view.load)
        self._changed()
        try:
            await session.run()
        finally:
            self._sessions.remove(session)
            if not self._sessions:
                self.problem = "the connection was lost"
            self._see(self.view.load)
            self._changed()

    def _admit(self, welcome: Welcome) -> None:
        restarted = self._epoch not in (0, welcome.epoch)
        if restarted:
            log.warning("replica %s has restarted", self.spec.id)
        self._epoch = welcome.epoch
        self.info = welcome.info
        self.problem = ""
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
            f"{name} is {getattr(info, name)}, configured {value}"
            for name, value in expected.items()
            if getattr(info, name) != value
        ]
        if info.max_sequence_tokens < spec.context:
            wrong.append(f"max_sequence_tokens is {info.max_sequence_tokens}, the configured context {spec.context}")
        return "; ".join(wrong)

    def _report(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("replica %s at %s: %s", self.spec.id, self.spec.address, problem)
            self.problem = problem

    def _on_step(self, step: Step) -> None:
        if step.load is not None:
            was_draining = self.view.load.draining
            self._see(step.load)
            if step.load.draining != was_draining:
                self._changed()
            self._loaded()
