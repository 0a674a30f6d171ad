"""Serves the admin API from this process, until a signal ends it."""

import asyncio
import logging
import signal
from typing import Final

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.embed import Server

from gateway.admin.app import AdminApp
from gateway.admin.operation import Service
from gateway.config import Config
from gateway.fleets.registry import ReplicaRegistry
from gateway.providers.vault import ProviderVault
from gateway.store.store import Store, store_url
from gateway.tenants.registry import Registry

log = logging.getLogger(__name__)

#: What requests get to end after a signal.
DRAIN_SECONDS: Final = 3.0
_IDLE_SECONDS: Final = 30
_CONNECTIONS: Final = 256


async def serve_admin(config: Config, key: str) -> None:
    """Serve until SIGTERM or SIGINT. The port must be free: the server itself would share it.

    Raises:
        ValueError: The store's address cannot be read.
    """
    store = Store(store_url(config))
    app = AdminApp(
        Service(Registry(store, config), store, ReplicaRegistry(store, config), ProviderVault(store, config)), key
    )
    # Granian's other server would start a process for each worker; one that runs in this loop is enough here.
    server = Server(
        app,
        address=config.admin.host,
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
    serving = asyncio.create_task(server.serve())
    stopping = asyncio.create_task(stopped.wait())
    log.info("admin API on %s", config.admin.url)
    try:
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        server.stop()  # type: ignore[no-untyped-call]
        await asyncio.wait([serving], timeout=DRAIN_SECONDS)
        app.abandon()
        await serving
    finally:
        stopping.cancel()
        await store.aclose()
