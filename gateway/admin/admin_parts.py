"""The parts of the admin process: the store, tenants and models of the configuration in use."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from gateway.admin.admin_app import AdminApp
from gateway.admin.live.feed import Feed
from gateway.admin.live.live_reader import LiveReader
from gateway.admin.live.view import Live
from gateway.admin.metrics.metrics_page import DriftReader, MetricsPage, RolloutReader, ScalingReader, ShapeReader
from gateway.admin.metrics.rollout_metrics import read_rollouts
from gateway.admin.operation import Service
from gateway.admin.scrape_key import ScrapeKey
from gateway.config.settings import Config
from gateway.reload.messages import Outcome
from gateway.reload.supervisor_socket import SupervisorError, ask_reload
from gateway.reshaping.reshape_registry import ReshapeRegistry
from gateway.reshaping.shape_records import read_shape_records
from gateway.rollouts.drift.drift_registry import DriftRegistry
from gateway.rollouts.rollout_registry import RolloutRegistry
from gateway.scaling.intents import replica_registry
from gateway.scaling.scaling_registry import ScalingRegistry
from gateway.scaling.status import read_status
from gateway.store.store_client import Store
from gateway.tenancy.providers.vault import ProviderVault
from gateway.tenancy.tenants.tenant_registry import Registry
from protos.errors import Overloaded


class AdminParts:
    """The application, the feed and the metrics page of the process; a reload's `Participant`."""

    def __init__(self, config: Config, store: Store, key: str, supervisor: Path | None) -> None:
        """`supervisor` is the socket of the supervisor, if the process has one. Raises SecretError."""
        self._store = store
        self._supervisor = supervisor
        registry, scaling, drift = Registry(store, config), self._told_of(config), DriftRegistry(store, config)
        self.page = MetricsPage(config, registry, store, *self._told(config, drift))
        self._reader = self._reader_of(config, registry, scaling)
        self.live = Feed(self._read)
        scrape_key = None if config.admin.scrape_key is None else ScrapeKey(config.admin.scrape_key)
        self.app = AdminApp(self._service_of(config, registry, drift), key, scrape_key=scrape_key)
        self._prepared: Config | None = None

    async def prepare(self, config: Config) -> None:
        """Do nothing but remember it: all of it is made in no time, and of what the workers check."""
        self._prepared = config

    def take(self) -> None:
        """Let requests act on what the prepared configuration has."""
        config, self._prepared = self._prepared, None
        assert config is not None, "it is prepared first"
        registry, scaling = Registry(self._store, config), self._told_of(config)
        drift = DriftRegistry(self._store, config)
        self.page.use(registry, *self._told(config, drift))
        self._reader = self._reader_of(config, registry, scaling)
        self.app.service = self._service_of(config, registry, drift)

    async def abandon(self) -> None:
        """Forget what was prepared."""
        self._prepared = None

    async def settle(self) -> None:
        """Return at once: requests here ask no replica."""

    async def _read(self) -> Live:
        return await self._reader()

    def _told_of(self, config: Config) -> ScalingReader | None:
        return partial(read_status, self._store) if config.scales else None

    def _told(
        self, config: Config, drift: DriftRegistry
    ) -> tuple[ScalingReader | None, RolloutReader | None, DriftReader | None, ShapeReader | None]:
        """Return what reads what controllers have told, and how traffic has moved; None: there is none of it."""
        return (
            self._told_of(config),
            partial(read_rollouts, self._store) if config.goes_by_version else None,
            drift.view if any(model.drift is not None for model in config.models) else None,
            partial(read_shape_records, self._store) if config.reshapes else None,
        )

    def _reader_of(self, config: Config, registry: Registry, scaling: ScalingReader | None) -> LiveReader:
        store = self._store
        rollouts = RolloutRegistry(store, config).models if config.goes_by_version else None
        shapes = ReshapeRegistry(store, config).view if config.reshapes else None
        replicas = replica_registry(store, config)
        return LiveReader(config, registry, store, replicas, scaling=scaling, rollouts=rollouts, shapes=shapes)

    def _service_of(self, config: Config, registry: Registry, drift: DriftRegistry) -> Service:
        store = self._store
        return Service(
            registry,
            store,
            replica_registry(store, config),
            ProviderVault(store, config),
            self.live,
            self.page.text,
            ScalingRegistry(store, config),
            drift,
            RolloutRegistry(store, config),
            ReshapeRegistry(store, config),
            None if self._supervisor is None else _asking(self._supervisor),
        )


def _asking(supervisor: Path) -> Callable[[], Awaitable[Outcome]]:
    async def ask() -> Outcome:
        try:
            return await ask_reload(supervisor, "admin")
        except SupervisorError as error:
            raise Overloaded("The gateway's supervisor does not answer.") from error

    return ask
