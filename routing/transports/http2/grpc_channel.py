"""A gRPC channel: one connection, reopened when it was lost or when its certificate files have changed."""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from protos.renewed import Renewed
from routing.transports.http2.grpc_call import Call, Handler
from routing.transports.http2.grpc_status import Status
from routing.transports.http2.http2_connection import Connection
from routing.transports.replica_tls import TlsFiles, readable_problem, renewed_ssl_context

_TLS: Final = "grpcs://"
_UNIX: Final = "unix:"
#: OpenSSL's codes for a certificate of another host name or IP address.
_MISMATCHES: Final = (62, 64)


class CallFailed(Exception):
    """A call ended with a status that is not OK."""

    def __init__(self, status: Status, details: str) -> None:
        super().__init__(f"{status.name}: {details}")
        self.status = status
        self.details = details


class Channel:
    """Sends calls over the latest connection; calls in flight stay on theirs."""

    def __init__(self, address: str, tls: TlsFiles | None, largest: int) -> None:
        """`address` is `grpcs://HOST:PORT`, `grpc://HOST:PORT`, `HOST:PORT` or `unix:/PATH`; no message is longer than
        `largest` bytes. Raises PemError.
        """
        self._address = address
        self._tls = tls or TlsFiles()
        self._largest = largest
        self._contexts: Renewed[ssl.SSLContext] | None = None
        if address.startswith(_TLS):
            self._contexts = renewed_ssl_context(tls)
        self._context: ssl.SSLContext | None = None
        self._current: Connection | None = None
        self._open: set[Connection] = set()

    async def connect(self) -> bool:
        """Ensure that there is a connection; return whether it is a new one.

        Raises ConnectionError, or ProtocolError where something else answers.
        """
        context = self._contexts.get() if self._contexts is not None else None
        current = self._current
        if current is not None and not current.closing:
            if context is self._context:
                return False
            current.close_when_done()
        self._current = None
        connection = await self._connected(context)
        self._open.add(connection)
        connection.lost.add_done_callback(lambda _: self._open.discard(connection))
        try:
            await connection.ready
        except ConnectionError as error:
            raise ConnectionError(readable_problem(f"{error}: Socket closed", self._address, self._tls)) from None
        except asyncio.CancelledError:
            connection.close()
            raise
        self._current, self._context = connection, context
        return True

    async def _connected(self, context: ssl.SSLContext | None) -> Connection:
        loop = asyncio.get_running_loop()
        if self._address.startswith(_UNIX):
            path = self._address.removeprefix(_UNIX)
            try:
                _, connection = await loop.create_unix_connection(
                    lambda: Connection("localhost", "http", self._largest), path
                )
            except OSError as error:
                raise ConnectionError(str(error)) from None
            return connection
        authority = self._address.removeprefix(_TLS).removeprefix("grpc://")
        parts = urlsplit(f"//{authority}")
        host = parts.hostname or ""
        if context is not None:
            context.set_alpn_protocols(["h2"])
        try:
            _, connection = await loop.create_connection(
                lambda: Connection(authority, "http" if context is None else "https", self._largest),
                host,
                parts.port or 443,
                ssl=context,
                server_hostname=(self._tls.server_name or host) if context is not None else None,
            )
        except ssl.SSLCertVerificationError as error:
            raise ConnectionError(self._distrust(error, host)) from None
        except ssl.SSLError as error:
            raise ConnectionError(readable_problem(error.reason or str(error), self._address, self._tls)) from None
        except OSError as error:
            raise ConnectionError(str(error)) from None
        return connection

    def _distrust(self, error: ssl.SSLCertVerificationError, host: str) -> str:
        """Describe what is wrong with the server's certificate, as `readable_problem`."""
        if error.verify_code in _MISMATCHES:
            return f"its certificate is not for {self._tls.server_name or host}"
        by = self._tls.ca or "the authorities of this system"
        return f"its certificate is not accepted by {by}: {error.verify_message}"

    def start(self, path: str, message: bytes, handler: Handler, metadata: Mapping[str, str] | None = None) -> Call:
        """Begin a call. Raises ConnectionError without a connection, Full when the peer takes no more calls now."""
        if self._current is None:
            raise ConnectionError("there is no connection")
        return self._current.start(path, message, handler, metadata)

    async def ask(self, path: str, message: bytes = b"") -> bytes:
        """Make a unary call and return the message of its answer. Raises CallFailed and ConnectionError."""
        answer = _Answer()
        call = self.start(path, message, answer)
        try:
            return await answer.complete
        finally:
            call.cancel()

    async def aclose(self) -> None:
        for connection in list(self._open):
            connection.close()


class _Answer:
    """The `Handler` of a unary call."""

    def __init__(self) -> None:
        self.complete: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._message: bytes | None = None

    def received(self, message: bytes) -> None:
        """Take the answer; further messages are ignored."""
        if self._message is None:
            self._message = message

    def ended(self, status: Status, details: str) -> None:
        if self.complete.done():
            return
        if status is not Status.OK:
            self.complete.set_exception(CallFailed(status, details))
        elif self._message is None:
            self.complete.set_exception(CallFailed(Status.INTERNAL, "no answer"))
        else:
            self.complete.set_result(self._message)
