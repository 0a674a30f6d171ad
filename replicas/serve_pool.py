"""Serve the replicas of one process, from the load of their engines to the drain."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from observability.metrics_server import MetricsServer
from protos.launch_step import LaunchStep
from protos.server_tls import ServerTls, server_credentials
from replicas.engine import Engine, Launched
from replicas.groups.group_member import GroupOptions
from replicas.metrics_page import metrics_page
from replicas.replica_server import HEARTBEAT_SECONDS, AddressInUse, ReplicaServer
from replicas.startup import StartWatch, process_began, started

log = logging.getLogger(__name__)


async def serve_pool(
    engines: list[tuple[str, Engine]],
    *,
    drain_seconds: float,
    stop: asyncio.Event,
    ready: Callable[[list[str]], None],
    tls: ServerTls | None = None,
    watch: StartWatch | None = None,
    attend: Callable[[int], None] | None = None,
    metrics: tuple[str, int] | None = None,
    group: GroupOptions | None = None,
) -> int:
    """Serve (address, engine) pairs in this process until `stop` is set, then drain.

    Engines are loaded before anything listens, unless `stop` is set meanwhile. `watch` is told the steps of the start,
    `READY` after `ready` was called with the addresses. From then on `attend` is called several times a second with the
    number of open sessions, while this event loop runs. At the host and port of `metrics` their gauges are served over
    HTTP, none before they are loaded. With a `group` there is one replica, a member of it. Returns the process's exit
    status: 0, or 1 when an engine was lost. Raises
    AddressInUse, PemError, or what an engine raises when it cannot be loaded.
    """
    watch = watch or StartWatch(process_began())
    servers: list[ReplicaServer] = []
    attending: asyncio.Task[None] | None = None
    addresses: list[str] = []

    def gauges() -> str:
        each = zip(addresses, servers, strict=True)
        return metrics_page((address, server.info, server.current_load()) for address, server in each)

    page = MetricsServer(gauges)
    launched = [engine for _, engine in engines if isinstance(engine, Launched)]
    if tls is not None:
        # A real engine takes minutes to load; report unusable files before.
        server_credentials(tls)
    try:
        if metrics is not None:
            await _listen(page, *metrics)
        if not await started(launched, stop, watch.tell):
            return 0
        for address, engine in engines:
            server = ReplicaServer(engine, tls=tls, group=group)
            bound = await server.start(address)
            servers.append(server)
            addresses.append(bound)
        ready(addresses)
        watch.tell(LaunchStep.READY)
        log.info("started in %s", watch)
        if attend is not None:
            attending = asyncio.create_task(_attend(servers, attend))
        stopping = asyncio.ensure_future(stop.wait())
        endings: list[asyncio.Future[Any]] = [stopping, *(server.failed for server in servers)]
        await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        status = 1 if any(server.failed.done() for server in servers) else 0
        # A lost engine fails its own streams at once; the other engines in this process still finish theirs.
        await asyncio.gather(*(server.drain(drain_seconds) for server in servers if not server.failed.done()))
        return status
    finally:
        if attending is not None:
            attending.cancel()
        await page.aclose()
        await asyncio.gather(*(server.close() for server in servers))
        for each in launched:
            await each.stop()


async def _listen(page: MetricsServer, host: str, port: int) -> None:
    try:
        await page.start(host, port)
    except OSError as error:
        raise AddressInUse(f"cannot listen on {host}:{port} for the metrics") from error


async def _attend(servers: Sequence[ReplicaServer], attend: Callable[[int], None]) -> None:
    while True:
        attend(sum(server.sessions for server in servers))
        await asyncio.sleep(HEARTBEAT_SECONDS)
