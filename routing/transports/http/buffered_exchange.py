"""Short requests to an upstream whose whole answer fits in memory."""

import asyncio
from typing import Final

from routing.transports.http.connection_pool import ConnectionPool
from routing.transports.http.http1_request import Fault, Headers, Http1Request, HttpFailure
from routing.transports.http.origin import head

#: Headers of a request whose answer is read here, whatever its type.
ACCEPT: Final = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "penstock"}


class BufferedExchange(Http1Request):
    """A request whose `answer` is the status and the whole body, or raises HttpFailure.

    `status` is 0 until the head of the answer has come.
    """

    __slots__ = ("_limit", "_parts", "_size", "answer", "status")

    def __init__(self, request: bytes, limit: int) -> None:
        """`request` are the raw bytes, `limit` those of the answer's body at most."""
        super().__init__(request)
        self._limit = limit
        self.status = self._size = 0
        self._parts: list[bytes] = []
        self.answer: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()

    def answered(self, status: int, headers: Headers) -> None:
        self.status = status

    def received(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._size > self._limit:
            self.cancel()
            self.failed(HttpFailure(Fault.NONSENSE, f"an answer of more than {self._limit} bytes"))

    def ended(self) -> None:
        if not self.answer.done():
            self.answer.set_result((self.status, b"".join(self._parts)))

    def failed(self, failure: HttpFailure) -> None:
        if not self.answer.done():
            self.answer.set_exception(failure)


async def get(
    pool: ConnectionPool, target: str, headers: dict[str, str], limit: int, timeout: float
) -> tuple[int, bytes]:
    """Return status and body of a GET: at most `limit` bytes, within `timeout` seconds. Redirects are not followed.

    Raises HttpFailure, and ValueError for a target or header that cannot be sent.
    """
    request = head("GET", target, pool.origin, ACCEPT | headers) + b"\r\n"
    try:
        async with asyncio.timeout(timeout):
            return await ask(pool, request, limit)
    except TimeoutError:
        raise HttpFailure(Fault.TIMEOUT, f"no answer within {timeout:g} s") from None


async def ask(pool: ConnectionPool, request: bytes, limit: int) -> tuple[int, bytes]:
    """Send the raw HTTP `request`; return status and body, at most `limit` bytes. Raises HttpFailure."""
    exchange = BufferedExchange(request, limit)
    pool.send(exchange)
    try:
        return await exchange.answer
    finally:
        exchange.cancel()
