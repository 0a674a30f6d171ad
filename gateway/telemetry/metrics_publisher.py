"""Publish a worker's metrics from its configuration and its parts."""

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Final

from gateway.config.settings import Config, usable_cores
from gateway.telemetry.configuration_gauges import ConfigurationGauges
from gateway.telemetry.gauges import Counting, Gauges, Limiter, LimitsBatcher, Model, Request
from gateway.telemetry.process_usage import LoopLag, OwnProcess
from observability.metrics.metrics_folder import clear
from observability.metrics.metrics_sink import MetricsSink
from observability.metrics.publishing import Publisher
from observability.metrics.tenant_series import TenantNames

log = logging.getLogger(__name__)

#: The folder below the state directory.
FOLDER: Final = "metrics"


def begin_metrics(config: Config) -> None:
    """Reset all metrics; the supervisor calls it before it starts workers."""
    folder = config.state_dir / FOLDER
    try:
        clear(folder)
    except OSError as error:
        log.warning("metrics of an earlier gateway cannot be removed: %s: %s", folder, error.strerror or error)


class MetricsPublisher:
    """The metrics of one worker. `sink` takes in request records; gauges are read between `start` and `aclose`."""

    def __init__(
        self,
        config: Config,
        models: Mapping[str, Model],
        in_flight: Collection[Request],
        limits_batcher: LimitsBatcher,
        limiter: Limiter,
        tenants: int,
    ) -> None:
        """`in_flight` are the running requests, `tenants` bounds the tenants with series of their own."""
        tiers = [tier.name for tier in config.tiers]
        self.sink: Final = MetricsSink(_pools(config), tiers, TenantNames(tenants))
        #: Which configuration is in use.
        self.configuration: Final = ConfigurationGauges()
        self._lag = LoopLag()
        self._gauges = Gauges(models, tiers, in_flight, limits_batcher, limiter)
        self._publisher = Publisher(
            config.state_dir / FOLDER,
            self.sink,
            [self._gauges, OwnProcess(self._lag), self.configuration],
            workers=config.listen.worker_count(usable_cores()),
            tenants=tenants,
        )
        self._task: asyncio.Task[None] | None = None

    def start(self, sinks: Mapping[str, Counting]) -> None:
        """Begin; `sinks` are those with counters, by the label of their losses."""
        self._gauges.sinks = {**sinks, "metrics": self._publisher}
        self._lag.start()
        self._task = asyncio.create_task(self._publisher.run())

    def use(self, config: Config, models: Mapping[str, Model]) -> None:
        """Publish the numbers of these models from now on; what was counted of others stays."""
        self.sink.know(_pools(config))
        self._gauges.use(models)

    async def aclose(self) -> None:
        """Write the last numbers and end; called after the last request and the sinks' end. Idempotent."""
        self._lag.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            await self._publisher.aclose()


def _pools(config: Config) -> dict[str, list[str]]:
    return {model.name: [pool.name for pool in model.pools] for model in config.models}
