"""Configure logging: one form for every process, to standard error; JSON for machines, text for a terminal."""

import json
import logging
import os
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from types import TracebackType
from typing import Any, Final, Literal

from observability.printable import printable

LogFormat = Literal["auto", "json", "text"]

#: The environment variable by which child processes take over the form.
FORMAT_VARIABLE: Final = "PENSTOCK_LOG_FORMAT"

_ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

_TEXT: Final = "%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s"
_COLOURS: Final = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m", logging.CRITICAL: "\x1b[31;1m"}
_NO_COLOUR: Final = "\x1b[0m"
#: A word of a message's constant part, before a value -> the field of that value.
_NAMED: Final = {"request": "request_id", "tenant": "tenant", "model": "model", "replica": "replica"}
_VALUE: Final = re.compile(r"(?:\b(" + "|".join(_NAMED) + r") )?%(?:%|[#0\- +]*\d*(?:\.\d+)?([a-zA-Z]))")
_MOST_CHARACTERS: Final = 256


def configure_logging(form: LogFormat = "auto", level: int = logging.INFO) -> None:
    """Send every logger of this process to standard error; a second call changes the form.

    `auto` is the form of the environment, else text on a terminal, and JSON everywhere else. Child processes take the
    same
    form.

    gRPC writes to standard error by itself, even when connections end normally; unless the user has set
    `GRPC_VERBOSITY`,
    it logs errors alone, in this process and its children. It reads the variable when it is first used.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    if form == "auto":
        told = os.environ.get(FORMAT_VARIABLE)
        form = "json" if told == "json" else "text" if told == "text" or sys.stderr.isatty() else "json"
    else:
        os.environ[FORMAT_VARIABLE] = form
    handler = logging.StreamHandler(sys.stderr)
    coloured = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    handler.setFormatter(JsonLines() if form == "json" else TextLines(coloured=coloured))
    logging.basicConfig(level=level, handlers=[handler], force=True)


def named_values(record: logging.LogRecord) -> dict[str, str]:
    """Return request, tenant, model and replica by the words of the message's constant part, as in `request %s
    failed`.

    Values are not parsed: none can pass for another.
    """
    args = record.args
    if not args or not isinstance(args, tuple) or not isinstance(record.msg, str):
        return {}
    return {
        name: str(args[index])[:_MOST_CHARACTERS] for name, index in _value_indexes(record.msg) if index < len(args)
    }


@lru_cache(maxsize=1024)
def _value_indexes(message: str) -> tuple[tuple[str, int], ...]:
    found: dict[str, int] = {}
    index = 0
    for match in _VALUE.finditer(message):
        name, conversion = match.groups()
        if conversion is None:
            continue  # %%
        if name is not None and conversion == "s":
            found.setdefault(_NAMED[name], index)
        index += 1
    return tuple(found.items())


class _OneLine(logging.Formatter):
    """Write a record as one line, whatever it quotes; only tracebacks have more lines.

    Tracebacks leave out the text of exceptions, except the system's: it may quote a prompt or an answer.
    """

    def formatException(self, ei: "_ExceptionInfo") -> str:  # noqa: N802 (the library's name)
        """Return where the exception was raised, and its class, causes first."""
        error, seen = ei[1], set[int]()
        parts: list[str] = []
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            said = f": {printable(str(error))}" if isinstance(error, OSError) else ""
            frames = "".join(traceback.format_tb(error.__traceback__))
            parts.append(f"{frames}{type(error).__qualname__}{said}")
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        return "\nThat led to:\n".join(reversed(parts))


class TextLines(_OneLine):
    """Lines for people, coloured on a terminal where they are out of the ordinary."""

    def __init__(self, *, coloured: bool) -> None:
        super().__init__(_TEXT)
        self._colours = _COLOURS if coloured else {}

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (the library's name)
        """The line without a traceback."""
        line = printable(super().formatMessage(record))
        colour = self._colours.get(record.levelno)
        return f"{colour}{line}{_NO_COLOUR}" if colour else line


class JsonLines(_OneLine):
    """One JSON object a line. A record's `fields`, from `extra`, are members of it."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")[:-6] + "Z",
            "level": record.levelname,
            "process": record.process,
            "logger": record.name,
            "message": printable(record.getMessage()),
        }
        for name, value in named_values(record).items():
            line[name] = printable(value)
        fields: Mapping[str, str | int | float] | None = getattr(record, "fields", None)
        if fields:
            line.update((name, printable(value) if isinstance(value, str) else value) for name, value in fields.items())
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        # ASCII, so that it is JSON whatever the stream's encoding.
        return json.dumps(line, separators=(",", ":"))


class RateLimit(logging.Filter):
    """Limit the lines of each level per second; the next line says how many were left out.

    An outage fails thousands of requests for one reason, and must not hide what is worse.
    """

    def __init__(self, *, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        super().__init__()
        self._per_second = per_second
        self._clock = clock
        self._second = 0
        self._passed: Counter[int] = Counter()
        self._dropped: Counter[int] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is written."""
        second, level = int(self._clock()), record.levelno
        if second != self._second:
            self._second = second
            self._passed.clear()
        if self._passed[level] >= self._per_second:
            self._dropped[level] += 1
            return False
        self._passed[level] += 1
        if dropped := self._dropped.pop(level, 0):
            record.msg = f"{record.msg} ({dropped} lines like it were left out)"
        return True
