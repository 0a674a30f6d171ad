"""Where an upstream is, as its base URL says."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

_PORTS: Final = {"http": 80, "https": 443}
#: What may stand in a request's target and host: nothing that could end a line of the head.
_PRINTABLE: Final = re.compile(r"[!-~]*")


@dataclass(frozen=True, slots=True)
class Origin:
    """`path` is what the API's paths follow, without a slash at its end. `called`: its name, where `host` is not."""

    host: str
    port: int
    tls: bool
    path: str
    called: str = ""

    @property
    def name(self) -> bytes:
        """The `host` header."""
        host = self.called or (f"[{self.host}]" if ":" in self.host else self.host)
        return (host if self.port == _PORTS["https" if self.tls else "http"] else f"{host}:{self.port}").encode()


def origin_of(url: str) -> Origin:
    """From `http://HOST:PORT/PATH` or `https://...`. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("expected http://HOST or https://HOST, with a path if there is one, and nothing after it")
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
    if not _PRINTABLE.fullmatch(host + parts.path):
        raise ValueError("the address has characters that cannot stand in a URL")
    return Origin(host, parts.port or _PORTS[parts.scheme], parts.scheme == "https", parts.path.rstrip("/"))


def head(method: str, target: str, origin: Origin, headers: dict[str, str]) -> bytes:
    """The first lines of a request, the empty line not included. Raises ValueError."""
    lines = [f"{method} {target} HTTP/1.1".encode(), b"host: " + origin.name]
    for name, value in headers.items():
        if not is_header_value(value):
            raise ValueError(f"the value of the header {name} has characters that cannot stand there")
        lines.append(f"{name}: {value}".encode("latin-1"))
    if not _PRINTABLE.fullmatch(target):
        raise ValueError("the path has characters that cannot stand in a URL")
    return b"\r\n".join(lines) + b"\r\n"


def is_header_value(value: str) -> bool:
    """Whether it can stand in a head without ending its line."""
    return all(" " <= character <= "~" or "\xa0" <= character <= "\xff" for character in value)
