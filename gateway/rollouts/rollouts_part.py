"""The part of the controller's process that rollouts are: the controller, what it has done, and reloads."""

import asyncio

from gateway.config.settings import Config
from gateway.rollouts.controller import RolloutController
from gateway.rollouts.errands import Errands
from gateway.rollouts.gates import Gates
from gateway.rollouts.stored_comparer import StoredComparer
from gateway.rollouts.warmup.replica_warmer import ReplicaWarmer
from gateway.rollouts.webhooks import Webhooks
from gateway.store.store_client import Store
from gateway.tenancy.providers.provider_keys import ProviderKeys


class RolloutsPart:
    """A `ControllerPart`. Made with a configuration whose models go by version, or may after a reload."""

    def __init__(self, config: Config, store: Store, name: str) -> None:
        self._store = store
        self._keys = ProviderKeys(store, config.store.encryption_key)
        self._warmer = ReplicaWarmer(config, self._keys.key_of, name)
        self._gates = Gates(self._warmer, store)
        self._controller = RolloutController(
            store, config, StoredComparer(store), Errands(self._warmer, self._gates), Webhooks("rollout"), name
        )
        self._prepared: Config | None = None

    async def run(self) -> None:
        """Act whenever this process has the lease, until cancelled."""
        keys = asyncio.create_task(self._keys.run())
        try:
            await self._controller.run(self._store)
        finally:
            keys.cancel()
            await asyncio.gather(keys, return_exceptions=True)

    async def leave(self) -> None:
        """Give the lease up. Raises StoreUnavailable."""
        await self._controller.lease.leave()

    async def prepare(self, config: Config) -> None:
        """Do nothing but remember it: it takes no time."""
        self._prepared = config

    def take(self) -> None:
        """Go on by the prepared configuration, from the next round on; what it declares anew begins."""
        config, self._prepared = self._prepared, None
        assert config is not None, "it is prepared first"
        self._warmer.use(config)
        self._controller.use(config)

    async def abandon(self) -> None:
        """Forget what was prepared."""
        self._prepared = None

    async def settle(self) -> None:
        """Return at once: there are no clients' requests here."""
