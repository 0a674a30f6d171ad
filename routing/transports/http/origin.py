"""The origin of an upstream, parsed from its base URL."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from routing.transports.http.proxy import Proxy

_PORTS: Final = {"http": 80, "https": 443}
#: Characters allowed in a request's target and host: none that could end a line of the head.
_PRINTABLE: Final = re.compile(r"[!-~]*")


@dataclass(frozen=True, slots=True)
class Origin:
    """`path` prefixes the API's paths, without a trailing slash. `called`: the host name where `host` is an address.

    `proxy` is what it is reached through; None: directly.
    """

    host: str
    port: int
    tls: bool
    path: str
    called: str = ""
    proxy: Proxy | None = None

    @property
    def forwarded(self) -> Proxy | None:
        """The proxy that reads the requests and forwards them; None: there is none, or it only has a tunnel."""
        return None if self.tls else self.proxy

    @property
    def name(self) -> bytes:
        """Value of the `host` header."""
        host = self.called or (f"[{self.host}]" if ":" in self.host else self.host)
        return (host if self.port == _PORTS["https" if self.tls else "http"] else f"{host}:{self.port}").encode()


def origin_of(url: str) -> Origin:
    """Parse `http://HOST:PORT/PATH` or `https://...`. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("expected http://HOST or https://HOST, with a path if there is one, and nothing after it")
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
    if not _PRINTABLE.fullmatch(host + parts.path):
        raise ValueError("the address has characters that cannot stand in a URL")
    return Origin(host, parts.port or _PORTS[parts.scheme], parts.scheme == "https", parts.path.rstrip("/"))


def head(method: str, target: str, origin: Origin, headers: dict[str, str]) -> bytes:
    """Return the first lines of a request, without the empty line. Raises ValueError."""
    lines = [f"{method} {target} HTTP/1.1".encode(), b"host: " + origin.name]
    if origin.forwarded is not None:
        lines[0] = b"%b http://%b%b HTTP/1.1" % (method.encode(), origin.name, target.encode())
        if origin.forwarded.authorization:
            lines.append(b"proxy-authorization: " + origin.forwarded.authorization.encode())
    for name, value in headers.items():
        if not is_header_value(value):
            raise ValueError(f"the value of the header {name} has characters that cannot stand there")
        lines.append(f"{name}: {value}".encode("latin-1"))
    if not _PRINTABLE.fullmatch(target):
        raise ValueError("the path has characters that cannot stand in a URL")
    return b"\r\n".join(lines) + b"\r\n"


def is_header_value(value: str) -> bool:
    """Whether a value can be sent in a header line without ending it."""
    return all(" " <= character <= "~" or "\xa0" <= character <= "\xff" for character in value)
