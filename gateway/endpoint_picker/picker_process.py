"""The composition root of the endpoint picker: what its process holds, and serving until a signal ends it."""

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
from typing import Final

from gateway.config.models.settings import Pool
from gateway.config.network.hosts import resolved_host, with_port
from gateway.config.settings import Config
from gateway.endpoint_picker.exchange import Exchange, Held
from gateway.endpoint_picker.leadership import LEASE_PREFIX, Leadership
from gateway.endpoint_picker.picked_model import PickedModel, PickedModels
from gateway.endpoint_picker.picker import Picker
from gateway.endpoint_picker.picker_metrics import PickerMetrics
from gateway.endpoint_picker.readiness_log import ReadinessLog
from gateway.fleets.discovery.replica_discovery import Discovery
from gateway.reload.hangup import outlive_hangups
from gateway.rollouts.split_follower import SplitFollower
from gateway.rpc.rpc_server import RpcServer, Service, Stream
from gateway.rpc.rpc_tls import rpc_tls
from gateway.scaling.leasing.lease import Lease
from gateway.store.configured_store import open_store
from gateway.tenancy.providers.provider_keys import ProviderKeys
from observability.metrics_server import MetricsServer
from protos.errors import StoreUnavailable
from protos.ext_proc_codec import METHOD, SERVICE
from routing.transports.shared_parts import SharedParts

log = logging.getLogger(__name__)

#: Health services: that the process runs; that it may be asked, under any of these names.
LIVENESS: Final = "liveness"
READINESS: Final = ("readiness", SERVICE, "")
#: Seconds that a start waits for an endpoint of each model.
START_SECONDS: Final = 5.0


class PickerProcess:
    """All parts of one picker. `host` and the ports that it listens on are those of the configuration's `epp`."""

    def __init__(self, config: Config) -> None:
        """Needs a running event loop. Raises SecretError and HeatmapError."""
        self._config = config
        self._store = open_store(config)
        self.name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._keys = ProviderKeys(self._store, config.store.encryption_key)
        shared = SharedParts()
        self.models = PickedModels(
            PickedModel(config, index, self.name, self._keys.key_of, shared) for index in range(len(config.models))
        )
        self.metrics = PickerMetrics()
        self._picker, self.held = Picker(), Held()
        by_name = {model.name: model for model in self.models.all}
        self._discovery = Discovery(config, by_name, {}, key_of=self._keys.key_of, pairs=True)
        self._server = RpcServer([Service(SERVICE, dialogues={METHOD: self._process})])
        self._probes = RpcServer([])
        self._page = MetricsServer(lambda: self.metrics.page(self.models))
        self._lease = None
        if config.epp.leader_election:
            self._lease = Lease(self._store, self.name, prefix=LEASE_PREFIX)
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False

    async def start(self) -> None:
        """Listen, look at the endpoints, and be healthy once each model has one, or waiting would not help.

        Raises:
            AddressInUse: A port cannot be listened on.
            PemError: A file of TLS cannot be used.
            OSError: The host cannot be resolved, or the metrics' port is in use.
        """
        epp = self._config.epp
        for settings in self._config.models:
            names, pools = ", ".join((settings.name, *settings.aliases)), "; ".join(map(_described, settings.pools))
            log.info("model %s: policy %s; %s", names, settings.routing.policy, pools)
        host = resolved_host(epp.host)
        self._server.listen(with_port(host, epp.port), rpc_tls(epp))
        self._probes.listen(with_port(host, epp.health_port))
        await self._page.start(host, epp.metrics_port)
        for server in (self._server, self._probes):
            await server.tell(True, LIVENESS)
            await server.tell(False, *READINESS)
            await server.start()
        await self._keys.load()
        for model in self.models.all:
            model.start()
        by_version = {model.name: model for model in self.models.all if model.goes_by_version}
        if by_version:
            splits = SplitFollower(self._store, by_version)
            await splits.read()
            splits.apply()
            self._tasks.append(asyncio.create_task(splits.run()))
        await self._discovery.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                await asyncio.gather(*(model.fleet.wait_tried(1) for model in self.models.all))
        readiness = ReadinessLog(self.models.all)
        readiness.begin()
        self._tasks += [asyncio.create_task(self._keys.run()), asyncio.create_task(readiness.run())]
        if self._lease is None:
            await self._lead(True)
        else:
            self._tasks.append(asyncio.create_task(Leadership(self._lease, self._lead).run()))

    async def stand_down(self) -> None:
        """Be unhealthy, and let another one lead; requests are still taken. Idempotent."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._lead(False)
        if self._lease is not None:
            # Without a store the lease ends by itself.
            with contextlib.suppress(StoreUnavailable):
                await self._lease.leave()

    async def aclose(self, grace: float) -> None:
        """Stand down and end; streams that are open get `grace` seconds. Idempotent."""
        if self._closed:
            return
        self._closed = True
        await self.stand_down()
        await self._probes.aclose(0.0)
        await self._server.aclose(grace)
        await self._page.aclose()
        await self._discovery.aclose()
        await asyncio.gather(*(model.aclose() for model in self.models.all))
        await self._store.aclose()

    async def _process(self, stream: Stream) -> None:
        self.metrics.streams += 1
        try:
            await Exchange(stream, self.models, self._picker, self.metrics, self.held).run()
        finally:
            self.metrics.streams -= 1

    async def _lead(self, leads: bool) -> None:
        self.metrics.leads = leads
        for server in (self._server, self._probes):
            await server.tell(leads, *READINESS)


def _described(pool: Pool) -> str:
    return f"pool {pool.name}: {pool.found_at}"


async def serve_picker(config: Config) -> None:
    """Serve until SIGTERM or SIGINT.

    Requests are still taken for `listen.grace_seconds` after it, in which proxies notice, or until a second signal;
    then streams get `listen.drain_seconds` to end. Raises as `PickerProcess`.
    """
    stopped, hurried = asyncio.Event(), asyncio.Event()

    def end() -> None:
        (hurried if stopped.is_set() else stopped).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end)
    outlive_hangups()
    process = PickerProcess(config)
    try:
        await process.start()
        epp = config.epp
        log.info(
            "endpoint picker %s on %s, health on %s, metrics on http://%s/metrics",
            process.name,
            *(with_port(epp.host, port) for port in (epp.port, epp.health_port, epp.metrics_port)),
        )
        await stopped.wait()
        await process.stand_down()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(config.listen.grace_seconds):
                await hurried.wait()
    finally:
        await process.aclose(config.listen.drain_seconds)
