"""HTTP proxies on the way to an upstream: which one, and the tunnel through it.

Sources: RFC 9110 (CONNECT, absolute form), curl's manual and Go's `http.ProxyFromEnvironment` for the environment.
"""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, cast
from urllib.parse import unquote, urlsplit

#: Bound on the head of a proxy's answer.
_MOST_HEAD_BYTES: Final = 16 * 1024
_PORTS: Final = {"http": 80, "https": 443}
_FORM: Final = "expected http://HOST:PORT or https://HOST:PORT, with USER:PASSWORD@ before the host if it asks for them"


@dataclass(frozen=True, slots=True)
class Proxy:
    """`tls`: the proxy itself is spoken to over TLS. `authorization` is the header's value; empty: none."""

    host: str
    port: int
    tls: bool = False
    authorization: str = ""

    def __repr__(self) -> str:
        """Its address without the credentials."""
        return f"{'https' if self.tls else 'http'}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def proxy_of(url: str) -> Proxy:
    """Parse a proxy's URL. Raises ValueError, whose text does not show it."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError:
        raise ValueError(_FORM) from None
    if parts.scheme not in _PORTS or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(_FORM)
    authorization = ""
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {b64encode(user.encode()).decode()}"
    return Proxy(parts.hostname, port or _PORTS[parts.scheme], parts.scheme == "https", authorization)


def environment_proxy(host: str, port: int, environment: Mapping[str, str], *, tls: bool) -> Proxy | None:
    """Return the proxy that the environment names for a host; None: it is spoken to directly.

    `HTTPS_PROXY` or `HTTP_PROXY`, else `ALL_PROXY`, in lower case first; not for this machine itself, nor for what
    `NO_PROXY` lists: names with all below them, addresses, networks, each with a port if only that is meant, or `*`.
    Raises ValueError, which names the variable.
    """
    for name in ("https_proxy" if tls else "http_proxy", "all_proxy"):
        # A CGI program's HTTP_PROXY may be a client's header, so that in capitals counts only elsewhere.
        upper = environment.get(name.upper()) if name != "http_proxy" or "REQUEST_METHOD" not in environment else None
        url = environment.get(name) or upper
        if not url:
            continue
        if _is_direct(host.lower(), port, environment.get("no_proxy") or environment.get("NO_PROXY") or ""):
            return None
        try:
            return proxy_of(url)
        except ValueError as error:
            raise ValueError(f"the environment variable {name.upper()}: {error}") from None
    return None


async def tunnel(
    proxy: Proxy, host: str, port: int, protocol: asyncio.Protocol, context: ssl.SSLContext | None, name: str
) -> None:
    """Connect `protocol` to a host through a proxy's CONNECT, with TLS for `name` where there is a context.

    Raises OSError, which names the proxy.
    """
    loop = asyncio.get_running_loop()
    outer = ssl.create_default_context() if proxy.tls else None
    try:
        transport, head = await loop.create_connection(_Connect, proxy.host, proxy.port, ssl=outer)
    except OSError as error:
        raise OSError(f"the proxy {proxy!r}: {error.strerror or error}") from None
    authority = f"{f'[{host}]' if ':' in host else host}:{port}"
    lines = [f"CONNECT {authority} HTTP/1.1", f"host: {authority}", "user-agent: penstock"]
    if proxy.authorization:
        lines.append(f"proxy-authorization: {proxy.authorization}")
    try:
        transport.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        status, problem = await head.answer
        if problem or status // 100 != 2:
            raise OSError(f"the proxy {proxy!r} {problem or f'answers CONNECT with status {status}'}")
        if context is None:
            transport.set_protocol(protocol)
        else:
            upgraded = await loop.start_tls(transport, protocol, context, server_hostname=name)
            transport = cast("asyncio.Transport", upgraded)
        protocol.connection_made(transport)
    except BaseException:
        transport.abort()
        raise


def _is_direct(host: str, port: int, exceptions: str) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_matches(one.strip().lower(), host, port) for one in exceptions.split(","))


def _matches(exception: str, host: str, port: int) -> bool:
    if not exception or exception == "*":
        return exception == "*"
    address = _address(host)
    if "/" in exception:
        try:
            return address is not None and address in ip_network(exception, strict=False)
        except ValueError:
            return False
    if _address(exception.strip("[]")) is None:
        exception, colon, only = exception.rpartition(":") if exception.count(":") == 1 else (exception, "", "")
        if colon and only != str(port):
            return False
    exception = exception.strip("[]").removeprefix("*").removeprefix(".")
    if address is not None:
        return address == _address(exception)
    return host == exception or host.endswith(f".{exception}")


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


class _Connect(asyncio.Protocol):
    """Reads the head of a proxy's answer to CONNECT; what follows it belongs to the tunnel, which speaks later."""

    def __init__(self) -> None:
        #: The status, and what is wrong with the answer.
        self.answer: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
        self._head = b""

    def data_received(self, data: bytes) -> None:
        if self.answer.done():
            return
        self._head += data
        if b"\r\n\r\n" in self._head:
            first = self._head.split(b"\r\n", 1)[0].split(b" ")
            if len(first) >= 2 and first[0].startswith(b"HTTP/1.") and first[1].isdigit():
                self.answer.set_result((int(first[1]), ""))
            else:
                self.answer.set_result((0, "does not answer CONNECT with HTTP"))
        elif len(self._head) > _MOST_HEAD_BYTES:
            self.answer.set_result((0, "answers CONNECT with a head that is too long"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answer.done():
            self.answer.set_result((0, "closed the connection without an answer to CONNECT"))
