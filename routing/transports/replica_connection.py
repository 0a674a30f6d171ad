"""The base of transports to one replica: its health, its probes, and the view that decisions see."""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from protos.errors import PenstockError, ReplicaUnavailable
from protos.reshape import Membership, MemberState
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


def no_marks(version: str) -> int:
    """Give the marks of a version in a model whose requests do not go by version."""
    del version
    return 0


@dataclass(frozen=True, slots=True)
class Listener:
    """Callbacks for a replica's events (routing/fleet/fleet.py).

    `changed`: it became usable or unusable. `loaded`: a load was reported. `worked`: its engine reported a step's work,
    with its id. `failing`: it has failed so often that it should be ejected, with its id and the reason. `touched`: a
    probe begins or ends, or a fault was counted. `reshaped`: its place in its host group has changed, with its id, and
    whether its shape has, so that nothing that was learned of its steps holds any more.
    """

    changed: Callable[[], None] = _nothing
    loaded: Callable[[], None] = _nothing
    worked: Callable[[str, Work], None] = _nothing
    failing: Callable[[str, str], None] = _nothing
    touched: Callable[[], None] = _nothing
    reshaped: Callable[[str, bool], None] = _nothing


@dataclass(frozen=True, slots=True)
class TransportContext:
    """What all transports of a fleet share. `worker` names this process to replicas, `clock` counts seconds.

    `prefixes` follows the replicas' KV caches, where the policy uses prefixes. `shared` has what transports of several
    fleets use together. `marks` gives what a view has beside features for a version (routing/contracts/versions.py).
    """

    worker: str
    listener: Listener = Listener()
    clock: Callable[[], float] = time.monotonic
    prefixes: PrefixDirectory | None = None
    shared: SharedParts = field(default_factory=SharedParts)
    marks: Callable[[str], int] = no_marks


class ReplicaConnection(ABC):
    """The `Transport` to one replica and the replica's state; subclasses implement one kind of engine."""

    #: Whether the engine's steps are reported, by which a wedged engine is detected.
    reports_steps = False
    #: Changes with every start of its engine; 0: it does not say.
    epoch = 0
    #: How it stands in its host group, if it is in one.
    membership: Membership | None = None

    def __init__(self, spec: ReplicaSpec, context: TransportContext) -> None:
        self.spec = spec
        #: The replica's own description, once received.
        self.info: ReplicaInfo | None = None
        #: The served model's version as reported, else as configured; may be empty.
        self.version = spec.version
        #: The `system_fingerprint` of answers: the engine's own name, then `@` and the model's version.
        self.fingerprint = spec.version
        self.health = ReplicaHealth(self._health_changed)
        #: Whether it is drained, so that it may end at any time.
        self.drained = False
        #: The last state that was logged, and whether it was lost as was to be expected.
        self._logged = ""
        self._has_left = False
        self._marks_of = context.marks
        #: What its view has beside features for its version, and both together.
        self.marks = context.marks(spec.version)
        self.features = spec.features.value | self.marks
        self._view = ReplicaView(spec.id, spec.pool, spec.shape, spec.role, Load(), features=self.features)
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

    @property
    def longest(self) -> int:
        """KV tokens that the longest of this worker's sequences there may take; 0: its engine does not say."""
        return 0

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
    def parked(self) -> bool:
        """Whether its GPU belongs to a wider replica of its host group, so that it takes no submits."""
        return self.membership is not None and self.membership.parked

    @property
    def reshapes(self) -> bool:
        """Whether its shape is being changed, for which its steps are slower."""
        return self.membership is not None and self.membership.state is MemberState.CHANGING

    @property
    def tried(self) -> bool:
        """Whether it is known how it is, as far as waiting for it at a start goes."""
        return self.ready or self.parked

    @property
    def ready(self) -> bool:
        """Whether a submit can be sent now and is likely to be served."""
        return self.connected and not self.view.load.draining and not self.parked and self.health.serves

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
        if probes and health.wants_probe(now) and not self.view.load.draining and not self.parked:
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
            before, self.marks = self.features, self._marks_of(version)
            self.features = info.features.value | self.marks
            if self.marks and self.features != before:
                self._listener.changed()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def _may_leave(self) -> bool:
        """Whether its end is no fault: somebody, or it itself, has drained it."""
        return self.drained or self.view.load.draining

    def _became_reachable(self) -> None:
        """Note that the replica has become reachable."""
        self._has_left = False
        self.health.connected()
        self._probe_if_due(self._clock())

    def _became_unreachable(self, why: str) -> None:
        """Note that the replica is no longer reachable."""
        self._has_left = self._may_leave
        if self.health.lost(self._clock(), f"the connection was lost{': ' if why else ''}{why}"):
            self._listener.failing(self.spec.id, "its connection is lost again and again")

    def _health_changed(self) -> None:
        health, spec = self.health, self.spec
        now = f"{health.state.value}{f': {health.reason}' if health.reason else ''}"
        if not self._closing and now != self._logged:
            self._logged = now
            usual = logging.INFO if self._has_left else logging.WARNING
            log.log(_LEVELS.get(health.state, usual), "replica %s at %s is %s", spec.id, spec.address, now)
        self._listener.changed()
