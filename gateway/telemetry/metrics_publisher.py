"""A worker's metrics, put together from its configuration and its parts."""

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Final

from gateway.config.settings import Config, usable_cores
from gateway.telemetry.gauges import Counting, Gauges, Limiter, LimitsBatcher, Model
from gateway.telemetry.process_usage import LoopLag, OwnProcess
from observability.metrics.metrics_folder import clear
from observability.metrics.metrics_sink import MetricsSink
from observability.metrics.publishing import Publisher
from observability.metrics.tenant_series import TenantNames

log = logging.getLogger(__name__)

#: Below the directory for state.
FOLDER: Final = "metrics"


def begin_metrics(config: Config) -> None:
    """All numbers begin at nothing; for whoever starts the workers, before there are any."""
    folder = config.state_dir / FOLDER
    try:
        clear(folder)
    except OSError as error:
        log.warning("metrics of an earlier gateway cannot be removed: %s: %s", folder, error.strerror or error)


class MetricsPublisher:
    """One of a worker. `sink` takes in its requests; between `start` and `aclose` the rest is looked at by itself."""

    def __init__(
        self,
        config: Config,
        models: Mapping[str, Model],
        in_flight: Collection[object],
        limits_batcher: LimitsBatcher,
        limiter: Limiter,
        tenants: int,
    ) -> None:
        """`in_flight` are the requests under way, `tenants` is how many have series of their own."""
        tiers = [tier.name for tier in config.tiers]
        pools = {model.name: [pool.name for pool in model.pools] for model in config.models}
        self.sink: Final = MetricsSink(pools, tiers, TenantNames(tenants))
        self._lag = LoopLag()
        self._gauges = Gauges(models, tiers, in_flight, limits_batcher, limiter)
        self._publisher = Publisher(
            config.state_dir / FOLDER,
            self.sink,
            [self._gauges, OwnProcess(self._lag)],
            workers=config.listen.worker_count(usable_cores()),
            tenants=tenants,
        )
        self._task: asyncio.Task[None] | None = None

    def start(self, sinks: Mapping[str, Counting]) -> None:
        """Begin; `sinks` are those that count something, by the names that their losses are told apart by."""
        self._gauges.sinks = {**sinks, "metrics": self._publisher}
        self._lag.start()
        self._task = asyncio.create_task(self._publisher.run())

    async def aclose(self) -> None:
        """Write what there is, and end; call it when no request is left, and the sinks have taken all. Idempotent."""
        self._lag.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            await self._publisher.aclose()
