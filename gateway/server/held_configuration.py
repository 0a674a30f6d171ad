"""The supervisor's thread that holds the configuration in use, and answers what changes it."""

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gateway.config.settings import Config
from gateway.reload.coordinator import Coordinator, OwnParts
from gateway.reload.supervisor_socket import sockets_of, supervisor_socket
from gateway.reload.watched_file import WatchedFile
from gateway.store.socket_path import make_socket_folder

log = logging.getLogger(__name__)

_JOIN_SECONDS: Final = 5.0


class HeldConfiguration:
    """Runs a `Coordinator` in a thread of its own between `start` and `stop`."""

    def __init__(self, config: Config, watched: WatchedFile, check: Callable[[Path], Config], own: OwnParts) -> None:
        """`watched` is the file, from before `config` was read out of it. `check` reads it and checks whatever it
        refers to on this machine; it raises ConfigError. `own` is what the supervisor itself runs by the configuration.

        Raises SocketPathError.
        """
        #: Where the supervisor's processes meet it.
        self.socket: Final = supervisor_socket(config.state_dir, os.getpid())
        self._state_dir = config.state_dir
        self._coordinator = Coordinator(config, watched, check, own)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="configuration", daemon=True)
        self._serving: asyncio.Task[None] | None = None

    def config(self) -> Config:
        """The configuration in use."""
        return self._coordinator.config

    def start(self) -> None:
        """Begin to listen. Raises SocketPathError and OSError."""
        make_socket_folder(self.socket)
        self.socket.unlink(missing_ok=True)
        # Those of supervisors that were killed go.
        sockets_of(self._state_dir)
        server = self._loop.run_until_complete(self._coordinator.listen(self.socket))
        self._serving = self._loop.create_task(self._coordinator.serve(server))
        self._thread.start()

    def reload(self) -> None:
        """Read the file again, for a SIGHUP; returns at once."""
        asyncio.run_coroutine_threadsafe(self._coordinator.reload("signal"), self._loop)

    def stop(self) -> None:
        """Stop listening."""
        if self._serving is not None:
            self._loop.call_soon_threadsafe(self._serving.cancel)
            self._thread.join(_JOIN_SECONDS)
        self.socket.unlink(missing_ok=True)

    def _run(self) -> None:
        assert self._serving is not None
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._serving)
        self._loop.run_until_complete(_end_others())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


async def _end_others() -> None:
    """End the tasks that a reload under way has begun, and the connections of processes that are still there."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
