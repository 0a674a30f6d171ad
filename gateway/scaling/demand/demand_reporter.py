"""A worker's part in scaling: it reports the demand of models that scale or change shapes, and knows which replicas
are to go.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

from gateway.config.models.settings import Model
from gateway.config.settings import Config
from gateway.scaling.demand.demand_counter import AdmissionQueue, DemandCounter, Fleet
from gateway.scaling.demand.demand_reports import announce_demand, report_demand
from gateway.scaling.demand.launched_rooms import LaunchedRooms
from gateway.scaling.demand.step_watch import StepWatch
from gateway.scaling.first_replicas import FirstReplicas
from gateway.scheduling.queue_at_zero import QueueAtZero
from gateway.tenancy.tenants.transactions import Storage
from protos.errors import StoreUnavailable
from protos.types import Work
from routing.contracts.policy import ReplicaView
from routing.contracts.policy_settings import Targets

log = logging.getLogger(__name__)

REPORT_SECONDS: Final = 1.0
#: Between two reports, however many requests begin to wait.
LEAST_SECONDS: Final = 0.1


class WatchedFleet(Fleet, Protocol):
    """A fleet whose steps can be watched."""

    on_work: Callable[[ReplicaView, Work], None]
    on_left: Callable[[str], None]

    def launch(self, narrow: int, wide: int) -> None:
        """Note the KV tokens that a replica holds of either shape that launchers make; 0: there are none."""
        ...


class ScaledModel(Protocol):
    """A served model, as far as its demand is reported."""

    @property
    def fleet(self) -> WatchedFleet:
        """The model's replicas."""
        ...

    @property
    def admission_queue(self) -> AdmissionQueue:
        """The model's queue."""
        ...


def is_reported(model: Model) -> bool:
    """Whether a controller asks for the model's demand."""
    return model.scales or model.reshape is not None


class DemandReporter:
    """Reports the demand of one worker's models that scale or change shapes. `counter` is the sink of its records."""

    def __init__(
        self,
        storage: Storage,
        config: Config,
        worker: str,
        models: Mapping[str, ScaledModel],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`models` are all of the worker's, by name. Takes over `on_work` and `on_left` of the fleets that scale."""
        targets = {model.name: model.routing.targets or Targets() for model in config.models if is_reported(model)}
        scaled = {name: models[name] for name in targets}
        relaunched = {
            model.name for model in config.models if model.reshape is not None and model.reshape.relaunch is not None
        }
        self.counter = DemandCounter(targets, clock, relaunched)
        self._storage = storage
        self._worker = worker
        self._fleets = {name: model.fleet for name, model in scaled.items()}
        self._queues = {name: model.admission_queue for name, model in scaled.items()}
        self._watches: dict[str, StepWatch] = {}
        for name, fleet in self._fleets.items():
            watch = self._watches[name] = StepWatch(fleet.on_work, fleet.on_left)
            fleet.on_work, fleet.on_left = watch.worked, watch.left
        self._away = False
        self._rooms = LaunchedRooms(storage, [one for one in config.models if is_reported(one)], self._fleets, clock)
        self._first = FirstReplicas(storage, [model for model in config.models if model.scales], clock)
        self._hurry = asyncio.Event()
        self._zero = [queue for queue in self._queues.values() if isinstance(queue, QueueAtZero)]
        for name, queue in self._queues.items():
            if isinstance(queue, QueueAtZero):
                queue.on_wait = self._hurry.set
                queue.first_replica_in = partial(self._first.seconds, name)

    def use(self, config: Config) -> None:
        """Go by other settings of the same models from now on."""
        self._first.use([model for model in config.models if model.scales])

    async def run(self) -> None:
        """Report until cancelled: once a second, and at once when a request waits for a first replica."""
        while True:
            hurried = self._hurry.is_set()
            self._hurry.clear()
            try:
                await self.report(hurried=hurried)
            except Exception:
                # Any error: a worker that never reports again would be no demand at all.
                log.exception("reporting the demand of models that scale")
            await asyncio.sleep(LEAST_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REPORT_SECONDS - LEAST_SECONDS):
                    await self._hurry.wait()

    async def report(self, *, hurried: bool = False) -> None:
        """Report once; while there is no replica, read when the first one is expected.

        With `hurried` one has just begun to wait, and the controller looks at once.
        """
        report = self.counter.report(self._fleets, self._queues, self._watches)
        try:
            await report_demand(self._storage, self._worker, report)
            if hurried:
                await announce_demand(self._storage)
            await self._rooms.look()
            at_zero = [queue for queue in self._zero if queue.at_zero]
            if at_zero:
                await self._first.look()
            for queue in at_zero:
                # Nobody waits for what an operator has meanwhile forbidden.
                queue.pump()
        except StoreUnavailable as error:
            if not self._away:
                log.warning("demand is not reported: %s", error.__cause__ or error)
            self._away = True
        else:
            self._away = False
