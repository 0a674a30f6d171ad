"""Sends the requests of the price list, always in the same order over the same connections."""

import selectors
import socket
from collections.abc import Callable, Sequence

from loadtest.load.http1 import MalformedResponse, ResponseReader
from loadtest.load.processes import BenchError

_ANSWER_SECONDS = 60.0
_READ_BYTES = 1 << 16


class CostClient:
    """Keep-alive connections to a gateway, whose bytes are counted."""

    def __init__(self, port: int, key: str, connections: int, *, traced_every: int | None = None) -> None:
        """Connect. One request in `traced_every` says that it is traced. Raises BenchError."""
        self._traced_every = traced_every
        self._asked = 0
        self._head = f"host: 127.0.0.1:{port}\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n"
        self._sockets = []
        self.sent = self.received = 0
        try:
            for _ in range(connections):
                connection = socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_SECONDS)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets.append(connection)
        except OSError as error:
            self.close()
            raise BenchError(f"cannot connect to the gateway: {error}") from None

    def ask(
        self, bodies: Sequence[bytes], came: Callable[[Sequence[ResponseReader]], None] = lambda _: None
    ) -> list[ResponseReader]:
        """Send these chats at once, one on each connection, and wait for their whole answers. Raises BenchError.

        `came` gets the answers whenever something has come.
        """
        answers = {connection: ResponseReader() for connection in self._sockets[: len(bodies)]}
        try:
            for connection, body in zip(answers, bodies, strict=True):
                request = self._request(body)
                connection.sendall(request)
                self.sent += len(request)
            with selectors.DefaultSelector() as selector:
                for connection in answers:
                    selector.register(connection, selectors.EVENT_READ)
                while selector.get_map():
                    ready = selector.select(_ANSWER_SECONDS)
                    if not ready:
                        raise BenchError(f"nothing of an answer came for {_ANSWER_SECONDS:.0f} s")
                    for key, _ in ready:
                        assert isinstance(key.fileobj, socket.socket)
                        if self._read(key.fileobj, answers[key.fileobj]):
                            selector.unregister(key.fileobj)
                    came(list(answers.values()))
        except (OSError, MalformedResponse) as error:
            raise BenchError(f"a request got no whole answer: {error}") from None
        return list(answers.values())

    def _request(self, body: bytes) -> bytes:
        self._asked += 1
        head = f"POST /v1/chat/completions HTTP/1.1\r\n{self._head}content-length: {len(body)}\r\n"
        if self._traced_every and self._asked % self._traced_every == 0:
            head += f"traceparent: 00-{self._asked:032x}-{self._asked:016x}-01\r\n"
        return head.encode() + b"\r\n" + body

    def close(self) -> None:
        """Disconnect."""
        for connection in self._sockets:
            connection.close()

    def _read(self, connection: socket.socket, answer: ResponseReader) -> bool:
        """Read what has come; return whether the answer is complete."""
        data = connection.recv(_READ_BYTES)
        if not data:
            raise BenchError("the gateway closed the connection in the middle of an answer")
        self.received += len(data)
        answer.feed(data)
        if answer.status != 200 or answer.failed:
            raise BenchError(f"a request got status {answer.status} and no answer")
        return answer.complete
