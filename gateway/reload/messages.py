"""What the supervisor and its processes say to each other when the configuration changes, over a socket of theirs."""

import asyncio
import hashlib
from typing import Final, Literal

import msgspec

from gateway.config.settings import Config

Trigger = Literal["signal", "file", "admin", "command"]
Role = Literal["worker", "admin", "controller"]

#: The variable in which the supervisor's processes find its socket.
SUPERVISOR_VARIABLE: Final = "PENSTOCK_SUPERVISOR"
#: Bytes of one message at most: a configuration of 100,000 tenants has some 30 MB.
_MOST_BYTES: Final = 256 << 20
_LENGTH_BYTES: Final = 4
_DIGEST_LETTERS: Final = 12


class ProcessResult(msgspec.Struct, frozen=True):
    """How one process fared with a configuration; `problem` is empty where it took it."""

    role: Role
    pid: int
    problem: str = ""
    seconds: float = 0.0


class Outcome(msgspec.Struct, frozen=True):
    """What became of a reload. `digest` is of the configuration in use afterwards, `at` in seconds since 1970.

    `problem` says why it was refused, with file and field; `changes`, `restart` and `rebuilt` are lines for people.
    """

    result: Literal["started", "taken", "unchanged", "refused"]
    trigger: Trigger | None
    at: float
    digest: str
    problem: str = ""
    changes: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    rebuilt: tuple[str, ...] = ()
    processes: tuple[ProcessResult, ...] = ()


class _Message(msgspec.Struct, frozen=True, tag=True):
    """One message; the tag is the class's name."""


class Hello(_Message, frozen=True):
    """A process tells what it is, and which configuration it has; without a role it only asks for the current one."""

    role: Role | None
    pid: int
    digest: str


class Prepare(_Message, frozen=True):
    """The supervisor wants everything of a configuration made ready, beside what serves."""

    number: int
    config: Config


class Prepared(_Message, frozen=True):
    """A process is ready for it; or is not, with the problem."""

    number: int
    problem: str
    seconds: float


class Take(_Message, frozen=True):
    """The supervisor wants the prepared configuration to serve."""

    number: int


class Taken(_Message, frozen=True):
    """It serves."""

    number: int


class Settled(_Message, frozen=True):
    """No request is under way that began with another configuration than this."""

    digest: str


class GiveUp(_Message, frozen=True):
    """The supervisor wants what was prepared to be dropped."""

    number: int


class Current(_Message, frozen=True):
    """The configuration in use, and the file that it is read from."""

    config: Config
    file: str


class Ask(_Message, frozen=True):
    """A process asks for a reload; the answer is a `Told` that `answers`."""

    trigger: Trigger


class Told(_Message, frozen=True):
    """The outcome of the last reload, told to all; `answers` where this process has asked for it."""

    outcome: Outcome
    answers: bool = False


Message = Hello | Prepare | Prepared | Take | Taken | Settled | GiveUp | Current | Ask | Told
_DECODER: Final = msgspec.msgpack.Decoder(Message)


class ConnectionEnded(Exception):
    """The other side has gone, or says what is no message."""


def digest_of(config: Config) -> str:
    """The name of a configuration's content: the same for equal ones, whatever the file's layout and comments."""
    return hashlib.sha256(msgspec.msgpack.encode(config)).hexdigest()[:_DIGEST_LETTERS]


def send(writer: asyncio.StreamWriter, message: Message) -> None:
    """Write a message, without waiting."""
    body = msgspec.msgpack.encode(message)
    writer.write(len(body).to_bytes(_LENGTH_BYTES, "big") + body)


async def receive(reader: asyncio.StreamReader) -> Message:
    """Read the next message. Raises ConnectionEnded."""
    try:
        length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
        if length > _MOST_BYTES:
            raise ConnectionEnded("a message is too long")
        message: Message = _DECODER.decode(await reader.readexactly(length))
    except (OSError, asyncio.IncompleteReadError, msgspec.DecodeError) as error:
        raise ConnectionEnded(str(error)) from error
    return message
