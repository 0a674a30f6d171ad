"""Check the URLs that a replica is asked to fetch: none may lead into a private network, however it is spelled.

Replicas parse URLs with many libraries, so every URL that two of them could read differently is refused.
"""

import re
from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

MAX_URL: Final = 8192

_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,254})(?::(?P<port>[0-9]{1,5}))?"
    r"(?:[/?#][!-\[\]-~]*)?",
    re.IGNORECASE,
)
#: Names of private hosts and networks (RFC 6761, 6762, 8375, ICANN's `.internal`), and usual ones.
_PRIVATE: Final = frozenset(
    (
        *("localhost", "local", "internal", "localdomain", "home.arpa", "lan", "home", "corp", "intranet", "private"),
        *("svc", "test", "invalid", "onion", "arpa", "consul"),
        # Public names that resolve to any address that they contain, or to this machine.
        *("nip.io", "sslip.io", "xip.io", "localtest.me", "lvh.me", "vcap.me", "lacolhost.com"),
    )
)
#: Public by number, but used by a cloud for its own machines, or reserved for protocols (RFC 6890, 7526).
_APART: Final = (IPv4Network("168.63.129.16/32"), IPv4Network("192.0.0.0/24"), IPv4Network("192.88.99.0/24"))
_NAT64: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"), IPv6Network("::ffff:0:0:0/96"))
_LOCAL_NAT64: Final = IPv6Network("64:ff9b:1::/48")
#: A host's last label that makes it an IPv4 address (WHATWG URL, "ends in a number"), and a plain decimal one.
_NUMERIC: Final = re.compile(r"0x[0-9a-f]*|[0-9]+", re.IGNORECASE)
_NUMBER: Final = re.compile(r"0x[0-9a-f]+|0|[1-9][0-9]*", re.IGNORECASE)


def url_problem(url: str, hosts: Collection[str]) -> str | None:
    """Describe what is wrong with an http(s) URL; None if a replica may fetch it. With `hosts`, only from those."""
    if len(url) > MAX_URL:
        return f"is longer than {MAX_URL} characters"
    if "@" in re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]:
        return "has a user name in it"
    found = _URL.fullmatch(url)
    if found is None:
        return "is not a URL in plain form"
    if (port := found["port"]) is not None and not 0 < int(port) < 65536:
        return "has a port that cannot be"
    host = found["host"].lower()
    if hosts and not _within(host.rstrip("."), hosts):
        return "names a host that is not allowed here"
    return None if _is_public(host) else "leads into a private network"


def _within(host: str, names: Collection[str]) -> bool:
    """Whether the host is one of the names or a subdomain of one."""
    labels = host.split(".")
    tails = {".".join(labels[at:]) for at in range(len(labels))}
    return any(name.lower() in tails for name in names)


def _is_public(host: str) -> bool:
    if host.startswith("["):
        try:
            return _public_address(IPv6Address(host[1:-1]))
        except ValueError:
            return False
    host = host.removesuffix(".")
    labels = host.split(".")
    if not all(labels) or max(map(len, labels)) > 63:
        return False
    if _NUMERIC.fullmatch(labels[-1]):
        address = _any_ipv4(labels)
        return address is not None and _public_address(address)
    return len(labels) > 1 and not _within(host, _PRIVATE)


def _any_ipv4(labels: list[str]) -> IPv4Address | None:
    """Parse an IPv4 address as C's `inet_aton` does: one to four decimal or hexadecimal numbers, the last fills the
    rest.

    None for what is no address, and for numbers with leading zeros: only some readers take them as octal.
    """
    if len(labels) > 4 or not all(_NUMBER.fullmatch(label) for label in labels):
        return None
    *first, last = [int(label, 0) for label in labels]
    if any(number > 255 for number in first) or last >= 256 ** (4 - len(first)):
        return None
    return IPv4Address(last + sum(number << 8 * (3 - at) for at, number in enumerate(first)))


def _public_address(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast and not any(address in network for network in _APART)
    if address.is_multicast or address in _LOCAL_NAT64 or address.sixtofour is not None or address.teredo is not None:
        return False
    inner = address.ipv4_mapped
    if inner is None and any(address in network for network in _NAT64):
        inner = IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.is_global if inner is None else _public_address(inner)
