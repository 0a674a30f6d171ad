"""The part of the controller's process that changes shapes: the controller, its sessions to replicas, and reloads."""

from gateway.config.settings import Config
from gateway.reshaping.controller import ShapeController
from gateway.reshaping.replica_links import ReplicaLinks
from gateway.rollouts.webhooks import Webhooks
from gateway.store.store_client import Store


class ReshapingPart:
    """A `ControllerPart`."""

    def __init__(self, config: Config, store: Store, name: str) -> None:
        self._store = store
        links = ReplicaLinks(f"shapes-{name}")
        self._controller = ShapeController(store, config, links, Webhooks("reshape"), name)
        links.changed = self._controller.hurry
        self._prepared: Config | None = None

    async def run(self) -> None:
        """Act whenever this process has the lease, until cancelled."""
        await self._controller.run(self._store)

    async def leave(self) -> None:
        """Give the lease up. Raises StoreUnavailable."""
        await self._controller.lease.leave()

    async def prepare(self, config: Config) -> None:
        """Do nothing but remember it: it takes no time."""
        self._prepared = config

    def take(self) -> None:
        """Go on by the prepared configuration, from the next round on."""
        config, self._prepared = self._prepared, None
        assert config is not None, "it is prepared first"
        self._controller.use(config)

    async def abandon(self) -> None:
        """Forget what was prepared."""
        self._prepared = None

    async def settle(self) -> None:
        """Return at once: there are no clients' requests here."""
