"""Find the supervisor of a gateway on this machine, and ask it: for its configuration, or to read the file again."""

import asyncio
import os
import socket
from pathlib import Path
from typing import Final

from gateway.config.settings import Config
from gateway.reload.messages import Ask, ConnectionEnded, Current, Hello, Message, Outcome, Told, Trigger, receive, send
from gateway.store.socket_path import socket_path

_NAME: Final = "supervisor-"
#: As long as the longest process id: where a socket is depends on the length of its name.
_LONGEST_PID: Final = "4194304"
#: Seconds for the first answer, which needs no work.
_FIRST_SECONDS: Final = 10.0


class SupervisorError(Exception):
    """The supervisor cannot be asked; the text is one line for an operator."""


def supervisor_socket(state_dir: Path, pid: int) -> Path:
    """The path of a supervisor's socket. Raises SocketPathError."""
    return socket_path(state_dir, f"{_NAME}{pid:0{len(_LONGEST_PID)}}.sock")


def sockets_of(state_dir: Path) -> list[Path]:
    """The sockets of a state directory's supervisors that live. Those of ended ones are removed.

    Raises SocketPathError.
    """
    found = sorted(supervisor_socket(state_dir, 0).parent.glob(f"{_NAME}*.sock"))
    living = [path for path in found if _listens(path)]
    for path in found:
        if path not in living:
            path.unlink(missing_ok=True)
    return living


def _listens(path: Path) -> bool:
    """Whether a process has the socket; that of another user counts, too."""
    with socket.socket(socket.AF_UNIX) as trial:
        trial.settimeout(_FIRST_SECONDS)
        try:
            trial.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            pass
        return True


def the_supervisor(state_dir: Path) -> Path:
    """The socket of the one supervisor of a state directory. Raises SupervisorError and SocketPathError."""
    found = sockets_of(state_dir)
    if not found:
        raise SupervisorError(f"no gateway runs on this machine with the state directory {state_dir}")
    if len(found) > 1:
        raise SupervisorError(f"{len(found)} gateways run on this machine with the state directory {state_dir}")
    return found[0]


async def current_config(place: Path) -> Config:
    """Ask for the configuration in use. Raises SupervisorError."""
    return (await current(place)).config


async def current(place: Path) -> Current:
    """Ask for the configuration in use and its file. Raises SupervisorError."""
    return (await _conversation(place, None))[0]


async def ask_reload(place: Path, trigger: Trigger) -> Outcome:
    """Have the file read again; returns what became of it, when that is known. Raises SupervisorError."""
    _, outcome = await _conversation(place, Ask(trigger))
    assert outcome is not None, "the conversation ends with it"
    return outcome


async def _conversation(place: Path, ask: Ask | None) -> tuple[Current, Outcome | None]:
    try:
        reader, writer = await asyncio.open_unix_connection(str(place))
    except OSError as error:
        raise SupervisorError(f"the supervisor at {place} does not answer: {error.strerror or error}") from error
    try:
        send(writer, Hello(None, os.getpid(), ""))
        async with asyncio.timeout(_FIRST_SECONDS):
            first: Message = await receive(reader)
        if not isinstance(first, Current):
            raise SupervisorError(f"what answers at {place} is no supervisor")
        if ask is None:
            return first, None
        send(writer, ask)
        while True:
            message = await receive(reader)
            if isinstance(message, Told) and message.answers:
                return first, message.outcome
    except (ConnectionEnded, TimeoutError) as error:
        raise SupervisorError(f"the supervisor at {place} has ended, or speaks another version's language") from error
    finally:
        writer.close()
