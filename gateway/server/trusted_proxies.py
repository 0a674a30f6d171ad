"""The client's address behind trusted proxies, from the headers that they add.

Each proxy adds the address that it was asked from at the right. Hence the client is the first address from the right
that is no trusted proxy; what stands left of it anybody may have written. (RFC 7239, 8.1; X-Forwarded-For is older and
alike; X-Real-IP has one address.)
"""

import ipaddress
import re
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.config.network.proxies import Network

_Ip = ipaddress.IPv4Address | ipaddress.IPv6Address
_FORWARDED_FOR: Final = b"x-forwarded-for"
_FORWARDED: Final = b"forwarded"
_REAL_IP: Final = b"x-real-ip"
#: A chain of proxies is no longer; a client may send as much as fits into its headers.
_MOST_HOPS: Final = 32
_MOST_BYTES: Final = 8192
#: An address as proxies write it: with brackets and a port, or without.
_NODE: Final = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f.]*:[0-9A-Fa-f:.]{1,44})\]|(?P<four>[0-9.]{7,15}))(?::[0-9]{1,5})?")
_LONGEST_ELEMENT: Final = 1024
#: A parameter of an element of `Forwarded`. A port and brackets need quotes, which some leave out.
_PARAMETER: Final = re.compile(
    r"""[ \t]*(?P<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s",;]+))"""
    r"[ \t]*(?:;|$)"
)


class TrustedProxies:
    """Tells the client of a request by who has sent it and by its headers. Any text is worth no more than no header."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = networks
        self._trusts = lru_cache(maxsize=4096)(self._is_trusted)

    def client_of(self, peer: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """Return the client's address; `peer` where that is no trusted proxy or no header says more.

        Of the headers that a request has the first of these counts: X-Forwarded-For, Forwarded, X-Real-IP.
        """
        known = _address(peer)
        if known is None or not self._trusts(known):
            return peer
        found: dict[bytes, bytes] = {}
        for name, value in headers:
            if name in _READERS and value.strip():
                # Lines of one name are one list (RFC 9110, 5.3).
                found[name] = found[name] + b"," + value if name in found else value
        for name, read in _READERS.items():
            if name in found:
                return str(self._farthest(known, read(found[name][-_MOST_BYTES:].decode("latin-1"))))
        return str(known)

    def _farthest(self, known: _Ip, hops: Iterator[str | None]) -> _Ip:
        """Go from proxy to proxy, the nearest first, as long as they are trusted and name who has asked them."""
        for _, hop in zip(range(_MOST_HOPS), hops, strict=False):
            address = _address(hop or "")
            if address is None:
                break
            known = address
            if not self._trusts(known):
                break
        return known

    def _is_trusted(self, address: _Ip) -> bool:
        return any(address in network for network in self._networks)


def behind_proxies(app: ASGIApp, proxies: TrustedProxies) -> ASGIApp:
    """Give the requests of `app` the address of their client in place of that of the proxy."""

    def found(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        peer = scope.get("client")
        if peer is not None:
            client = proxies.client_of(peer[0], scope["headers"])
            if client != peer[0]:
                # The port is the proxy's own.
                scope["client"] = (client, 0)
        return app(scope, receive, send)

    return found


def _forwarded_for(text: str) -> Iterator[str | None]:
    return (hop for part in reversed(text.rsplit(",", _MOST_HOPS)) if (hop := part.strip()))


def _real_ip(text: str) -> Iterator[str | None]:
    # Whoever sends two of them wants to be somebody else; the proxy's is the last.
    yield text.rpartition(",")[2].strip()


def _forwarded(text: str) -> Iterator[str | None]:
    """Give what each element says of `for`, the last one first."""
    end = len(text)
    while end > 0:
        start = text.rfind(",", 0, end)
        # A comma within quotes ends no element. What a client wrote before the proxy's element cannot change it.
        while start >= max(0, end - _LONGEST_ELEMENT) and text.count('"', start + 1, end) % 2:
            start = text.rfind(",", 0, start)
        element = text[start + 1 : end].strip()
        if element:
            yield _for(element) if len(element) <= _LONGEST_ELEMENT else None
        end = start


def _for(element: str) -> str | None:
    """Read the parameter `for` of an element; None where there is none or the element is malformed."""
    node, at = None, 0
    while at < len(element):
        match = _PARAMETER.match(element, at)
        if match is None:
            return None
        if match["name"].lower() == "for":
            quoted = match["quoted"]
            node = match["plain"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        at = match.end()
    return node


_READERS: Final = {_FORWARDED_FOR: _forwarded_for, _FORWARDED: _forwarded, _REAL_IP: _real_ip}


@lru_cache(maxsize=4096)
def _address(text: str) -> _Ip | None:
    """Parse an address with or without port; None for anything else, such as `unknown` and names that are hidden."""
    match = _NODE.fullmatch(text)
    try:
        address = ipaddress.ip_address(text if match is None else match["six"] or match["four"])
    except ValueError:
        return None
    if address.version == 4:
        return address
    # A zone may be any text, and says nothing elsewhere.
    return None if address.scope_id is not None else address.ipv4_mapped or address
