"""SIGHUP in a process that reads its configuration only at its start: `penstock serve` alone reads it anew."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Iterator

log = logging.getLogger(__name__)


@contextlib.contextmanager
def held_hangups() -> Iterator[None]:
    """Have each SIGHUP in the block wait for `outlive_hangups`, so that none ends a process that is starting.

    Enter it in the main thread. A process that was started before `outlive_hangups` would hold them for ever.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})


def outlive_hangups(*, supervised: bool = False) -> None:
    """Log a line at each SIGHUP from now on, and go on; needs a running event loop.

    `supervised`: the process belongs to a `penstock serve`, which tells it of another configuration.
    """
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, _note, supervised)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})


def _note(supervised: bool) -> None:
    if supervised:
        log.warning("SIGHUP changes nothing here: send it to penstock serve, which started this process")
    else:
        log.warning("SIGHUP changes nothing here: for a new configuration this process must be restarted")
