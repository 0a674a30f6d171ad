"""Run the controller in this process until a signal ends it."""

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
from collections.abc import Sequence
from typing import Final

from gateway.config.secret_variables import LateSecrets, hook_environment
from gateway.config.settings import Config
from gateway.reload.hangup import outlive_hangups
from gateway.reload.participant import ReloadLink
from gateway.reload.participants import Participants
from gateway.scaling.build_launchers import build_launchers
from gateway.scaling.controller import Controller
from gateway.scaling.controller_part import MakePart
from gateway.scaling.controller_reload import ReloadedController
from gateway.scaling.external.serve_external_scaler import external_scaler
from gateway.scaling.preloading import Preloading, checkpoints
from gateway.scaling.settings import scaled_models
from gateway.scaling.spot_prices import SpotPriceSource
from gateway.store.configured_store import open_store
from protos.errors import StoreUnavailable
from replicas.controller.model_scaler import ModelScaler
from replicas.launchers.launcher import LauncherError
from replicas.launchers.local_launcher import LocalLauncher

log = logging.getLogger(__name__)

#: Seconds that replicas of this machine get to end by themselves.
STOP_SECONDS: Final = 10.0
#: Seconds in which all that a controller does at its end is done, or given up: its parent does not wait much longer.
END_SECONDS: Final = 23.0
#: Of these, what processes in wait may take to end, and what is left for the store after replicas were waited for.
_SLOTS_SECONDS: Final = 4.0
_STORE_SECONDS: Final = 3.0
#: Seconds of a call to the store: a round asks it several things, and nobody waits for one.
_TIMEOUT_SECONDS: Final = 1.0
#: Seconds that a launcher's call may take beyond its own bound.
_BEYOND_SECONDS: Final = 10.0


async def serve_controller(config: Config, supervisor: str | None = None, others: Sequence[MakePart] = ()) -> None:
    """Act as the controller, whenever no other process does, until SIGTERM or SIGINT; `others` act beside it.

    Then the replicas of this machine are stopped, unless another controller with the same state folder is there to look
    after them, and the lease is given up. `supervisor` is the socket of the process that tells it of another
    configuration; None: it keeps this one.

    Raises:
        SecretError: The store's address cannot be read.
        AddressInUse: The external scaler's port cannot be listened on.
        PemError: A file of its TLS cannot be used.
        OSError: Its host cannot be resolved.
    """
    store = open_store(config, timeout=_TIMEOUT_SECONDS)
    name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    late = LateSecrets()
    launchers = build_launchers(config, late)
    local = launchers.get("local")
    if isinstance(local, LocalLauncher):
        with contextlib.suppress(LauncherError):  # each call to the launcher says it again
            local.join()
    told = config.launchers.spot_prices
    prices = None if told is None else SpotPriceSource(told, hook_environment(config, told.secrets, late))
    # The command launcher kills what takes longer, and says so; this is for what it could not kill.
    command = config.launchers.command
    bounds = {} if command is None else {"command": command.timeout_seconds + _BEYOND_SECONDS}
    controller = Controller(
        store, scaled_models(config), launchers, ModelScaler, name, prices=prices, call_seconds=bounds
    )
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    outlive_hangups(supervised=supervisor is not None)
    scaler = contextlib.AsyncExitStack()
    try:
        # Before anything is started: a port that is taken is a mistake in the configuration.
        await scaler.enter_async_context(external_scaler(config, store))
    except BaseException:
        await store.aclose()
        raise
    parts = [make(config, store, name) for make in others]
    running = [asyncio.create_task(part.run()) for part in parts]
    if config.scales:
        running.append(asyncio.create_task(controller.run(store)))
    preloading = Preloading(controller.models, checkpoints(config), lambda: controller.lease.held is not None)
    reading = asyncio.create_task(preloading.run())
    stopping = asyncio.create_task(stopped.wait())
    participants = Participants([ReloadedController(controller, late), *parts])
    link = None if supervisor is None else ReloadLink(supervisor, "controller", config, participants)
    following = None if link is None else asyncio.create_task(link.run())
    try:
        await asyncio.wait([*running, stopping], return_when=asyncio.FIRST_COMPLETED)
        until = asyncio.get_running_loop().time() + END_SECONDS
        await scaler.aclose()
        ended = [*running, reading] if following is None else [*running, reading, following]
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)
        if isinstance(local, LocalLauncher):
            await _end_local(controller, local, until)
        # Without a store the lease ends by itself, and so it does where there is no time.
        with contextlib.suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout_at(until):
                for part in parts:
                    await part.leave()
                await controller.lease.leave()
    finally:
        stopping.cancel()
        await scaler.aclose()
        for launcher in launchers.values():
            if hasattr(launcher, "aclose"):
                await launcher.aclose()
        await store.aclose()


async def _end_local(controller: Controller, local: LocalLauncher, until: float) -> None:
    """End what runs on this machine, unless another controller is there to look after it.

    `until` is a time of the event loop by which it is over.
    """
    # Those that are left end by themselves.
    with contextlib.suppress(LauncherError, TimeoutError):
        async with asyncio.timeout(_SLOTS_SECONDS):
            await local.end_slots()
    if not local.leave():
        log.info("another controller of this machine looks after its replicas")
        return
    patience = until - _STORE_SECONDS - asyncio.get_running_loop().time()
    if await controller.stop_all("local", STOP_SECONDS, patience):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await controller.forget_all("local")
