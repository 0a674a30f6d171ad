"""What one worker serves by one configuration; a changed configuration is a composition of its own.

It takes over from the last one whatever the change leaves as it is, by name and equal settings. Nothing of the last one
is altered by it before `follow`, so that it can be dropped again; from then on it looks after what both have in common,
and the last one serves the requests that it has begun, to their end.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.config.settings import Config
from gateway.filtering.filters.build_filters import FilterUnusable
from gateway.filtering.filters.filter_policies import Policies
from gateway.filtering.filters.text_filters import TextFilters, build_text_filters
from gateway.filtering.guards.build_guards import GuardServices
from gateway.filtering.guards.errors import GuardUnusable
from gateway.fleets.discovery.announcements import Announcements
from gateway.fleets.discovery.registrations import CHANGES
from gateway.fleets.discovery.replica_discovery import Discovery
from gateway.fleets.fleet_sync import FleetSync
from gateway.inference.served_model_guard import served_model_guard
from gateway.models.adapter_models import AdapterModels
from gateway.models.catalog import ModelCatalog
from gateway.models.served_model import ServedModel
from gateway.reload.participant import CannotPrepare
from gateway.reload.plan import Fate, fate_of
from gateway.scaling.intents import scaling_drains
from gateway.scheduling.activity import Activity
from gateway.scheduling.encoding_queue import EncodingQueue
from gateway.server.serve_model import ModelParts, load_tokenizers, serve_models
from gateway.store.store_client import Store
from gateway.tenancy.tenants.tenant_directory import Directory
from gateway.text.tokens.shared_tokenizers import SharedTokenizers
from gateway.text.tokens.tokenizer import TokenizerError
from routing.contracts.heatmap import HeatmapError

if TYPE_CHECKING:
    from gateway.rollouts.split_follower import SplitFollower

log = logging.getLogger(__name__)

#: Seconds that new fleets have to reach their replicas, before it is looked at which models they can serve.
REACH_SECONDS: Final = 10.0


class Composition:
    """Models, tenants, filters, discovery: what the configuration may change while the worker runs."""

    def __init__(
        self,
        config: Config,
        store: Store,
        holder: str,
        encoding: EncodingQueue,
        parts: ModelParts,
        *,
        tokenizers: SharedTokenizers | None = None,
        filters: TextFilters | None = None,
        last: "Composition | None" = None,
    ) -> None:
        """Needs a running event loop. `holder` is the worker's name in the store; `tokenizers` and `filters` have what
        was loaded before, off the event loop.

        Raises TokenizerError, HeatmapError, FilterUnusable and GuardUnusable.
        """
        self.config = config
        self._store = store
        self._holder = holder
        self._encoding = encoding
        self._parts = parts
        self.tokenizers = SharedTokenizers() if tokenizers is None else tokenizers
        self.directory = Directory(store, config)
        before, served = (None, None) if last is None else (last.config, last.models)
        self.models: dict[str, ServedModel] = serve_models(config, parts, self.tokenizers, before, served)
        #: Models with a fleet that no configuration before had.
        self.fresh = frozenset(
            name for name, model in self.models.items() if last is None or not last.has_fleet_of(model)
        )
        aliases = {alias: self.models[name] for alias, name in config.aliases.items()}
        self.catalog = ModelCatalog(self.models, aliases, AdapterModels(self.models, config.models))
        self.policies: Policies
        if last is not None and self._has_filters_of(last):
            self.policies = last.policies
        else:
            guard = partial(served_model_guard, self.catalog.find, config.tiers[0], encoding)
            self.policies = Policies(config, store, GuardServices(guard, encoding, parts.key_of), filters)
        self._activity = Activity(store, {name: model.admission_queue for name, model in self.models.items()})
        fleets = {name: model.fleet for name, model in self.models.items()}
        self._discovery: Discovery = Discovery(
            config,
            fleets,
            {name: model.tokenizer_hash for name, model in self.models.items()},
            key_of=parts.key_of,
            texts={name: model.tokenizer for name, model in self.models.items()},
            last=None if last is None else last._discovery,
            kept=self.models.keys() - self.fresh,
        )
        self.exchange: FleetSync = FleetSync(
            store,
            config,
            holder,
            fleets,
            finder=self._discovery,
            more_drains=scaling_drains if config.scales else None,
            last=None if last is None else last.exchange,
        )
        self._discovery.changed = self._apply_drains
        self._splits = self._follower(last)
        self._follows = False
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to connect to the replicas of new fleets; returns when it is known which ones those are."""
        for name in self.fresh:
            self.models[name].fleet.start(prove_first=True)
        if self._splits is not None:
            await self._splits.read()
            self._splits.apply(self.fresh)
        await self._discovery.look()

    def follow(self) -> None:
        """Look after all that the composition has, from now on; the last one must have stopped."""
        self._follows = True
        self._discovery.follow()
        self._tasks = [asyncio.create_task(self._activity.run()), asyncio.create_task(self.exchange.run())]
        if self._splits is not None:
            self._splits.apply()
            self._tasks.append(asyncio.create_task(self._splits.run()))
        if self._discovery.wants_registrations:
            announcements = Announcements(
                self._store,
                CHANGES,
                self.exchange.announced,
                "replicas that register are noticed up to 0.5 s later",
            )
            self._tasks.append(asyncio.create_task(announcements.run()))

    def stop(self) -> None:
        """Look after nothing any more; requests that have begun go on."""
        self._discovery.stop()
        for task in self._tasks:
            task.cancel()

    async def aclose(self, kept: Collection["Composition"] = ()) -> None:
        """Stop, and close what none of the `kept` compositions has."""
        self.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._discovery.aclose()
        if all(other.policies is not self.policies for other in kept):
            await self.policies.aclose()
        gone = [model.fleet for model in self.models.values() if not any(other.has_fleet_of(model) for other in kept)]
        await asyncio.gather(*(fleet.aclose() for fleet in gone))

    def has_fleet_of(self, model: ServedModel) -> bool:
        """Whether the model's fleet is one of these, under the same name."""
        own = self.models.get(model.name)
        return own is not None and own.fleet is model.fleet

    def problems(self) -> list[str]:
        """What keeps models from being served, one line each; for operators, not for clients."""
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
        return found + self._discovery.problems()

    def version_problems(self) -> tuple[bool, list[str]]:
        """Return whether the stable version of each model is known, and which models go by what may be out of date."""
        splits = self._splits
        return (True, []) if splits is None else (not splits.unknown(), splits.problems())

    async def successor(self, config: Config, load_keys: Callable[[], Awaitable[None]]) -> "Composition":
        """Compose another configuration beside this one, and reach its new fleets; `load_keys` loads providers' keys.

        Raises CannotPrepare. Whatever is there then of what cannot serve is closed.
        """
        olds = {model.name: model for model in self.config.models}
        fates = {model.name: fate_of(olds.get(model.name), model) for model in config.models}
        fresh = [model for model in config.models if fates[model.name] in (Fate.ADDED, Fate.REBUILT)]
        tokenizers = self.tokenizers.only_of([model.tokenizer for model in self.models.values()])
        same = config.safety == self.config.safety
        try:
            await asyncio.to_thread(load_tokenizers, fresh, tokenizers)
            filters = self.policies.texts if same else await asyncio.to_thread(build_text_filters, config.safety)
            made = Composition(
                config,
                self._store,
                self._holder,
                self._encoding,
                self._parts,
                tokenizers=tokenizers,
                filters=filters,
                last=self,
            )
        except (TokenizerError, HeatmapError, FilterUnusable, GuardUnusable) as error:
            raise CannotPrepare(str(error)) from error
        try:
            await load_keys()
            await made.start()
            made._apply_drains()
            await made._reach(self)
        except BaseException:
            await made.aclose(kept=[self])
            raise
        return made

    async def _reach(self, last: "Composition") -> None:
        """Wait for the new fleets. Raises CannotPrepare where one that was served would not be any more."""
        fleets = [self.models[name].fleet for name in self.fresh]
        with suppress(TimeoutError):
            async with asyncio.timeout(REACH_SECONDS):
                await asyncio.gather(*(fleet.wait_tried(len(fleet)) for fleet in fleets))
        for name in sorted(self.fresh):
            model, before = self.models[name], last.models.get(name)
            if model.ready:
                continue
            problems = "; ".join(f"{id_}: {problem}" for id_, problem in model.fleet.problems().items())
            if before is not None and before.ready:
                raise CannotPrepare(f"models[{name}]: no replica takes requests with it: {problems or 'there is none'}")
            log.warning("no replica of the model %s takes requests: %s", name, problems or "there is none")

    def _follower(self, last: "Composition | None") -> "SplitFollower | None":
        """Make what follows the splits; None where no model's requests go by version."""
        versions = {name: model.versions for name, model in self.models.items() if model.versions is not None}
        if not versions:
            return None
        # Imported here: each worker pays for what it imports.
        from gateway.rollouts.split_follower import SplitFollower
        from gateway.rollouts.split_note import SplitNote

        note = SplitNote(self.config.state_dir)
        return SplitFollower(self._store, versions, note, None if last is None else last._splits)

    def _apply_drains(self) -> None:
        """Apply drains to the fleets that are this composition's to look after."""
        self.exchange.apply_drains(None if self._follows else self.fresh)

    def _has_filters_of(self, last: "Composition") -> bool:
        """Whether the filters and rules of another composition are these, and guards that are models, too."""
        safety = self.config.safety
        if safety != last.config.safety or _rules_of_models(self.config) != _rules_of_models(last.config):
            return False
        guards = [settings.model.name for settings in safety.filters if settings.model is not None]
        # Guards that are models ask in the highest tier.
        if guards and self.config.tiers[0] != last.config.tiers[0]:
            return False
        return all(self.catalog.find(name) is last.catalog.find(name) for name in guards)


def _rules_of_models(config: Config) -> Sequence[tuple[str, str | None]]:
    return [(model.name, model.safety) for model in config.models if model.safety is not None]
