"""The base of transports to one replica: its health, its probes, and the view that decisions see."""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from protos.errors import PenstockError, ReplicaUnavailable
from protos.types import Load, ReplicaInfo, Submit, Work
from routing.contracts.policy import ReplicaView
from routing.contracts.transport import Leg, Receiver
from routing.health.probe import Probe
from routing.health.replica_health import ReplicaHealth
from routing.health.replica_status import State
from routing.prefix.prefix_directory import PrefixDirectory
from routing.transports.replica_spec import ReplicaSpec
from routing.transports.shared_parts import SharedParts

log = logging.getLogger(__name__)

#: Log level of each state; others are warnings.
_LEVELS = {State.READY: logging.DEBUG, State.RETURNING: logging.INFO, State.PROBING: logging.INFO}


def _nothing(*_: object) -> None:
    """Ignore a call."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Callbacks for a replica's events (routing/fleet/fleet.py).

    `changed`: it became usable or unusable. `loaded`: a load was reported. `worked`: its engine reported a step's work,
    with its id. `failing`: it has failed so often that it should be ejected, with its id and the reason. `touched`: a
    probe begins or ends, or a fault was counted.
    """

    changed: Callable[[], None] = _nothing
    loaded: Callable[[], None] = _nothing
    worked: Callable[[str, Work], None] = _nothing
    failing: Callable[[str, str], None] = _nothing
    touched: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True)
class TransportContext:
    """What all transports of a fleet share. `worker` names this process to replicas, `clock` counts seconds.

    `prefixes` follows the replicas' KV caches, where the policy uses prefixes. `shared` has what transports of several
    fleets use together.
    """

    worker: str
    listener: Listener = Listener()
    clock: Callable[[], float] = time.monotonic
    prefixes: PrefixDirectory | None = None
    shared: SharedParts = field(default_factory=SharedParts)


class ReplicaConnection(ABC):
    """The `Transport` to one replica and the replica's state; subclasses implement one kind of engine."""

    #: Whether the engine's steps are reported, by which a wedged engine is detected.
    reports_steps = False

    def __init__(self, spec: ReplicaSpec, context: TransportContext) -> None:
        self.spec = spec
        #: The replica's own description, once received.
        self.info: ReplicaInfo | None = None
        #: The served model's version as reported, else as configured; may be empty.
        self.version = spec.version
        #: The `system_fingerprint` of answers: the engine's own name, then `@` and the model's version.
        self.fingerprint = spec.version
        self.health = ReplicaHealth(self._health_changed)
        #: The last state that was logged.
        self._logged = ""
        self._view = ReplicaView(spec.id, spec.pool, spec.shape, spec.role, Load(), features=spec.features.value)
        self._listener = context.listener
        self._clock = context.clock
        self._closing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._probe: Probe | None = None

    @property
    def view(self) -> ReplicaView:
        """The replica as decisions see it."""
        return self._view

    @property
    @abstractmethod
    def connected(self) -> bool:
        """Whether a submit can be sent."""

    @property
    @abstractmethod
    def in_flight(self) -> int:
        """Number of this worker's sequences at the replica."""

    @abstractmethod
    def open(
        self,
        submit: Submit,
        kv_tokens: int | None = None,
        compute_tokens: int | None = None,
        receiver: Receiver | None = None,
    ) -> Leg:
        """Send a request, as `Transport.open` does. Raises ReplicaUnavailable."""

    @abstractmethod
    def fail_streams(self, error: PenstockError) -> None:
        """Fail every open stream and cancel it at the engine."""

    @abstractmethod
    def _begin(self) -> None:
        """Begin to connect, with tasks of `_spawn`."""

    @abstractmethod
    def _ask(self) -> Probe | None:
        """Send a probe; None: it cannot be sent now."""

    @property
    def back_off(self) -> float | None:
        """Return the seconds for which it has asked to get no requests; None: it has not."""
        return None

    @property
    def tried(self) -> bool:
        """Whether it is known how it is, as far as waiting for it at a start goes."""
        return self.ready

    @property
    def ready(self) -> bool:
        """Whether a submit can be sent now and is likely to be served."""
        return self.connected and not self.view.load.draining and self.health.serves

    def start(self, *, prove_first: bool = False) -> None:
        """Connect, and reconnect until `aclose`; with `prove_first` the first session is probed too."""
        self.health.prove_first = prove_first
        self._begin()

    async def aclose(self) -> None:
        """End every connection; open streams fail."""
        self._closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def is_calm(self) -> bool:
        """Whether ticks only count how long it has been idle, so that several may be made up for at once."""
        health = self.health
        calm = not self.reports_steps and self._probe is None and health.state is State.READY
        return calm and self.connected and not health.wants_probe(self._clock())

    def tick(self, *, probes: bool, ticks: int = 1) -> None:
        """Run the replica's timers, at regular intervals in which the event loop ran. `probes`: it may be probed.

        More than one of the `ticks` is made up for only while it `is_calm`.
        """
        now, health, busy = self._clock(), self.health, False
        if self._probe is not None:
            self._probe.tick()
        if self.reports_steps:
            view = self.view
            busy = view.load.running + view.load.waiting + view.sent > 0
        for _ in range(ticks - 1):
            health.progress.tick(busy=False)
        if health.tick(now, busy):
            self.fail_streams(ReplicaUnavailable("The replica's engine stands still."))
        if probes and health.wants_probe(now) and not self.view.load.draining:
            self._probe_if_due(now)

    def _probe_if_due(self, now: float) -> None:
        if self._probe is not None or not self.connected or not self.health.wants_probe(now):
            return
        self._probe = self._ask()
        if self._probe is not None:
            self.health.probe_begins()
            self._listener.touched()
            self._spawn(self._await(self._probe))

    async def _await(self, probe: Probe) -> None:
        try:
            problem = await probe.problem()
        finally:
            self._probe = None
            self._listener.touched()
        # For a replica that was lost meanwhile the loss matters more than the probe.
        if self.connected and self.health.probe_ended(self._clock(), problem):
            self._listener.failing(self.spec.id, f"its probe: {problem}")

    def _note_description(self, info: ReplicaInfo) -> None:
        """Note the replica's description of itself."""
        if info is not self.info:
            name, version = info.fingerprint, info.version or self.spec.version
            self.info, self.version = info, version
            self.fingerprint = f"{name}@{version}" if name and version else name or version

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _became_reachable(self) -> None:
        """Note that the replica has become reachable."""
        self.health.connected()
        self._probe_if_due(self._clock())

    def _became_unreachable(self, why: str) -> None:
        """Note that the replica is no longer reachable."""
        if self.health.lost(self._clock(), f"the connection was lost{': ' if why else ''}{why}"):
            self._listener.failing(self.spec.id, "its connection is lost again and again")

    def _health_changed(self) -> None:
        health, spec = self.health, self.spec
        now = f"{health.state.value}{f': {health.reason}' if health.reason else ''}"
        if not self._closing and now != self._logged:
            self._logged = now
            log.log(_LEVELS.get(health.state, logging.WARNING), "replica %s at %s is %s", spec.id, spec.address, now)
        self._listener.changed()
