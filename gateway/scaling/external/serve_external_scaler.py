"""Serve the external scaler beside the controller, for as long as that runs."""

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from gateway.config.network.hosts import resolved_host, with_port
from gateway.config.settings import Config
from gateway.rpc.rpc_server import RpcServer
from gateway.rpc.rpc_tls import rpc_tls
from gateway.scaling.external.external_scaler import ExternalScaler
from gateway.scaling.status import read_status
from gateway.store.store_client import Store
from protos.external_scaler_codec import SERVICE

log = logging.getLogger(__name__)


@asynccontextmanager
async def external_scaler(config: Config, store: Store) -> AsyncIterator[None]:
    """Serve inside the block, where the configuration has `external_scaler`.

    Raises:
        AddressInUse: The port cannot be listened on.
        PemError: A file of TLS cannot be used.
        OSError: The host cannot be resolved.
    """
    listen = config.external_scaler
    if listen is None:
        yield
        return
    pools = {
        model.name: [pool.name for pool in model.pools if pool.launcher is not None]
        for model in config.models
        if model.scales
    }
    scaler = ExternalScaler(partial(read_status, store), pools, time.monotonic)
    server = RpcServer([scaler.service])
    server.listen(with_port(resolved_host(listen.host), listen.port), rpc_tls(listen))
    await server.tell(True, SERVICE, "")
    await server.start()
    log.info("external scaler on %s", with_port(listen.host, listen.port))
    try:
        yield
    finally:
        await server.aclose(0.0)
