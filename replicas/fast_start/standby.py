"""How a process that waits is told which replica it shall become: one order over a socket of this machine.

Who may write to the socket's file may give the order, which is the file's owner. An order is a line of JSON,
`{"arguments": [...]}` with the options of `penstock replica`; the answer is a line, `{"problem": TEXT}`, whose text is
empty where the order was taken. The socket is there for as long as the process waits: it is gone before an order is
answered as taken, so an order whose answer was lost was taken if the socket is gone, and was not if it is there.
"""

import contextlib
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

log = logging.getLogger(__name__)

#: Bytes of a line, at most: an order is a command line.
LONGEST: Final = 256 * 1024
#: Seconds in which whoever has connected must have sent the order.
_READ_SECONDS: Final = 5.0
#: Bytes of a socket's path, at most: unix(7), and one for the name that it has first.
_LONGEST_PATH: Final = 106

T = TypeVar("T")


class Order(msgspec.Struct, frozen=True):
    """What a process in wait shall become: the options of `penstock replica`."""

    arguments: Sequence[str]


class Answer(msgspec.Struct, frozen=True):
    """What a process in wait says to an order; `problem` is empty where it has taken it."""

    problem: str = ""


class OrderRefused(Exception):
    """The process in wait cannot become that replica, and goes on waiting: one line that says why."""


class NoOrder(Exception):
    """Nobody seems to need this process."""


def wait_for_order(path: Path, take: Callable[[Sequence[str]], T], idle_seconds: float | None = None) -> T:
    """Listen on a socket at `path` until an order comes that `take` accepts; return what it made of the options.

    `take` refuses options by a ValueError, and the next order is waited for.

    Raises:
        NoOrder: For `idle_seconds` nobody has connected; the socket is gone.
        OSError: The socket cannot be made, or a process waits there already.
    """
    with _listening(path) as listener, _removed(path):
        listener.settimeout(idle_seconds)
        log.info("waiting for an order on %s", path)
        while True:
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                raise NoOrder(f"{path}: nobody has looked here for {idle_seconds:g} s") from None
            with connection:
                connection.settimeout(_READ_SECONDS)
                try:
                    taken = take(_order_of(_line(connection)).arguments)
                except ValueError as error:
                    _answer(connection, Answer(str(error) or "the order cannot be read"))
                except OSError:
                    continue  # whoever gave it is gone, or too slow
                else:
                    path.unlink(missing_ok=True)
                    _answer(connection, Answer())
                    return taken


def give_order(path: Path, arguments: Sequence[str], timeout_seconds: float = _READ_SECONDS) -> None:
    """Tell the process that waits at `path` to become a replica with these options.

    Raises:
        OrderRefused: It cannot, and says why.
        OSError: Nobody waits there, or no answer came.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_seconds)
        connection.connect(str(path))
        connection.sendall(msgspec.json.encode(Order(arguments)) + b"\n")
        line = _line(connection)
    if not line:
        raise ConnectionResetError(f"{path}: no answer: another order was taken")
    try:
        answer = msgspec.json.decode(line, type=Answer)
    except msgspec.MsgspecError as error:
        raise ConnectionError(f"{path}: no answer of a process in wait: {error}") from error
    if answer.problem:
        raise OrderRefused(answer.problem)


def is_waiting(path: Path) -> bool:
    """Whether a process waits at `path`. It sees a connection that ends, and waits on."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_READ_SECONDS)
            connection.connect(str(path))
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _removed(path: Path) -> Iterator[None]:
    """Remove the socket at the end, however that comes."""
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _listening(path: Path) -> socket.socket:
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise OSError(f"{path}: a socket's path has at most {_LONGEST_PATH} bytes")
    if path.is_socket():
        if is_waiting(path):
            raise OSError(f"{path}: another process waits there")
        path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    first = Path(f"{path}~")
    try:
        first.unlink(missing_ok=True)
        listener.bind(str(first))
        listener.listen()
        first.rename(path)  # who finds it can connect
    except OSError as error:
        listener.close()
        raise OSError(f"{path}: {error.strerror}") from error
    finally:
        os.umask(mask)
    return listener


def _line(connection: socket.socket) -> bytes:
    """Read up to the first line's end. Raises ValueError for one that is too long, and OSError."""
    read = b""
    while not read.endswith(b"\n"):
        part = connection.recv(65536)
        if not part:
            break
        read += part
        if len(read) > LONGEST:
            raise ValueError(f"an order has at most {LONGEST} bytes")
    return read


def _order_of(line: bytes) -> Order:
    """Decode an order. Raises ValueError, and OSError where none was sent."""
    if not line.endswith(b"\n"):
        raise ConnectionResetError("the connection ended before the order")
    return msgspec.json.decode(line, type=Order)


def _answer(connection: socket.socket, answer: Answer) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(msgspec.json.encode(answer) + b"\n")
