"""A worker's part in scaling: it reports the demand of models that scale, and knows which replicas are to go."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from gateway.config.settings import Config
from gateway.scaling.demand.demand_counter import AdmissionQueue, DemandCounter, Fleet
from gateway.scaling.demand.demand_reports import report_demand
from gateway.scaling.demand.step_watch import StepWatch
from gateway.tenancy.tenants.transactions import Storage
from protos.errors import StoreUnavailable
from protos.types import Work
from routing.contracts.policy import ReplicaView
from routing.contracts.policy_settings import Targets

log = logging.getLogger(__name__)

REPORT_SECONDS: Final = 1.0


class WatchedFleet(Fleet, Protocol):
    """A fleet whose steps can be watched."""

    on_work: Callable[[ReplicaView, Work], None]


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


class DemandReporter:
    """Reports the demand of one worker's models that scale. `counter` is the sink of its records."""

    def __init__(
        self,
        storage: Storage,
        config: Config,
        worker: str,
        models: Mapping[str, ScaledModel],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`models` are all of the worker's, by name. Takes over the `on_work` of those fleets that scale."""
        targets = {model.name: model.routing.targets or Targets() for model in config.models if model.scales}
        scaled = {name: models[name] for name in targets}
        self.counter = DemandCounter(targets, clock)
        self._storage = storage
        self._worker = worker
        self._fleets = {name: model.fleet for name, model in scaled.items()}
        self._queues = {name: model.admission_queue for name, model in scaled.items()}
        self._watches: dict[str, StepWatch] = {}
        for name, fleet in self._fleets.items():
            watch = self._watches[name] = StepWatch(fleet.on_work)
            fleet.on_work = watch.worked
        self._away = False

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            try:
                await self.report()
            except Exception:
                # Any error: a worker that never reports again would be no demand at all.
                log.exception("reporting the demand of models that scale")
            await asyncio.sleep(REPORT_SECONDS)

    async def report(self) -> None:
        """Report once."""
        report = self.counter.report(self._fleets, self._queues, self._watches)
        try:
            await report_demand(self._storage, self._worker, report)
        except StoreUnavailable as error:
            if not self._away:
                log.warning("demand is not reported: %s", error.__cause__ or error)
            self._away = True
        else:
            self._away = False
