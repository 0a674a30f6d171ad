"""A server in a thread that answers each connection with the same bytes, for commands that speak to one."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator


class Listener:
    """`asked` is what each connection was sent, as far as one read had it."""

    def __init__(self, answers: list[bytes], context: ssl.SSLContext | None) -> None:
        self.asked: list[bytes] = []
        self._answers = answers
        self._context = context
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        # Closing alone would leave the thread in accept.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        for number in range(1000):
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            # A client that hangs up, or refuses the certificate, is part of the test.
            with contextlib.suppress(OSError), connection:
                connection.settimeout(5)
                self._answer(connection, self._answers[min(number, len(self._answers) - 1)])

    def _answer(self, connection: socket.socket, answer: bytes) -> None:
        if self._context is None:
            self._speak(connection, answer)
        else:
            with self._context.wrap_socket(connection, server_side=True) as encrypted:
                self._speak(encrypted, answer)

    def _speak(self, connection: socket.socket, answer: bytes) -> None:
        self.asked.append(_request(connection))
        connection.sendall(answer)


def _request(connection: socket.socket) -> bytes:
    """A whole request, if it is HTTP; else what comes first."""
    data = b""
    while more := connection.recv(65536):
        data += more
        head, separator, body = data.partition(b"\r\n\r\n")
        if not head.startswith((b"GET", b"POST")):
            break
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if separator and len(body) >= int(length or b"0"):
            break
    return data


@contextlib.contextmanager
def listening(*answers: bytes, context: ssl.SSLContext | None = None) -> Iterator[Listener]:
    """A listener that gives the answers in turn, one a connection, and the last one from then on."""
    listener = Listener(list(answers), context)
    try:
        yield listener
    finally:
        listener.close()


def http_answer(body: bytes, status: str = "200 OK") -> bytes:
    """An HTTP answer."""
    return b"HTTP/1.1 %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s" % (status.encode(), len(body), body)
