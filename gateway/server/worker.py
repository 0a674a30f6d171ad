"""Load the ASGI application in a worker process. This module imports only what serving needs, to save memory."""

import ctypes
import gc
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.types import ASGIApp

from gateway.config.settings import Config
from observability.logs import configure_logging

_PR_SET_PDEATHSIG = 1


class WorkerLoader:
    """Makes the application in each worker. It is sent to a process when that is started, with the configuration of
    that moment: a restarted worker serves what the others serve, whatever the file says meanwhile.
    """

    def __init__(self, config: Callable[[], Config], supervisor: str) -> None:
        """`config` gives the configuration in use; `supervisor` is the socket of the process that has it."""
        self._config = config
        self._supervisor = supervisor

    def __reduce__(self) -> tuple[Any, ...]:
        return partial, (load_worker, self._config(), self._supervisor)

    def __call__(self) -> ASGIApp:
        return load_worker(self._config(), self._supervisor)


def load_worker(config: Config, supervisor: str) -> ASGIApp:
    """Build the application of this process and tie the process to the supervisor's life (by the kernel; Linux
    only).
    """
    if sys.platform == "linux":
        # SIGKILL, not SIGTERM: without a supervisor nobody would end the grace period.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    configure_logging(config.observability.logs.format)
    # A collector that runs every 700 allocations costs a fifth of a busy worker's time; what requests leave behind
    # is freed by reference counts, cycles are rare.
    gc.set_threshold(50_000, 20, 50)
    # Filters and tokenizers release the GIL: the event loop shall get it back sooner than after the default 5 ms when
    # another thread is busy.
    sys.setswitchinterval(0.0005)
    # Imported here: the supervisor imports this module and does not need the serving code.
    from gateway.filtering.database_files import DatabaseFiles
    from gateway.server.app import build
    from safety.patterns import keep_databases

    keep_databases(DatabaseFiles(config.state_dir / "filters"))
    return build(config, supervisor)
