"""What a process that logs as ours do has on its standard error beside its own lines: gRPC's."""

import os
import subprocess
import sys

import pytest

#: A session with something that speaks HTTP/2 for long enough to send a goaway with an error.
GOODBYE = """
import asyncio
import contextlib
from observability.logs import configure_logging
configure_logging()
from routing.mux import Session

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
            await Session.connect(f"127.0.0.1:{port}", "w", lambda step: None)

asyncio.run(main())
"""


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
import logging
from observability.logs import configure_logging
configure_logging()
logging.getLogger("test").warning("replica %s: %s", "p/0", "no\n2026-01-01 INFO all is well \x1b[2J größe")
try:
    try:
        raise ValueError("a prompt")
    except ValueError as cause:
        raise OSError("x\ny") from cause
except OSError:
    logging.getLogger("test").exception("failed")
"""


def test_what_others_say_stays_in_its_line() -> None:
    process = subprocess.run([sys.executable, "-c", FORGED], capture_output=True, text=True, check=True)
    line, failed, *traceback = process.stderr.splitlines()
    assert line.endswith("test: replica p/0: no\\n2026-01-01 INFO all is well \\x1b[2J größe")
    assert "a prompt" not in "\n".join(line for line in traceback if "raise" not in line)
    assert next(line for line in traceback if line[:1] not in (" ", "", "T")) == "ValueError"
    assert failed.endswith("test: failed") and traceback[-1] == "OSError: x\\ny"
