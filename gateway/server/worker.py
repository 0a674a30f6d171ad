"""What a worker process runs first. It imports only what serving needs: each worker pays for it in memory."""

import ctypes
import gc
import signal
import sys

from starlette.types import ASGIApp

from gateway.config.settings import Config
from observability.logs import configure_logging

_PR_SET_PDEATHSIG = 1


def load_worker(config: Config) -> ASGIApp:
    """The application of this process, which from now on dies with the supervisor: the kernel sees to it (Linux only).

    The configuration comes from the supervisor and not from the file, so that a worker that is restarted serves what
    the others serve, whatever has become of the file.
    """
    if sys.platform == "linux":
        # Not SIGTERM, whose grace nobody would be left to end.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    configure_logging(config.observability.logs.format)
    # A collector that runs every 700 allocations costs a fifth of a busy worker's time; what requests leave behind
    # is freed by reference counts, cycles are rare.
    gc.set_threshold(50_000, 20, 50)
    # Filters and tokenizers let go of the interpreter's lock: the event loop shall have it back sooner than after the
    # usual 5 ms when another thread is at work.
    sys.setswitchinterval(0.0005)
    # Here, since the supervisor imports this module and has no use for what serves requests.
    from gateway.server.app import build

    return build(config)
