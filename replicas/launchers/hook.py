"""Runs an operator's command with a document on its standard input, bounded in time and in what it may write."""

import asyncio
import contextlib
import io
import os
import signal
import tempfile
from collections.abc import Mapping, Sequence
from typing import Final

from observability.printable import printable

#: Bytes of standard output that a command may write: 1,024 replicas take 300 kB.
LONGEST_OUTPUT: Final = 4 << 20
#: Bytes at the end of its standard error that are kept.
_ERRORS_KEPT: Final = 1 << 16
#: Seconds that output may take to arrive after the command's end; a child that it has left behind may hold it open.
_REST_SECONDS: Final = 0.5
_LINE_LENGTH: Final = 400


class HookError(Exception):
    """The command did not do what it should; one line that goes on after the command's name."""


async def run_hook(
    command: Sequence[str], document: bytes, environment: Mapping[str, str] | None, timeout_seconds: float
) -> bytes:
    """Run a command and return its output. Where it is not waited for any longer, it and its children are killed.

    What a command has left running when it ends, as a server that it has started, runs on. `environment` None: this
    process's.

    Raises:
        HookError: It cannot be started, hangs, fails, or writes too much.
    """
    # With pipes of asyncio's own the end of a command that has left a child behind would not be seen.
    reads, writes = zip(os.pipe(), os.pipe(), strict=True)
    # Other event loops take nothing but a dict.
    own = None if environment is None else dict(environment)
    try:
        with tempfile.TemporaryFile() as given:
            given.write(document)
            given.seek(0)
            process = await asyncio.create_subprocess_exec(
                *command, stdin=given, stdout=writes[0], stderr=writes[1], env=own, start_new_session=True
            )
    except OSError as error:
        for descriptor in reads:
            os.close(descriptor)
        raise HookError(f"cannot be started: {error.strerror or error}") from error
    finally:
        for descriptor in writes:
            os.close(descriptor)
    output, errors = _Output(LONGEST_OUTPUT), _LastOutput(_ERRORS_KEPT)
    pipes = [os.fdopen(descriptor, "rb", buffering=0) for descriptor in reads]
    tasks = [
        asyncio.create_task(_read(pipes[0], output, process)),
        asyncio.create_task(_read(pipes[1], errors, process)),
    ]
    try:
        async with asyncio.timeout(timeout_seconds):
            status = await process.wait()
        await asyncio.wait(tasks, timeout=_REST_SECONDS)
    except TimeoutError:
        raise HookError(f"has not ended within {timeout_seconds:g} s, and was killed") from None
    finally:
        # Also where the caller was cancelled.
        _kill(process)
        await process.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if output.is_over:
        raise HookError(f"has written more than {LONGEST_OUTPUT:,} bytes, and was killed")
    if status:
        line = errors.last_line()
        raise HookError(f"ended with status {status}{f': {line}' if line else ' and said nothing'}")
    return bytes(output.data)


class _Output:
    """Output up to a length; what is longer is not wanted at all."""

    def __init__(self, longest: int) -> None:
        self.data = bytearray()
        self.is_over = False
        self._longest = longest

    def add(self, data: bytes) -> None:
        self.is_over = len(self.data) + len(data) > self._longest
        if not self.is_over:
            self.data += data


class _LastOutput:
    """The end of an output of any length."""

    is_over = False

    def __init__(self, kept: int) -> None:
        self.data = bytearray()
        self._kept = kept

    def add(self, data: bytes) -> None:
        self.data += data
        del self.data[: -self._kept]

    def last_line(self) -> str:
        lines = [line for line in self.data.decode("utf-8", "replace").splitlines() if line.strip()]
        return printable(lines[-1].strip())[:_LINE_LENGTH] if lines else ""


async def _read(pipe: io.FileIO, output: _Output | _LastOutput, process: asyncio.subprocess.Process) -> None:
    """Read a pipe to its end; a process that writes too much is killed."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        while data := await reader.read(1 << 16):
            output.add(data)
            if output.is_over:
                _kill(process)
                return
    finally:
        transport.close()


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill a process that has not ended, and its children."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
