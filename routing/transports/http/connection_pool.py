"""The connection pool of one upstream: connections are kept after an answer and opened when none is idle."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from math import ceil
from typing import Final

from protos.pem import PemError
from routing.transports.http.http1_connection import HttpConnection
from routing.transports.http.http1_request import Fault, Http1Request, HttpFailure
from routing.transports.http.origin import Origin
from routing.transports.http.proxy import Proxy, tunnel
from routing.transports.http.upstream_timeouts import Timeouts

log = logging.getLogger(__name__)

#: Seconds between checks for silence. Silence is counted in ticks, so that a stall of this process does not count.
TICK_SECONDS: Final = 0.25
#: Seconds for which an idle connection is kept: less than most peers and middleboxes keep it.
IDLE_SECONDS: Final = 30.0
#: Default bound on connections.
MOST_CONNECTIONS: Final = 4096


_DEFAULT: Final = Timeouts()


class _TickLimits:
    """`Timeouts` in ticks, plus one, since the first tick may come right after a sign of life."""

    def __init__(self, timeouts: Timeouts) -> None:
        self.first_byte = ceil(timeouts.first_byte / TICK_SECONDS) + 1
        self.between_bytes = ceil(timeouts.between_bytes / TICK_SECONDS) + 1
        self.idle = ceil(IDLE_SECONDS / TICK_SECONDS)


class _Connecting:
    """The `Carrier` of an exchange while its connection is being opened."""

    def __init__(self, exchange: Http1Request) -> None:
        self.exchange: Http1Request | None = exchange
        self.task: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        self.exchange = None
        if self.task is not None:
            self.task.cancel()

    def pause(self) -> None:
        """Do nothing: no data comes yet."""

    def resume(self) -> None:
        """Do nothing: no data comes yet."""

    def expect_end(self, ticks: int) -> None:
        """Do nothing: no data comes yet."""


class ConnectionPool:
    """At most `most` connections to one origin; `contexts` returns the TLS context for the next one."""

    def __init__(
        self,
        origin: Origin,
        *,
        contexts: Callable[[], ssl.SSLContext] | None = None,
        server_name: str = "",
        timeouts: Timeouts = _DEFAULT,
        most: int = MOST_CONNECTIONS,
    ) -> None:
        """`server_name` is the name in the certificate where that is not the host. Needs a running event loop."""
        self.origin = origin
        self._contexts = contexts
        self._server_name = server_name or origin.host
        self._timeouts = timeouts
        self._limits = _TickLimits(timeouts)
        self._most = most
        self._loop = asyncio.get_running_loop()
        #: The last used connection is used next, so that surplus ones age.
        self._idle: list[HttpConnection] = []
        self._open: set[HttpConnection] = set()
        self._pending: set[_Connecting] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def connections(self) -> int:
        """Number of connections, those being opened included."""
        return len(self._open) + len(self._pending)

    def send(self, exchange: Http1Request) -> None:
        """Begin an exchange; none of its callbacks is called before this returns."""
        if self._idle:
            self._idle.pop().take(exchange)
        else:
            self._connect(exchange)

    def release(self, connection: HttpConnection) -> None:
        self._idle.append(connection)

    def lost(self, connection: HttpConnection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def resend(self, exchange: Http1Request) -> None:
        """Send the exchange on a fresh connection: whatever closed one may have closed all idle ones."""
        self._connect(exchange)

    async def aclose(self) -> None:
        """Close everything; exchanges in flight get no more callbacks."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for connection in list(self._open):
            connection.cancel()
        tasks = [connecting.task for connecting in self._pending if connecting.task is not None]
        for connecting in list(self._pending):
            connecting.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def tick(self) -> None:
        """Check for silence."""
        for connection in list(self._open):
            connection.tick()

    def _connect(self, exchange: Http1Request) -> None:
        connecting, full = _Connecting(exchange), self.connections >= self._most
        exchange.carrier = connecting
        self._pending.add(connecting)
        connecting.task = self._loop.create_task(self._make(connecting, full=full))
        # A task that is cancelled before it begins runs nothing but this.
        connecting.task.add_done_callback(lambda _: self._pending.discard(connecting))

    async def _make(self, connecting: _Connecting, *, full: bool) -> None:
        failure = None
        try:
            if full:
                raise OSError(f"there are {self._most} already")
            async with asyncio.timeout(self._timeouts.connect):
                connection = await self._connection()
            if connection.closed:  # uvloop may report the end before the beginning
                raise OSError("it was closed at once")
        except TimeoutError:
            failure = f"no connection within {self._timeouts.connect:g} s"
        except (OSError, PemError, ValueError) as error:
            failure = connection_problem(error, self._server_name)
        self._pending.discard(connecting)
        exchange, connecting.exchange = connecting.exchange, None
        if exchange is None:
            if failure is None:
                connection.cancel()
        elif failure is not None:
            exchange.carrier = None
            exchange.failed(HttpFailure(Fault.UNREACHABLE, failure))
        else:
            self._open.add(connection)
            connection.take(exchange)
            if self._timer is None:
                self._timer = self._loop.call_later(TICK_SECONDS, self._ticked)

    async def _connection(self) -> HttpConnection:
        context, origin = self._contexts() if self._contexts is not None else None, self.origin
        if origin.forwarded is not None:
            return await self._to_proxy(origin.forwarded)
        if origin.proxy is not None:
            connection = HttpConnection(self, self._limits)
            await tunnel(origin.proxy, origin.host, origin.port, connection, context, self._server_name)
            return connection
        _, connection = await self._loop.create_connection(
            lambda: HttpConnection(self, self._limits),
            origin.host,
            origin.port,
            ssl=context,
            server_hostname=self._server_name if context is not None else None,
        )
        return connection

    async def _to_proxy(self, proxy: Proxy) -> HttpConnection:
        context = ssl.create_default_context() if proxy.tls else None
        try:
            _, connection = await self._loop.create_connection(
                lambda: HttpConnection(self, self._limits), proxy.host, proxy.port, ssl=context
            )
        except OSError as error:
            raise OSError(f"the proxy {proxy!r}: {error.strerror or error}") from None
        return connection

    def _ticked(self) -> None:
        self.tick()
        self._timer = self._loop.call_later(TICK_SECONDS, self._ticked) if self._open else None


def connection_problem(error: Exception, server_name: str) -> str:
    """Return why no connection could be opened, for the log."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted for {server_name}: {error.verify_message or error.reason}"
    if isinstance(error, PemError):
        return str(error)
    if isinstance(error, socket.gaierror):
        return f"its name cannot be looked up: {error.strerror}"
    return f"no connection: {error}"
