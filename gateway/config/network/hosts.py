"""Hosts to listen on: which are possible, how they are resolved, and the URL by which this machine reaches them."""

import ipaddress
import re
import socket
from collections.abc import Iterator
from typing import Final

_LONGEST_NAME: Final = 253
_LABEL: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")


def plain_host(host: str) -> str:
    """Take the brackets off an IPv6 address."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def host_problems(host: str, where: str) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for a host, without brackets, that nothing could listen on."""
    if host.startswith("unix:") or "/" in host:
        yield where, "expected an address or a name; the gateway listens on TCP only, not on unix sockets or URLs"
    elif _ip(host) is None and not _is_name(host):
        example = "such as 127.0.0.1, ::1, 0.0.0.0, :: or localhost"
        yield where, f"expected an IP address or a host name, {example}; the port is a field of its own"


def resolved_host(host: str) -> str:
    """Resolve a host to the IP address to listen on; of a name's addresses IPv4 comes first. Raises OSError."""
    if _ip(host) is not None:
        return host
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return str(min(found, key=lambda entry: entry[0] != socket.AF_INET)[4][0])


def local_url(scheme: str, host: str, port: int) -> str:
    """Give the URL by which this machine reaches what listens on a host."""
    ip = _ip(host)
    if ip is not None and ip.is_unspecified:
        host = "127.0.0.1" if ip.version == 4 else "::1"
    return f"{scheme}://{with_port(host, port)}"


def with_port(host: str, port: int) -> str:
    """Write a host and a port as URLs have them."""
    return f"{f'[{host}]' if ':' in host else host}:{port}"


def _is_name(host: str) -> bool:
    """Whether this is a host name (RFC 1123, 2.1); no name ends in a number."""
    labels = host.removesuffix(".").split(".")
    return len(host) <= _LONGEST_NAME and not labels[-1].isdigit() and all(map(_LABEL.fullmatch, labels))


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return None
    # An address with a zone holds on one interface; Granian cannot bind it.
    return None if "%" in host else ip
