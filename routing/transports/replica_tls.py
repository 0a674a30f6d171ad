"""TLS to replicas: certificate files, and the contexts and channels made from their current contents."""

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc.aio

from protos import pem
from protos.renewed import Renewed

#: System CA bundles, besides the place where Python's OpenSSL looks.
_SYSTEM_ROOTS = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",  # openSUSE
    "/etc/ssl/cert.pem",  # macOS, FreeBSD
)

Options = Sequence[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of one hop. `ca` None: the system's roots; `certificate` and `key` are the gateway's own (mTLS).

    `server_name` is the name in the peer's certificate, where that is not the address's host.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    server_name: str = ""

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return the configured files."""
        return tuple(path for path in (self.ca, self.certificate, self.key) if path is not None)


def open_channel(address: str, tls: TlsFiles | None, options: Options) -> grpc.aio.Channel:
    """Open a channel to `grpcs://HOST:PORT`, or a plain one to `grpc://HOST:PORT`, `HOST:PORT` or `unix:/PATH`.

    Raises:
        PemError: A file cannot be used; the text names it.
    """
    host = address.removeprefix("grpcs://")
    if host == address:
        return grpc.aio.insecure_channel(address.removeprefix("grpc://"), options=list(options))
    tls = tls or TlsFiles()
    certificate = key = None
    if tls.certificate is not None and tls.key is not None:
        certificate, key = pem.identity(tls.certificate, tls.key)
    credentials = grpc.ssl_channel_credentials(_roots(tls), key, certificate)
    name = [("grpc.ssl_target_name_override", tls.server_name)] if tls.server_name else []
    return grpc.aio.secure_channel(host, credentials, options=[*options, *name])


def readable_problem(problem: str, address: str, tls: TlsFiles | None) -> str:
    """Describe a failed connection for operators, where gRPC's own words are not clear."""
    tls = tls or TlsFiles()
    if "Hostname Verification Check failed" in problem:
        return f"its certificate is not for {tls.server_name or urlsplit(address).hostname}"
    if "CERTIFICATE_VERIFY_FAILED: " in problem:
        reason = problem.partition("CERTIFICATE_VERIFY_FAILED: ")[2].removesuffix(": OK")
        return f"its certificate is not accepted by {tls.ca or 'the authorities of this system'}: {reason}"
    if "WRONG_VERSION_NUMBER" in problem:
        return "it does not speak TLS there; its address would be grpc://"
    if problem.endswith(": Socket closed"):
        if not address.startswith("grpcs://"):
            return f"{problem}; perhaps it speaks TLS, and its address is grpcs://"
        shown = f"does not accept that of {tls.certificate}" if tls.certificate else "wants to see a certificate"
        return f"{problem}; perhaps it {shown}"
    return problem


def ssl_context(tls: TlsFiles | None) -> ssl.SSLContext:
    """Make a TLS context for HTTP; the connection applies `server_name` itself.

    Raises:
        PemError: A file cannot be used; the text names it.
    """
    tls = tls or TlsFiles()
    roots = _roots(tls)
    try:
        # Python takes only ASCII; other characters are in comments, as in the bundles of most systems.
        context = ssl.create_default_context(cadata=None if roots is None else roots.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        raise pem.PemError(f"{tls.ca or 'the authorities of this system'} cannot be used: {error}") from None
    if tls.certificate is not None and tls.key is not None:
        pem.identity(tls.certificate, tls.key)
        try:
            # OpenSSL takes only files; those that change in between fail here.
            context.load_cert_chain(tls.certificate, tls.key)
        except (OSError, ssl.SSLError):
            raise pem.PemError(f"{tls.certificate} and {tls.key} do not go together") from None
    return context


def renewed_ssl_context(tls: TlsFiles | None) -> Renewed[ssl.SSLContext]:
    """Return a renewing `ssl_context`, to be asked for each new connection. Raises PemError."""
    return Renewed((tls or TlsFiles()).paths, lambda: ssl_context(tls))


class SslContexts:
    """A renewing `ssl_context` that is made at the first connection, so that bad files fail only there."""

    def __init__(self, tls: TlsFiles | None) -> None:
        self._tls = tls
        self._renewed: Renewed[ssl.SSLContext] | None = None

    def get(self) -> ssl.SSLContext:
        """Return the context for the next connection. Raises PemError until the files could be used once."""
        if self._renewed is None:
            self._renewed = renewed_ssl_context(self._tls)
        return self._renewed.get()


class RenewedChannel:
    """A gRPC channel that is replaced when its files have changed; calls in flight end on the old one."""

    def __init__(
        self, address: str, tls: TlsFiles | None, options: Options, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises PemError. Needs a running event loop."""
        paths = (tls or TlsFiles()).paths if address.startswith("grpcs://") else ()
        self._renewed = Renewed(paths, lambda: open_channel(address, tls, options), clock=clock)
        self._current = self._renewed.get()
        self._calls = {self._current: 0}
        self._closing: set[asyncio.Task[None]] = set()

    @contextlib.contextmanager
    def borrowed(self) -> Iterator[grpc.aio.Channel]:
        """Lend the channel for one call, which must end inside the context; the next call may get another channel."""
        channel = self._renewed.get()
        if channel is not self._current:
            old, self._current = self._current, channel
            self._calls[channel] = 0
            self._close_unused(old)
        self._calls[channel] += 1
        try:
            yield channel
        finally:
            self._calls[channel] -= 1
            self._close_unused(channel)

    async def aclose(self) -> None:
        """Close every channel; calls in flight are cancelled."""
        await asyncio.gather(*self._closing, *(channel.close() for channel in self._calls))

    def _close_unused(self, channel: grpc.aio.Channel) -> None:
        if channel is not self._current and not self._calls[channel]:
            del self._calls[channel]
            task = asyncio.create_task(channel.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _roots(tls: TlsFiles) -> bytes | None:
    """Return the CA certificates; None: the defaults of gRPC or OpenSSL."""
    if tls.ca is not None:
        return pem.authorities(tls.ca)
    for path in (ssl.get_default_verify_paths().cafile, *_SYSTEM_ROOTS):
        if path is not None and Path(path).is_file():
            return pem.read(Path(path))
    return None
