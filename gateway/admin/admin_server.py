"""Serve the admin API from this process until a signal ends it."""

import asyncio
import gc
import logging
import signal
from pathlib import Path
from typing import Final

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.embed import Server

from gateway.admin.admin_parts import AdminParts
from gateway.config.network.hosts import resolved_host
from gateway.config.observability.journal import journal_settings
from gateway.config.settings import Config
from gateway.reload.hangup import outlive_hangups
from gateway.reload.participant import ReloadLink
from gateway.store.configured_store import open_store
from gateway.telemetry.admin_changes import AdminChanges

log = logging.getLogger(__name__)

#: Seconds that requests get to end after a signal.
DRAIN_SECONDS: Final = 3.0
_IDLE_SECONDS: Final = 30
_CONNECTIONS: Final = 256


async def serve_admin(config: Config, key: str, supervisor: str | None = None) -> None:
    """Serve until SIGTERM or SIGINT. The port must be free: the server itself would share it.

    `supervisor` is the socket of the process that tells it of another configuration; None: it keeps this one.

    Raises:
        SecretError: The scrape key cannot be read.
        OSError: The host cannot be resolved.
        ValueError: The store's address cannot be read.
    """
    store = open_store(config)
    parts = AdminParts(config, store, key, None if supervisor is None else Path(supervisor))
    app, live, page = parts.app, parts.live, parts.page
    # Granian's other server would start a process for each worker; the one that runs in this loop is enough here.
    server = Server(
        app,
        address=resolved_host(config.admin.host),
        port=config.admin.port,
        interface=Interfaces.ASGINL,
        http=HTTPModes.http1,
        websockets=False,
        backpressure=_CONNECTIONS,
        http1_settings=HTTP1Settings(header_read_timeout=_IDLE_SECONDS * 1000),
        log_level=LogLevels.error,
    )
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    outlive_hangups(supervised=supervisor is not None)
    serving = asyncio.create_task(server.serve())
    stopping = asyncio.create_task(stopped.wait())
    link = None if supervisor is None else ReloadLink(supervisor, "admin", config, parts)
    following = None if link is None else asyncio.create_task(link.run())
    changes = AdminChanges(store, journal_settings(config.observability.journal, config.state_dir))
    if config.observability.journal.enabled:
        changes.start()
    # A metrics page makes tens of thousands of objects: a garbage collection in its middle would hold up the loop.
    gc.set_threshold(50_000, 20, 50)
    gc.collect()
    gc.freeze()
    if (otlp := config.observability.metrics.otlp) is not None:
        page.start_export(otlp)
    log.info("admin API on %s", config.admin.url)
    try:
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        # Streams of snapshots never end by themselves.
        await live.aclose()
        server.stop()  # type: ignore[no-untyped-call]
        await asyncio.wait([serving], timeout=DRAIN_SECONDS)
        app.abandon()
        await serving
    finally:
        stopping.cancel()
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        await live.aclose()
        await changes.aclose()
        await page.aclose()
        await store.aclose()
