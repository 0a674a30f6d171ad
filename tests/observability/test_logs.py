"""What a process that logs as ours do has on its standard error: its own lines, in one form, and gRPC's."""

import contextlib
import json
import logging
import os
import pty
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observability.logs import FORMAT_VARIABLE, JsonLines, RateLimit, named_values
from observability.printable import printable

#: A session with something that speaks HTTP/2 for long enough to send a goaway with an error.
GOODBYE = """
import asyncio
import contextlib
from observability.logs import configure_logging
configure_logging()
from routing.transports.mux import Session

async def goodbye(reader, writer):
    await reader.read(1)
    settings = bytes(3) + bytes([4]) + bytes(5)
    goaway = bytes([0, 0, 8, 7]) + bytes(5) + bytes(4) + bytes([0, 0, 0, 11])
    writer.write(settings + goaway)
    await writer.drain()
    await asyncio.sleep(0.1)
    writer.close()

async def main():
    async with await asyncio.start_server(goodbye, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with contextlib.suppress(Exception):
            await Session.connect(f"127.0.0.1:{port}", "w", lambda _: None, lambda _: None)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "heard"), [(None, False), ("INFO", True)])
def test_grpc_says_nothing_of_its_connections_unless_the_user_asks_it(asked: str | None, *, heard: bool) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    if asked is not None:
        environment["GRPC_VERBOSITY"] = asked
    done = subprocess.run(
        [sys.executable, "-c", GOODBYE], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert ("Got goaway" in done.stderr) == heard


FORGED = r"""
import logging, sys
from observability.logs import configure_logging
configure_logging(sys.argv[1])
logging.getLogger("test").warning("replica %s: %s", "p/0", "no\n2026-01-01 INFO all is well \x1b[2J größe \udc80")
try:
    try:
        raise ValueError("a prompt")
    except ValueError as cause:
        raise OSError("x\ny") from cause
except OSError:
    logging.getLogger("test").exception("failed")
"""


def said(code: str, *arguments: str, **environment: str) -> list[str]:
    known = {name: value for name, value in os.environ.items() if name != FORMAT_VARIABLE}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=known | environment, capture_output=True, check=True, timeout=60)
    return done.stderr.decode().splitlines()


def test_what_others_say_stays_in_its_line() -> None:
    line, failed, *traceback = said(FORGED, "text")
    assert line.endswith("test: replica p/0: no\\n2026-01-01 INFO all is well \\x1b[2J größe \\udc80")
    assert "a prompt" not in "\n".join(line for line in traceback if "raise" not in line)
    assert next(line for line in traceback if line[:1] not in (" ", "", "T")) == "ValueError"
    assert failed.endswith("test: failed")
    assert traceback[-1] == "OSError: x\\ny"


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_json_has_one_object_a_line_whatever_is_said(encoding: str) -> None:
    line, failed = (json.loads(each) for each in said(FORGED, "json", PYTHONIOENCODING=encoding))
    assert line["message"] == "replica p/0: no\\n2026-01-01 INFO all is well \\x1b[2J größe \\udc80"
    assert (line["level"], line["logger"], line["replica"]) == ("WARNING", "test", "p/0")
    assert datetime.now(UTC) - datetime.fromisoformat(line["time"]) < timedelta(minutes=5)
    assert line["time"].endswith("Z")
    assert isinstance(line["process"], int)
    *_, first, _, last = [line for line in failed["traceback"].splitlines() if line[:1] != " "]
    assert (first, last) == ("ValueError", "OSError: x\\ny")
    assert "ValueError: a prompt" not in failed["traceback"]


TELLS = """
import logging, subprocess, sys
from observability.logs import configure_logging
configure_logging(*sys.argv[1:2])
logging.getLogger("test").info("here")
if len(sys.argv) == 3:
    subprocess.run([sys.executable, "-c", sys.argv[2]], check=True)
"""


@pytest.mark.parametrize(("told", "environment", "json_"), [("json", "", True), ("text", "json", False)])
def test_processes_that_are_started_take_the_same_form(told: str, environment: str, json_: bool) -> None:
    lines = said(TELLS, told, TELLS, **{FORMAT_VARIABLE: environment})
    assert [line.startswith("{") for line in lines] == [json_, json_]


@pytest.mark.parametrize(("environment", "json_"), [("", True), ("text", False), ("json", True), ("xml", True)])
def test_where_no_terminal_is_the_environment_says(environment: str, json_: bool) -> None:
    (line,) = said(TELLS, **{FORMAT_VARIABLE: environment})
    assert line.startswith("{") is json_


@pytest.mark.parametrize(("no_colour", "coloured"), [("", True), ("1", False)])
def test_on_a_terminal_it_is_text_for_people(no_colour: str, coloured: bool) -> None:
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != FORMAT_VARIABLE}
    code = TELLS + "\nlogging.getLogger('test').warning('request %s', 'r')\n"
    environment["NO_COLOR"] = no_colour
    subprocess.run([sys.executable, "-c", code], env=environment, stderr=theirs, check=True, timeout=60)
    os.close(theirs)
    shown = b""
    # What a terminal shows comes in parts; after the last one there is an error.
    with contextlib.suppress(OSError):
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    plain, warning = shown.decode().splitlines()
    assert "INFO" in plain
    assert "\x1b" not in plain
    assert warning.startswith("\x1b[33m") is coloured
    assert "test: request r" in warning


def record_of(message: object, *args: object, level: int = logging.INFO, **extra: object) -> logging.LogRecord:
    record = logging.LogRecord("test", level, "f.py", 1, message, args, None)
    vars(record).update(extra)
    return record


@pytest.mark.parametrize(
    ("message", "args", "found"),
    [
        ("request %s failed", ("r",), {"request_id": "r"}),
        ("no decision on request %s", ("r",), {"request_id": "r"}),
        ("request %s of tenant %s: %s", ("r", "t", "x"), {"request_id": "r", "tenant": "t"}),
        ("%d %% of replica %s at %s: request %s: %s", (5, "p/0", "a", "r", "x"), {"replica": "p/0", "request_id": "r"}),
        ("request %s: model %.9s falls back to %s", ("r", "m", "n"), {"request_id": "r", "model": "m"}),
        ("request %s, then request %s", ("a", "b"), {"request_id": "a"}),
        ("%s is said", ("request %s",), {}),
        ("a request %d", (3,), {}),
        ("unrequest %s", ("r",), {}),
        ("request %s", ({"request": 1},), {}),
        ("request r", (), {}),
    ],
)
def test_values_have_the_name_that_the_constant_part_gives_them(
    message: str, args: tuple[object, ...], found: dict[str, str]
) -> None:
    assert named_values(record_of(message, *args)) == found


@given(st.text(), st.text(), st.text())
def test_no_value_passes_for_another(message: str, value: str, other: str) -> None:
    line = JsonLines().format(record_of("request %s: %s", value, f"tenant {message} request {other}"))
    assert "\n" not in line
    assert line.isascii()
    found = json.loads(line)
    assert found["request_id"] == printable(value[:256])
    assert set(found) == {"time", "level", "process", "logger", "message", "request_id"}
    # Also one that is none of ours: what others have made of it is the message, and nothing else.
    json.loads(JsonLines().format(record_of(message.replace("%", ""))))


def test_fields_become_members() -> None:
    record = record_of("request %s: %s", "r", "x", fields={"request_id": "r", "status": 503, "detail": "a\nb"})
    line = json.loads(JsonLines().format(record))
    assert (line["status"], line["detail"], line["request_id"]) == (503, "a\\nb", "r")


def test_at_high_rates_lines_are_counted_and_do_not_crowd_out_others_of_another_level() -> None:
    now = 0.5
    limit = RateLimit(per_second=2, clock=lambda: now)
    warnings = [limit.filter(record_of("%s", "replica lost", level=logging.WARNING)) for _ in range(5)]
    assert warnings == [True, True, False, False, False]
    defect = record_of("a defect", level=logging.ERROR)
    assert limit.filter(defect)
    assert defect.getMessage() == "a defect"
    now = 1.5
    later = record_of("%s", "replica lost", level=logging.WARNING)
    assert limit.filter(later)
    assert later.getMessage() == "replica lost (3 lines like it were left out)"
    last = record_of("%s", "replica lost", level=logging.WARNING)
    assert limit.filter(last)
    assert last.getMessage() == "replica lost"
