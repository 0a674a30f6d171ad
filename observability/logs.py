"""Log lines: one form for every process, to standard error."""

import logging
import os
import sys
import time
import traceback
from collections.abc import Callable
from types import TracebackType

from observability.printable import printable

_ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

_FORMAT = "%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s"


def configure_logging(level: int = logging.INFO) -> None:
    """Send every logger of this process to standard error.

    gRPC writes there by itself, also of connections that end as they should; unless the user has asked for its lines
    (`GRPC_VERBOSITY`), it says errors alone, here and in the processes that this one starts. It reads that when it is
    first used.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine(_FORMAT))
    logging.basicConfig(level=level, handlers=[handler], force=True)


class _OneLine(logging.Formatter):
    """Whatever others say ends up in one line; only tracebacks have more.

    Of exceptions in tracebacks the text is left out, except the system's: it may quote a prompt or an answer.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (the library's name)
        """The line without a traceback."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: "_ExceptionInfo") -> str:  # noqa: N802 (the library's name)
        """Where it was raised, and of what kind it is, causes first."""
        error, seen = ei[1], set[int]()
        parts: list[str] = []
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            said = f": {printable(str(error))}" if isinstance(error, OSError) else ""
            frames = "".join(traceback.format_tb(error.__traceback__))
            parts.append(f"{frames}{type(error).__qualname__}{said}")
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        return "\nThat led to:\n".join(reversed(parts))


class RateLimit(logging.Filter):
    """Lets so many lines a second through, and says in the next one how many it kept back: an outage fails thousands
    of requests for one reason.
    """

    def __init__(self, *, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        super().__init__()
        self._per_second = per_second
        self._clock = clock
        self._second = 0
        self._passed = 0
        self._dropped = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line goes out."""
        second = int(self._clock())
        if second != self._second:
            self._second, self._passed = second, 0
        if self._passed >= self._per_second:
            self._dropped += 1
            return False
        self._passed += 1
        if self._dropped:
            record.msg = f"{record.msg} ({self._dropped} lines like it were left out)"
            self._dropped = 0
        return True
