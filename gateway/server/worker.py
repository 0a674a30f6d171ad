"""Load the ASGI application in a worker process. This module imports only what serving needs, to save memory."""

import ctypes
import gc
import signal
import sys

from starlette.types import ASGIApp

from gateway.config.settings import Config
from observability.logs import configure_logging

_PR_SET_PDEATHSIG = 1


def load_worker(config: Config) -> ASGIApp:
    """Build the application of this process and tie the process to the supervisor's life (by the kernel; Linux
    only).

    The configuration comes from the supervisor and not from the file, so that a restarted worker serves what the
    others serve even if the file has changed.
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
    return build(config)
