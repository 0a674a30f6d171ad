"""Run the controller in this process until a signal ends it."""

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
from typing import Final

from gateway.config.secret_variables import environment_without, provider_variables
from gateway.config.settings import Config
from gateway.scaling.build_launchers import build_launchers
from gateway.scaling.controller import Controller
from gateway.scaling.preloading import Preloading, checkpoints
from gateway.scaling.settings import scaled_models
from gateway.scaling.spot_prices import SpotPriceSource
from gateway.store.configured_store import open_store
from protos.errors import StoreUnavailable
from replicas.controller.model_scaler import ModelScaler
from replicas.launchers.launcher import LauncherError
from replicas.launchers.local_launcher import LocalLauncher

log = logging.getLogger(__name__)

#: Seconds that replicas of this machine get to end by themselves, and that are waited for them.
STOP_SECONDS: Final = 10.0
PATIENCE_SECONDS: Final = 20.0
#: Seconds of a call to the store: a round asks it several things, and nobody waits for one.
_TIMEOUT_SECONDS: Final = 1.0
#: Seconds that a launcher's call may take beyond its own bound.
_BEYOND_SECONDS: Final = 10.0


async def serve_controller(config: Config) -> None:
    """Act as the controller, whenever no other process does, until SIGTERM or SIGINT.

    Then the replicas of this machine are stopped, unless another controller with the same state folder is there to look
    after them, and the lease is given up.

    Raises:
        SecretError: The store's address cannot be read.
    """
    store = open_store(config, timeout=_TIMEOUT_SECONDS)
    name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    launchers = build_launchers(config)
    local = launchers.get("local")
    if isinstance(local, LocalLauncher):
        with contextlib.suppress(LauncherError):  # each call to the launcher says it again
            local.join()
    told = config.launchers.spot_prices
    prices = None if told is None else SpotPriceSource(told, environment_without(provider_variables(config)))
    # The command launcher kills what takes longer, and says so; this is for what it could not kill.
    command = config.launchers.command
    bounds = {} if command is None else {"command": command.timeout_seconds + _BEYOND_SECONDS}
    controller = Controller(
        store, scaled_models(config), launchers, ModelScaler, name, prices=prices, call_seconds=bounds
    )
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    running = asyncio.create_task(controller.run(store))
    preloading = Preloading(controller.models, checkpoints(config), lambda: controller.lease.held is not None)
    reading = asyncio.create_task(preloading.run())
    stopping = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
        for task in (running, reading):
            task.cancel()
        await asyncio.gather(running, reading, return_exceptions=True)
        if isinstance(local, LocalLauncher):
            with contextlib.suppress(LauncherError):  # those that are left end by themselves
                await local.end_slots()
            if not local.leave():
                log.info("another controller of this machine looks after its replicas")
            elif await controller.stop_all("local", STOP_SECONDS, PATIENCE_SECONDS):
                await controller.forget_all("local")
        # Without a store the lease ends by itself.
        with contextlib.suppress(StoreUnavailable):
            await controller.lease.leave()
    finally:
        stopping.cancel()
        await store.aclose()
