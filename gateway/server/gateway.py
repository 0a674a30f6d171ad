"""The composition root: build everything one worker process holds from the configuration."""

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from gateway.api.server.answer_copies import AnswerCopies
from gateway.api.server.api_route import ApiRoute
from gateway.api.server.intake import Intake
from gateway.api.server.internal_requests import InternalRequests
from gateway.api.server.request_watchdog import RequestWatchdog
from gateway.api.server.services import Bounds, Readiness, Services
from gateway.config.files import location_of
from gateway.config.settings import Config
from gateway.jobs.batches.batch_runner import BatchRunner
from gateway.jobs.batches.callers import Callers
from gateway.jobs.batches.jobs import Jobs
from gateway.jobs.files.content import Contents
from gateway.jobs.files.file_store import Files, open_content
from gateway.jobs.responses.background_work import BackgroundWork
from gateway.jobs.responses.conversation_store import ConversationStore
from gateway.jobs.responses.response_space import ResponseSpace
from gateway.jobs.responses.response_store import ResponseStore
from gateway.models.served_model import ServedModel
from gateway.reload.messages import Outcome
from gateway.scheduling.encoding_queue import EncodingQueue
from gateway.server.composition import Composition
from gateway.server.serve_model import ModelParts
from gateway.server.store_use import StoreUse
from gateway.store.configured_store import open_store
from gateway.store.store_client import Store
from gateway.telemetry.answer_record import describe
from gateway.telemetry.telemetry import Telemetry
from gateway.tenancy.auth.authenticator import Authenticator
from gateway.tenancy.auth.key_store import KeyStore
from gateway.tenancy.limits.budget_alerts import Alerts
from gateway.tenancy.limits.limits_batcher import LimitsBatcher
from gateway.tenancy.limits.store_limiter import StoreLimiter
from gateway.tenancy.providers.provider_keys import ProviderKeys
from protos.errors import ReplicaUnavailable, StoreUnavailable
from routing.transports.shared_parts import SharedParts

if TYPE_CHECKING:
    from gateway.inference.generation import Generation
    from gateway.rollouts.drift.drift_reporter import DriftReporter
    from gateway.rollouts.measures.measure_reporter import MeasureReporter
    from gateway.scaling.demand.demand_reporter import DemandReporter
    from gateway.server.copying import Copying
    from observability.digests import Digests
    from routing.rollouts.split import Split

log = logging.getLogger(__name__)

#: Seconds that a starting worker waits for a replica of each model, and then for the others, before it serves without.
START_SECONDS = 10.0
STRAGGLER_SECONDS = 1.0
#: Seconds between two looks at the requests that an earlier configuration still has.
RETIRE_SECONDS = 1.0


class Gateway:
    """Compose, start and close one worker's parts; `services` are the parts that endpoints use.

    It is a reload's `Participant`: what the configuration may change is in a `Composition`, of which another one takes
    the place; all else is there once.
    """

    def __init__(self, config: Config, routes: Iterable[ApiRoute]) -> None:
        """Load tokenizers, which takes a second. Needs a running event loop; batches run their requests through
        `routes`.
        """
        self.config = config
        self.watchdog = RequestWatchdog(config.listen.stream_keep_alive_seconds)
        self._store = open_store(config, timeout=config.store.timeout_seconds)
        self._encoding = EncodingQueue()
        place = ResponseSpace(self._store, config.responses)
        self._responses, self._conversations = ResponseStore(place), ConversationStore(place)
        self._background = BackgroundWork(config.responses.max_background)
        location = location_of(config.files, config.state_dir)
        self._files = Files(self._store, Contents(partial(open_content, location)), config.files)
        self._jobs = Jobs(self._store, config.batches)
        self._alerts = Alerts(config.alerts.webhook)
        # The process id alone would repeat after a restart in a container.
        worker = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        # It is part of every lease's name in the store, so it is short; the log maps it to the worker.
        holder = secrets.token_hex(5)
        self._worker = worker
        log.info("worker %s holds its leases as %s", worker, holder)
        self._limits_batcher = LimitsBatcher(
            self._store,
            holder,
            timeout=config.store.timeout_seconds,
            on_alert=self._alerts.announce,
        )
        self.limiter = StoreLimiter(self._limits_batcher)
        self._provider_keys = ProviderKeys(self._store, config.store.encryption_key)
        parts = ModelParts(worker, int(time.time()), self._provider_keys.key_of, SharedParts())
        self._composition = Composition(config, self._store, holder, self._encoding, parts)
        self._prepared: Composition | None = None
        #: Earlier ones with requests under way, and what waits for the end of those.
        self._earlier: list[Composition] = []
        self._retiring: set[asyncio.Task[None]] = set()
        directory = self._composition.directory
        self.authenticator = Authenticator(KeyStore(self._store), directory, cache_size=config.auth.key_cache_size)
        self._store_use = self._use_of_store(self._composition)
        reported = config.scales or config.reshapes
        self._demand = _demand_reporter(self._store, config, holder, self.models) if reported else None
        self._measures = self._measure_reporter(holder) if config.goes_by_version else None
        drifts = any(model.drift is not None for model in config.models)
        self._drift = _drift_reporter(self._store, config) if drifts else None
        self._telemetry = Telemetry(
            config,
            worker,
            self.models,
            self.watchdog.active,
            self._limits_batcher,
            self.limiter,
            more_sinks=[part.counter for part in (self._demand, self._measures, self._drift) if part is not None],
        )
        #: What copies requests; None until a configuration has a use for it.
        self._copying: Copying | None = None
        self.services = self._services_of(self._composition)
        sender = InternalRequests(lambda: self.services, routes)
        callers = self._callers_of(self._composition)
        self._runner = BatchRunner(config, self._composition.catalog, sender, self._jobs, self._files, callers)
        self._tasks: list[asyncio.Task[None]] = []
        #: Called with the services of a configuration that has been taken.
        self.on_services: Callable[[Services], None] = _ignore
        #: Whether the process has been told to end; it may still take requests.
        self.draining = False

    @property
    def models(self) -> dict[str, ServedModel]:
        """The models that are served now, by name."""
        return self._composition.models

    async def start(self) -> None:
        """Connect to the store and the replicas; return when ready, or when waiting longer would not help."""
        # Replicas that require a key are probed with it first.
        await self._provider_keys.load()
        await self._composition.start()
        # Drains are read first: a drained replica gets no request at all.
        await self._composition.exchange.exchange()
        self._composition.follow()
        self._tasks = [
            asyncio.create_task(self.authenticator.run()),
            asyncio.create_task(self.watchdog.run()),
            asyncio.create_task(self._limits_batcher.run()),
            asyncio.create_task(self.limiter.run()),
            asyncio.create_task(self._provider_keys.run()),
        ]
        if self._demand is not None:
            self._tasks.append(asyncio.create_task(self._demand.run()))
        if self._measures is not None:
            self._tasks.append(asyncio.create_task(self._measures.run()))
        if self._drift is not None:
            self._tasks.append(asyncio.create_task(self._drift.run()))
        self._telemetry.start()
        self._runner.start()
        fleets = [model.fleet for model in self.models.values()]
        with suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                await asyncio.gather(*(fleet.wait_tried(1) for fleet in fleets))
            async with asyncio.timeout(STRAGGLER_SECONDS):
                await asyncio.gather(*(fleet.wait_tried(len(fleet)) for fleet in fleets))
        if any(fleet.ready_replicas < len(fleet) for fleet in fleets):
            log.warning("serving although not every replica is ready: %s", "; ".join(await self.problems()))

    async def aclose(self) -> None:
        await self._background.aclose(self.config.listen.drain_seconds)
        await self._runner.aclose()
        if self._copying is not None:
            await self._copying.aclose()
        self.limiter.book_now()
        await self._limits_batcher.flush()
        await self.abandon()
        tasks = [*self._tasks, *self._retiring]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._telemetry.aclose()
        if self._measures is not None:
            await self._measures.aclose()
        await self._composition.aclose()
        await self.authenticator.aclose()
        await self._alerts.aclose()
        self._encoding.close()
        await self._files.contents.aclose()
        await self._store.aclose()

    async def prepare(self, config: Config) -> None:
        """Make another configuration ready. Raises CannotPrepare."""
        await self.abandon()
        self._prepared = await self._composition.successor(config, self._provider_keys.load)

    def take(self) -> None:
        """Serve the next request by what was prepared; those that have begun go on by what they have begun with."""
        prepared, self._prepared = self._prepared, None
        assert prepared is not None, "it is prepared first"
        last, self._composition = self._composition, prepared
        last.stop()
        prepared.follow()
        self.config = prepared.config
        self.authenticator.use(prepared.directory)
        self._store_use = self._use_of_store(prepared)
        if self._demand is not None:
            self._demand.use(prepared.config)
        if self._drift is not None:
            self._drift.use(prepared.config)
        self._telemetry.use(prepared.config, prepared.models)
        self._runner.use(prepared.config, prepared.catalog, self._callers_of(prepared))
        self.services = self._services_of(prepared)
        self.on_services(self.services)
        self._earlier.append(last)
        task = asyncio.create_task(self._retire(last))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def abandon(self) -> None:
        """Drop what was prepared."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            await prepared.aclose(kept=[self._composition])

    async def settle(self) -> None:
        """Return when no request is under way that began with an earlier configuration."""
        while self._retiring:
            await asyncio.wait(list(self._retiring))

    def reloaded(self, outcome: Outcome) -> None:
        """Hear of a reload's outcome."""
        self._telemetry.reloaded(outcome)

    async def _retire(self, last: Composition) -> None:
        """Close what is only of the `last` composition, when the requests that may have begun with it have ended."""
        try:
            # By then, those that were given its services have begun.
            await asyncio.sleep(RETIRE_SECONDS)
            began = set(self.watchdog.active)
            while began:
                await asyncio.sleep(RETIRE_SECONDS)
                began &= self.watchdog.active
        finally:
            self._earlier.remove(last)
            await last.aclose(kept=[self._composition, *self._earlier])

    def _services_of(self, composition: Composition) -> Services:
        config, telemetry = composition.config, self._telemetry
        return Services(
            bounds=Bounds(config.listen, config.responses, config.batches),
            intake=Intake(
                config.listen,
                self.watchdog,
                self.authenticator,
                self.limiter,
                composition.catalog,
                telemetry.digests,
                telemetry.journal,
                len(config.tiers) - 1,
            ),
            watchdog=self.watchdog,
            catalog=composition.catalog,
            policies=composition.policies,
            limiter=self.limiter,
            encoding=self._encoding,
            sampler=telemetry.sampler,
            record_publisher=telemetry.record_publisher,
            describes=telemetry.record_publisher.publishes,
            describe=_describe_of(config, telemetry.digests),
            digests=telemetry.digests,
            feedback=self._measures,
            responses=self._responses,
            conversations=self._conversations,
            background=self._background,
            files=self._files,
            jobs=self._jobs,
            readiness=self.readiness,
            copies=self._copies_of(config),
        )

    def _copies_of(self, config: Config) -> AnswerCopies | None:
        """Return what copies requests by this configuration; None where it has no use for it."""
        if not config.keeps_text and not any(model.names_versions for model in config.models):
            return None
        if self._copying is None:
            # Imported here: each worker pays for what it imports.
            from gateway.server.copying import Copying

            publisher = self._telemetry.own_record_publisher
            active = self.watchdog.active
            self._copying = Copying(self._store, config, lambda: self.services, publisher, active, self._worker)
        self._copying.use(config)
        return self._copying.copies

    def _use_of_store(self, composition: Composition) -> StoreUse:
        return StoreUse(self._store, composition.directory, self.authenticator, composition.config.model_names)

    def _callers_of(self, composition: Composition) -> Callers:
        return Callers(KeyStore(self._store), composition.directory, len(composition.config.tiers))

    async def problems(self) -> list[str]:
        """List what keeps this worker from being ready, one line each; for operators, not for clients."""
        found = self._composition.problems() + self._provider_keys.problems
        try:
            await self._store.ping()
        except StoreUnavailable as error:
            found.append(f"the store does not answer: {error.__cause__ or error}")
        return found

    async def readiness(self) -> Readiness:
        """Return whether requests for every model, of at least one tenant, would be served now; never while draining.

        A load balancer that avoids every worker cuts off the tenants that are served whatever the store does.
        """
        away = [model.name for model in self.models.values() if not model.ready]
        problems = ["The gateway is ending."] if self.draining else []
        problems += [f"No replica of the model {name} takes requests." for name in away]
        served, problem = await self._store_use.look()
        known, doubts = self._composition.version_problems()
        return Readiness(
            ready=served and known and not problems,
            ready_for_some=served and not self.draining and len(away) < len(self.models),
            problems=(*problems, *doubts, *filter(None, [problem])),
        )

    def begin_drain(self) -> None:
        """Not be ready any more, and end the connections of the requests that run with their answers."""
        self.draining = True
        for exchange in self.watchdog.active:
            exchange.close_connection()

    def end_streams(self) -> None:
        """End every request with an error that its client can see: the process has no time left."""
        for exchange in list(self.watchdog.active):
            exchange.handle.fail(ReplicaUnavailable("The gateway is shutting down."))

    def _measure_reporter(self, worker: str) -> "MeasureReporter":
        from gateway.rollouts.measures.measure_reporter import MeasureReporter

        return MeasureReporter(self._store, worker, self._split_of)

    def _split_of(self, model: str) -> "Split | None":
        served = self.models.get(model)
        return None if served is None or served.versions is None else served.versions.split


def _describe_of(config: Config, digests: "Digests | None") -> "Callable[[Generation], None]":
    """Choose what fills in records: answers are checked only where versions may be compared."""
    if not config.goes_by_version:
        return partial(describe, digests=digests)
    from gateway.telemetry.answer_checks import describe_compared

    return partial(describe_compared, digests=digests)


def _demand_reporter(store: Store, config: Config, worker: str, models: Mapping[str, ServedModel]) -> "DemandReporter":
    # Imported here: each worker pays for what it imports.
    from gateway.scaling.demand.demand_reporter import DemandReporter

    return DemandReporter(store, config, worker, models)


def _drift_reporter(store: Store, config: Config) -> "DriftReporter":
    # Imported here: each worker pays for what it imports.
    from gateway.rollouts.drift.drift_reporter import DriftReporter

    return DriftReporter(store, config)


def _ignore(services: Services) -> None:
    """Tell nobody."""
