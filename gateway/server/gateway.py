"""The composition root: everything one worker process holds, built once from the configuration."""

import asyncio
import logging
import os
import secrets
import socket
import time
from functools import partial
from typing import TYPE_CHECKING

from gateway.api.server.http_exchange import Exchange
from gateway.api.server.rate_headers import rate_headers
from gateway.api.server.request_watchdog import Overseer
from gateway.config.files import location_of
from gateway.config.models.engine_checks import SESSIONS
from gateway.config.models.price import FREE
from gateway.config.settings import Config
from gateway.filtering.filters.filter_policies import Policies
from gateway.filtering.guards.build_guards import Surroundings
from gateway.fleets.discovery.replica_discovery import Discovery
from gateway.fleets.fleet_sync import FleetExchange
from gateway.fleets.pool_abilities import abilities
from gateway.fleets.replica_specs import replica_specs
from gateway.jobs.batches.callers import Callers
from gateway.jobs.batches.jobs import Jobs
from gateway.jobs.files.content import Contents
from gateway.jobs.files.file_store import Files, open_content
from gateway.jobs.responses.background_work import BackgroundWork
from gateway.jobs.responses.conversation_store import ConversationStore
from gateway.jobs.responses.place import Place
from gateway.jobs.responses.response_store import ResponseStore
from gateway.models.adapter_models import AdapterModels, has_adapters
from gateway.models.answer_lengths import AnswerLengths
from gateway.models.first_tokens import FirstTokenTimes
from gateway.models.model_output import model_output
from gateway.models.routing_settings import hedging, policy_settings
from gateway.models.served_model import ServedModel
from gateway.scheduling.activity import Activity
from gateway.scheduling.admission_queue import Turnstile
from gateway.scheduling.encoding_turns import EncodingTurns
from gateway.store.store import Store, store_url
from gateway.telemetry.telemetry import Telemetry
from gateway.tenancy.auth.authenticator import Authenticator
from gateway.tenancy.auth.key_store import KeyStore
from gateway.tenancy.limits.alerts import Alerts
from gateway.tenancy.limits.limits_batcher import Courier
from gateway.tenancy.limits.plans import Plans
from gateway.tenancy.limits.store_limiter import StoreLimiter
from gateway.tenancy.providers.provider_keys import KeyOf, ProviderKeys
from gateway.tenancy.tenants.caller import Caller
from gateway.tenancy.tenants.tenant_directory import Directory
from gateway.text.tokens.detokenizer import TokenTable
from gateway.text.tokens.identity import tokenizer_hash
from gateway.text.tokens.loader import load_tokenizer
from gateway.text.tokens.marked import MarkedTokens
from protos.errors import ModelNotFound, Overloaded, PermissionDenied, ReplicaUnavailable, StoreUnavailable
from routing.dispatch.dispatch_context import Desk
from routing.estimates.decode_length import QuantileDecodeLength
from routing.fleet.fleet import Fleet
from routing.policies import POLICIES
from routing.policies.adapter_affinity import AdapterAffinity
from routing.prefix.prefix_directory import PrefixDirectory

if TYPE_CHECKING:
    from gateway.jobs.batches.batch_runner import BatchRunner

log = logging.getLogger(__name__)

#: How long a starting worker waits for a replica of each model, and then for the others, before it serves without.
START_SECONDS = 10.0
STRAGGLER_SECONDS = 1.0


class Gateway:
    """One worker's state. Requests only read it, but for `active`."""

    def __init__(self, config: Config) -> None:
        """Loads tokenizers, which takes a second; needs a running event loop."""
        self.config = config
        self.overseer = Overseer(config.listen.stream_keep_alive_seconds)
        self._store = Store(store_url(config), timeout=config.store.timeout_seconds)
        self._directory = Directory(self._store, config)
        self.authenticator = Authenticator(
            KeyStore(self._store), self._directory, cache_size=config.auth.key_cache_size
        )
        self.encoding = EncodingTurns()
        place = Place(self._store, config.responses)
        self.responses, self.conversations = ResponseStore(place), ConversationStore(place)
        self.background = BackgroundWork(config.responses.max_background)
        location = location_of(config.files, config.state_dir)
        self.files = Files(self._store, Contents(partial(open_content, location)), config.files)
        self.jobs = Jobs(self._store, config.batches)
        self._runner: BatchRunner | None = None
        self._alerts = Alerts(config.alerts.webhook)
        # The process id alone would be the same again after a restart in a container.
        worker = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        # In the store it is part of every lease's name, so a short one will do; the log tells whose it is.
        holder = secrets.token_hex(5)
        log.info("worker %s holds its leases as %s", worker, holder)
        self._courier = Courier(
            self._store,
            holder,
            timeout=config.store.timeout_seconds,
            on_alert=self._alerts.announce,
        )
        self.limiter = StoreLimiter(self._courier)
        self._provider_keys = ProviderKeys(self._store, config.store.encryption_key)
        key_of = self._provider_keys.key_of
        started = int(time.time())
        self.models = {
            model.name: serve_model(config, index, worker, started, key_of) for index, model in enumerate(config.models)
        }
        self.adapter_models = AdapterModels(self.models, config.models)
        #: The other names of models.
        self.aliases = {alias: self.models[name] for alias, name in config.aliases.items()}
        #: What looks at prompts and answers.
        around = Surroundings(self.find_model, config.tiers[0], self.encoding, key_of)
        self.policies = Policies(config, self._store, around)
        self._activity = Activity(self._store, {name: model.turnstile for name, model in self.models.items()})
        fleets = {name: model.fleet for name, model in self.models.items()}
        hashes = {name: model.tokenizer_hash for name, model in self.models.items()}
        texts = {name: model.tokenizer for name, model in self.models.items()}
        self._discovery = Discovery(config, fleets, hashes, key_of=key_of, texts=texts)
        self._exchange = FleetExchange(self._store, config, holder, fleets, finder=self._discovery)
        self._discovery.changed = self._exchange.heed
        self._telemetry = Telemetry(config, worker, self.models, self.overseer.active, self._courier, self.limiter)
        self.observatory, self.sampler = self._telemetry.observatory, self._telemetry.sampler
        self.digests, self._journal = self._telemetry.digests, self._telemetry.journal
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Connect to the store and the replicas; returns when ready, or when waiting longer would not help."""
        # Replicas that want a key are asked for a first sign of life with it.
        await self._provider_keys.load()
        for model in self.models.values():
            model.fleet.start(prove_first=True)
        await self._discovery.start()
        # What is drained gets no request, not even the first.
        await self._exchange.exchange()
        self._tasks = [
            asyncio.create_task(self.authenticator.run()),
            asyncio.create_task(self.overseer.run()),
            asyncio.create_task(self._courier.run()),
            asyncio.create_task(self.limiter.run()),
            asyncio.create_task(self._activity.run()),
            asyncio.create_task(self._exchange.run()),
            asyncio.create_task(self._provider_keys.run()),
        ]
        self._telemetry.start()
        self._start_batches()
        fleets = [model.fleet for model in self.models.values()]
        try:
            async with asyncio.timeout(START_SECONDS):
                await asyncio.gather(*(fleet.wait_ready(1) for fleet in fleets))
            async with asyncio.timeout(STRAGGLER_SECONDS):
                await asyncio.gather(*(fleet.wait_ready(len(fleet)) for fleet in fleets))
        except TimeoutError:
            log.warning("serving although not every replica is ready: %s", "; ".join(await self.problems()))

    async def aclose(self) -> None:
        """Release everything."""
        await self.background.aclose(self.config.listen.drain_seconds)
        if self._runner is not None:
            await self._runner.aclose()
        self.limiter.book_now()
        await self._courier.flush()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._telemetry.aclose()
        await self.policies.aclose()
        await self._discovery.aclose()
        await asyncio.gather(*(model.fleet.aclose() for model in self.models.values()))
        await self.authenticator.aclose()
        await self._alerts.aclose()
        self.encoding.close()
        await self.files.contents.aclose()
        await self._store.aclose()

    def _start_batches(self) -> None:
        from gateway.jobs.batches.batch_runner import (
            BatchRunner,  # it makes requests as clients do, of all that is served here
        )

        callers = Callers(KeyStore(self._store), self._directory, len(self.config.tiers))
        self._runner = BatchRunner(self, self.jobs, self.files, callers)
        self._runner.start()

    async def problems(self) -> list[str]:
        """What keeps this worker from being ready, one line each; for operators, not for clients."""
        found = [
            f"model {model.name}: {replica}: {problem}"
            for model in self.models.values()
            for replica, problem in model.fleet.problems().items()
        ]
        found += self._discovery.problems()
        found += self._provider_keys.problems
        try:
            await self._store.ping()
        except StoreUnavailable:
            found.append("the store does not answer")
        return found

    async def ready(self) -> bool:
        """Whether a request for any model could be served now, of some tenant at least."""
        if not all(model.fleet.ready for model in self.models.values()):
            return False
        try:
            await self._store.ping()
        except StoreUnavailable:
            # A load balancer that turned away from every worker would undo what these tenants have asked for.
            return self._directory.any_fail_open
        return True

    async def identify(self, exchange: Exchange, endpoint: str) -> Caller:
        """Who asks; from now on the answer tells the state of the caller's limits.

        Raises AuthenticationFailed, PermissionDenied or StoreUnavailable.
        """
        caller = exchange.caller or await self.authenticator.authenticate(exchange.authorization)
        key_id, record = caller.key.key_id, exchange.record
        record.tenant, record.key_id, record.tier = caller.tenant.name, key_id, caller.tier.name
        record.identified = time.monotonic()
        exchange.caller_headers = lambda: rate_headers(self.limiter.last_rate(key_id))
        caller.require_endpoint(endpoint)
        return caller

    def admit(self, exchange: Exchange) -> None:
        """Count a request in. Raises Overloaded beyond the configured bound, and while none may go unrecorded."""
        if len(self.overseer.active) >= self.config.listen.max_in_flight:
            raise Overloaded("The gateway is at its limit of concurrent requests. Try again shortly.", retry_after=1.0)
        if self._journal is not None and self._journal.refusing:
            raise Overloaded("The gateway cannot record requests at the moment. Try again shortly.", retry_after=1.0)
        self.overseer.enter(exchange)

    def end_streams(self) -> None:
        """End every request with an error that its client can see: the process has no time left."""
        for exchange in list(self.overseer.active):
            exchange.attempt.fail(ReplicaUnavailable("The gateway is shutting down."))

    def deadline(self, wanted: float | None) -> float:
        """When a request that starts now must have ended, by the monotonic clock; `wanted` is the client's, seconds."""
        bound = self.config.listen.request_timeout_seconds
        return time.monotonic() + (bound if wanted is None else min(bound, wanted))

    def model(self, caller: Caller, name: str) -> ServedModel:
        """The model of that name, perhaps with an adapter, for a caller. Raises ModelNotFound or PermissionDenied."""
        model = self.find_model(name)
        if model is None:
            shown = name if len(name) <= 128 else name[:128] + "..."
            raise ModelNotFound(f"The model '{shown}' does not exist or you do not have access to it.", param="model")
        if not caller.allows_model(model.shown):
            raise PermissionDenied(f"This API key may not use the model '{name}'.", param="model")
        return model

    def find_model(self, name: str) -> ServedModel | None:
        """Models and those with adapters have names with colons in them; the models' own go first."""
        return self.models.get(name) or self.aliases.get(name) or self.adapter_models.find(name)


def serve_model(config: Config, model_index: int, worker: str, created: int, key_of: KeyOf) -> ServedModel:
    """A configured model with its tokenizer loaded. Raises TokenizerError and HeatmapError."""
    model = config.models[model_index]
    loaded = load_tokenizer(model.tokenizer)
    output = model_output(model, loaded)
    policy = POLICIES[model.routing.policy](policy_settings(model))
    if has_adapters(model):
        policy = AdapterAffinity(policy)
    prefixes = PrefixDirectory() if policy.uses_prefixes else None
    sessions = any(pool.engine in SESSIONS for pool in model.pools)
    identity = tokenizer_hash(loaded) if sessions else ""
    fleet = Fleet(
        replica_specs(config, model_index, key_of, identity, loaded.tokenizer),
        worker,
        prefixes,
        abilities=abilities(model),
    )
    desk = Desk(fleet, policy, hedging=hedging(model))
    return ServedModel(
        name=model.name,
        created=created,
        context=model.context,
        tokenizer=loaded.tokenizer,
        table=TokenTable(loaded.tokenizer),
        output=output,
        marked_table=None if output is None else TokenTable(MarkedTokens(loaded.tokenizer, output.marks)),
        chat_format=loaded.chat_format,
        fleet=fleet,
        policy=policy,
        policy_name=model.routing.policy,
        desk=desk,
        lengths=AnswerLengths(QuantileDecodeLength()),
        plans=Plans(model.name, model.price or FREE),
        turnstile=Turnstile(fleet, policy, config.admission, cached=desk.cached),
        first_tokens=FirstTokenTimes(),
        price=model.price or FREE,
        fallbacks=model.fallbacks,
        relays=any(pool.engine == "openai" for pool in model.pools),
        opaque=model.tokenizer is None,
        tokenizer_hash=identity,
        media=config.listen.media,
        embeddings=model.embeddings,
    )
