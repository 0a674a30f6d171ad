"""The addresses of stores; of a cluster, one URL with any of its nodes."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

#: With and without TLS.
CLUSTER_SCHEMES: Final = ("redis+cluster", "rediss+cluster")
DEFAULT_PORT: Final = 6379
#: User name and password in an address.
CREDENTIALS: Final = re.compile(r"(?<=://)[^/@]*@")
_END_OF_AUTHORITY: Final = frozenset("/?#")
_SCHEMES: Final = ("redis://", "rediss://", "unix://")


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """Nodes to ask for all others, and how to log in to each; the names are unquoted."""

    nodes: tuple[tuple[str, int], ...]
    username: str | None
    password: str | None
    tls: bool


def is_cluster(url: str) -> bool:
    """Whether an address is a cluster's."""
    return url.partition("://")[0] in CLUSTER_SCHEMES


def address_problem(url: str) -> str:
    """What is wrong with an address, or nothing; never shows it, for it may hold a password."""
    if is_cluster(url):
        try:
            cluster_address(url)
        except ValueError:
            return "expected redis+cluster://HOST:PORT,HOST:PORT, and neither a database nor options"
    elif not url.startswith(_SCHEMES):
        return (
            "expected an address that starts with redis://, rediss://, redis+cluster://, rediss+cluster:// or unix://"
        )
    elif url.startswith("unix://") and not CREDENTIALS.sub("", url).startswith("unix:///"):
        return "a unix:// address needs an absolute path, as in unix:///run/valkey.sock"
    else:
        try:
            _ = urlsplit(url).port
        except ValueError:
            return "the address cannot be read; a port is a number from 0 to 65535"
    return ""


def cluster_address(url: str) -> ClusterAddress:
    """Read `redis+cluster://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]...`; a port left out is 6379.

    Raises:
        ValueError: It cannot be read; the text does not show it, for it may hold a password.
    """
    # `urlsplit` takes a list of nodes for a host, and from some versions on refuses one with brackets inside.
    scheme, _, rest = url.partition("://")
    authority = rest.rstrip("/")
    credentials, _, hosts = authority.rpartition("@")
    if not _END_OF_AUTHORITY.isdisjoint(authority):
        raise ValueError("a cluster's address ends with its nodes; it has one database and no options")
    username, _, password = credentials.partition(":")
    return ClusterAddress(
        nodes=tuple(_node(host) for host in hosts.split(",")),
        username=unquote(username) or None,
        password=unquote(password) or None,
        tls=scheme == "rediss+cluster",
    )


def _node(text: str) -> tuple[str, int]:
    # One node at a time is an address that Python knows how to read, brackets of IPv6 included.
    parts = urlsplit(f"//{text}")
    if not parts.hostname or parts.netloc != text or parts.port == 0:
        raise ValueError("a node is HOST or HOST:PORT, and a port is a number from 1 to 65535")
    return parts.hostname, parts.port or DEFAULT_PORT
