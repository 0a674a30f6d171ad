"""The composition root: build everything one worker process holds from the configuration."""

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from gateway.api.server.api_route import ApiRoute
from gateway.api.server.intake import Intake
from gateway.api.server.internal_requests import InternalRequests
from gateway.api.server.request_watchdog import RequestWatchdog
from gateway.api.server.services import Bounds, Readiness, Services
from gateway.config.files import location_of
from gateway.config.models.engine_checks import SESSIONS
from gateway.config.models.price import FREE
from gateway.config.models.scaling import Scaling
from gateway.config.settings import Config
from gateway.filtering.filters.filter_policies import Policies
from gateway.filtering.guards.build_guards import GuardServices
from gateway.fleets.discovery.announcements import Announcements
from gateway.fleets.discovery.registrations import CHANGES
from gateway.fleets.discovery.replica_discovery import Discovery
from gateway.fleets.fleet_sync import FleetSync
from gateway.fleets.pool_abilities import abilities
from gateway.fleets.replica_specs import replica_specs
from gateway.inference.served_model_guard import served_model_guard
from gateway.jobs.batches.batch_runner import BatchRunner
from gateway.jobs.batches.callers import Callers
from gateway.jobs.batches.jobs import Jobs
from gateway.jobs.files.content import Contents
from gateway.jobs.files.file_store import Files, open_content
from gateway.jobs.responses.background_work import BackgroundWork
from gateway.jobs.responses.conversation_store import ConversationStore
from gateway.jobs.responses.response_space import ResponseSpace
from gateway.jobs.responses.response_store import ResponseStore
from gateway.models.adapter_models import AdapterModels, has_adapters
from gateway.models.answer_lengths import AnswerLengths
from gateway.models.catalog import ModelCatalog
from gateway.models.first_tokens import FirstTokenTimes
from gateway.models.media_rules import media_rule
from gateway.models.model_output import model_output
from gateway.models.routing_settings import policy_settings
from gateway.models.served_model import ServedModel
from gateway.scaling.intents import scaling_drains
from gateway.scheduling.activity import Activity
from gateway.scheduling.admission_queue import AdmissionQueue
from gateway.scheduling.encoding_queue import EncodingQueue
from gateway.scheduling.queue_at_zero import QueueAtZero
from gateway.server.store_use import StoreUse
from gateway.store.configured_store import open_store
from gateway.store.store_client import Store
from gateway.telemetry.telemetry import Telemetry
from gateway.tenancy.auth.authenticator import Authenticator
from gateway.tenancy.auth.key_store import KeyStore
from gateway.tenancy.limits.budget_alerts import Alerts
from gateway.tenancy.limits.limits_batcher import LimitsBatcher
from gateway.tenancy.limits.plans import Plans
from gateway.tenancy.limits.store_limiter import StoreLimiter
from gateway.tenancy.providers.provider_keys import KeyOf, ProviderKeys
from gateway.tenancy.tenants.tenant_directory import Directory
from gateway.text.tokens.identity import tokenizer_hash
from gateway.text.tokens.loader import load_tokenizer
from gateway.text.tokens.shared_tokenizers import SharedTokenizers
from protos.errors import ReplicaUnavailable, StoreUnavailable
from routing.dispatch.dispatch_context import DispatchContext
from routing.estimates.decode_length import QuantileDecodeLength
from routing.fleet.fleet import Fleet
from routing.policies import POLICIES
from routing.policies.adapter_affinity import AdapterAffinity
from routing.prefix.prefix_directory import PrefixDirectory
from routing.transports.shared_parts import SharedParts

if TYPE_CHECKING:
    from gateway.scaling.demand.demand_reporter import DemandReporter

log = logging.getLogger(__name__)

#: Seconds that a starting worker waits for a replica of each model, and then for the others, before it serves without.
START_SECONDS = 10.0
STRAGGLER_SECONDS = 1.0


class Gateway:
    """Compose, start and close one worker's parts; `services` are the parts that endpoints use."""

    def __init__(self, config: Config, routes: Iterable[ApiRoute]) -> None:
        """Load tokenizers, which takes a second. Needs a running event loop; batches run their requests through
        `routes`.
        """
        self.config = config
        self.watchdog = RequestWatchdog(config.listen.stream_keep_alive_seconds)
        self._store = open_store(config, timeout=config.store.timeout_seconds)
        self._directory = Directory(self._store, config)
        self.authenticator = Authenticator(
            KeyStore(self._store), self._directory, cache_size=config.auth.key_cache_size
        )
        self._store_use = StoreUse(self._store, self._directory, self.authenticator, [m.name for m in config.models])
        self._encoding = EncodingQueue()
        place = ResponseSpace(self._store, config.responses)
        responses, conversations = ResponseStore(place), ConversationStore(place)
        self._background = BackgroundWork(config.responses.max_background)
        location = location_of(config.files, config.state_dir)
        self._files = Files(self._store, Contents(partial(open_content, location)), config.files)
        jobs = Jobs(self._store, config.batches)
        self._alerts = Alerts(config.alerts.webhook)
        # The process id alone would repeat after a restart in a container.
        worker = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        # It is part of every lease's name in the store, so it is short; the log maps it to the worker.
        holder = secrets.token_hex(5)
        log.info("worker %s holds its leases as %s", worker, holder)
        self._limits_batcher = LimitsBatcher(
            self._store,
            holder,
            timeout=config.store.timeout_seconds,
            on_alert=self._alerts.announce,
        )
        self.limiter = StoreLimiter(self._limits_batcher)
        self._provider_keys = ProviderKeys(self._store, config.store.encryption_key)
        key_of = self._provider_keys.key_of
        started, tokenizers, shared = int(time.time()), SharedTokenizers(), SharedParts()
        self.models = {
            model.name: serve_model(config, index, worker, started, key_of, tokenizers, shared)
            for index, model in enumerate(config.models)
        }
        aliases = {alias: self.models[name] for alias, name in config.aliases.items()}
        catalog = ModelCatalog(self.models, aliases, AdapterModels(self.models, config.models))
        model_guard = partial(served_model_guard, catalog.find, config.tiers[0], self._encoding)
        self._policies = Policies(config, self._store, GuardServices(model_guard, self._encoding, key_of))
        self._activity = Activity(self._store, {name: model.admission_queue for name, model in self.models.items()})
        self._demand = _demand_reporter(self._store, config, holder, self.models) if config.scales else None
        fleets = {name: model.fleet for name, model in self.models.items()}
        hashes = {name: model.tokenizer_hash for name, model in self.models.items()}
        texts = {name: model.tokenizer for name, model in self.models.items()}
        self._discovery = Discovery(config, fleets, hashes, key_of=key_of, texts=texts)
        self._exchange = FleetSync(
            self._store,
            config,
            holder,
            fleets,
            finder=self._discovery,
            more_drains=scaling_drains if config.scales else None,
        )
        self._discovery.changed = self._exchange.apply_drains
        self._telemetry = Telemetry(
            config,
            worker,
            self.models,
            self.watchdog.active,
            self._limits_batcher,
            self.limiter,
            more_sinks=[] if self._demand is None else [self._demand.counter],
        )
        self.services = Services(
            bounds=Bounds(config.listen, config.responses, config.batches),
            intake=Intake(
                config.listen,
                self.watchdog,
                self.authenticator,
                self.limiter,
                catalog,
                self._telemetry.digests,
                self._telemetry.journal,
            ),
            watchdog=self.watchdog,
            catalog=catalog,
            policies=self._policies,
            limiter=self.limiter,
            encoding=self._encoding,
            sampler=self._telemetry.sampler,
            record_publisher=self._telemetry.record_publisher,
            describes=self._telemetry.record_publisher.publishes,
            digests=self._telemetry.digests,
            responses=responses,
            conversations=conversations,
            background=self._background,
            files=self._files,
            jobs=jobs,
            readiness=self.readiness,
        )
        callers = Callers(KeyStore(self._store), self._directory, len(config.tiers))
        self._runner = BatchRunner(config, catalog, InternalRequests(self.services, routes), jobs, self._files, callers)
        self._tasks: list[asyncio.Task[None]] = []
        #: Whether the process has been told to end; it may still take requests.
        self.draining = False

    async def start(self) -> None:
        """Connect to the store and the replicas; return when ready, or when waiting longer would not help."""
        # Replicas that require a key are probed with it first.
        await self._provider_keys.load()
        for model in self.models.values():
            model.fleet.start(prove_first=True)
        await self._discovery.start()
        # Drains are read first: a drained replica gets no request at all.
        await self._exchange.exchange()
        self._tasks = [
            asyncio.create_task(self.authenticator.run()),
            asyncio.create_task(self.watchdog.run()),
            asyncio.create_task(self._limits_batcher.run()),
            asyncio.create_task(self.limiter.run()),
            asyncio.create_task(self._activity.run()),
            asyncio.create_task(self._exchange.run()),
            asyncio.create_task(self._provider_keys.run()),
        ]
        if self._demand is not None:
            self._tasks.append(asyncio.create_task(self._demand.run()))
        if self._discovery.wants_registrations:
            announcements = Announcements(
                self._store,
                CHANGES,
                self._exchange.announced,
                "replicas that register are noticed up to 0.5 s later",
            )
            self._tasks.append(asyncio.create_task(announcements.run()))
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
        self.limiter.book_now()
        await self._limits_batcher.flush()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._telemetry.aclose()
        await self._policies.aclose()
        await self._discovery.aclose()
        await asyncio.gather(*(model.fleet.aclose() for model in self.models.values()))
        await self.authenticator.aclose()
        await self._alerts.aclose()
        self._encoding.close()
        await self._files.contents.aclose()
        await self._store.aclose()

    async def problems(self) -> list[str]:
        """List what keeps this worker from being ready, one line each; for operators, not for clients."""
        found = [
            f"model {model.name}: {replica}: {problem}"
            for model in self.models.values()
            for replica, problem in model.fleet.problems().items()
        ]
        found += [
            f"model {model.name}: no replica runs, as its pools' min allow; the next request starts one"
            for model in self.models.values()
            if model.at_zero
        ]
        found += self._discovery.problems()
        found += self._provider_keys.problems
        try:
            await self._store.ping()
        except StoreUnavailable as error:
            found.append(f"the store does not answer: {error.__cause__ or error}")
        return found

    async def readiness(self) -> Readiness:
        """Return whether requests for every model, of at least one tenant, would be served now; never while draining.

        A load balancer that avoids every worker cuts off the tenants that are served whatever the store does.
        """
        problems = ["The gateway is ending."] if self.draining else []
        problems += [
            f"No replica of the model {model.name} takes requests." for model in self.models.values() if not model.ready
        ]
        served, problem = await self._store_use.look()
        return Readiness(served and not problems, (*problems, *filter(None, [problem])))

    def begin_drain(self) -> None:
        """Not be ready any more, and end the connections of the requests that run with their answers."""
        self.draining = True
        for exchange in self.watchdog.active:
            exchange.close_connection()

    def end_streams(self) -> None:
        """End every request with an error that its client can see: the process has no time left."""
        for exchange in list(self.watchdog.active):
            exchange.handle.fail(ReplicaUnavailable("The gateway is shutting down."))


def _demand_reporter(store: Store, config: Config, worker: str, models: Mapping[str, ServedModel]) -> "DemandReporter":
    # Imported here: each worker pays for what it imports.
    from gateway.scaling.demand.demand_reporter import DemandReporter

    return DemandReporter(store, config, worker, models)


def serve_model(
    config: Config,
    model_index: int,
    worker: str,
    created: int,
    key_of: KeyOf,
    tokenizers: SharedTokenizers,
    shared: SharedParts,
) -> ServedModel:
    """Compose a configured model; what another one has loaded of the same files, or looks at, is shared with it.

    Raises TokenizerError and HeatmapError.
    """
    model = config.models[model_index]
    loaded = load_tokenizer(model.tokenizer, tokenizers)
    tokenizer = loaded.tokenizer
    output = model_output(model, loaded)
    policy = POLICIES[model.routing.policy](policy_settings(model))
    if has_adapters(model):
        policy = AdapterAffinity(policy)
    prefixes = PrefixDirectory() if policy.uses_prefixes else None
    sessions = any(pool.engine in SESSIONS for pool in model.pools)
    identity = tokenizers.once(("identity", tokenizer), lambda: tokenizer_hash(loaded)) if sessions else ""
    fleet = Fleet(
        replica_specs(config, model_index, key_of, identity, tokenizer),
        worker,
        prefixes,
        abilities=abilities(model),
        shared=shared,
    )
    dispatch_context = DispatchContext(fleet, policy, hedging=model.routing.hedging)
    scaling, launched = model.scaling or Scaling(), [pool.scaling for pool in model.pools if pool.launcher is not None]
    if launched and scaling.mode == "act":
        queue: AdmissionQueue = QueueAtZero(
            fleet, policy, config.admission, scaling.wait_seconds, cached=dispatch_context.cached
        )
    else:
        queue = AdmissionQueue(fleet, policy, config.admission, cached=dispatch_context.cached)
    return ServedModel(
        name=model.name,
        created=created,
        context=model.context,
        tokenizer=tokenizer,
        table=tokenizers.table(tokenizer),
        output=output,
        marked_table=None if output is None else tokenizers.marked_table(tokenizer, output.marks),
        chat_format=loaded.chat_format,
        fleet=fleet,
        policy=policy,
        policy_name=model.routing.policy,
        dispatch_context=dispatch_context,
        lengths=AnswerLengths(QuantileDecodeLength()),
        plans=Plans(model.name, model.price or FREE),
        admission_queue=queue,
        first_tokens=FirstTokenTimes(),
        price=model.price or FREE,
        fallbacks=model.fallbacks,
        relays=any(pool.engine == "openai" for pool in model.pools),
        opaque=model.tokenizer is None,
        tokenizer_hash=identity,
        media=config.listen.media,
        media_rule=media_rule(model),
        embeddings=model.embeddings,
        from_zero=scaling.mode == "act"
        and len(launched) == len(model.pools)
        and all(pool is not None and pool.min == 0 for pool in launched),
    )
