"""The section `store`, and parsing of store addresses; a cluster's is one URL with any of its nodes."""

import re
from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import unquote, urlsplit

from msgspec import Meta

from gateway.config.base import Record
from gateway.config.secrets import SecretSource

#: URL schemes of clusters, without and with TLS.
CLUSTER_SCHEMES: Final = ("redis+cluster", "rediss+cluster")
DEFAULT_PORT: Final = 6379
#: User name and password in a URL.
CREDENTIALS: Final = re.compile(r"(?<=://)[^/@]*@")
_END_OF_AUTHORITY: Final = frozenset("/?#")
_SCHEMES: Final = ("redis://", "rediss://", "unix://")


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """Seed nodes of a cluster and the login for every node; user name and password are unquoted."""

    nodes: tuple[tuple[str, int], ...]
    username: str | None
    password: str | None
    tls: bool


def is_cluster(url: str) -> bool:
    """Whether an address is a cluster's."""
    return url.partition("://")[0] in CLUSTER_SCHEMES


def address_problem(url: str) -> str:
    """Describe what is wrong with an address, empty if nothing; the address is not shown: it may hold a password."""
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
    """Parse `redis+cluster://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]...`; the default port is 6379.

    Raises:
        ValueError: It cannot be read; the text does not show it, for it may hold a password.
    """
    # `urlsplit` takes a list of nodes for one host, and newer versions refuse a host with brackets inside.
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
    # A single node is an address that Python can parse, brackets of IPv6 included.
    parts = urlsplit(f"//{text}")
    if not parts.hostname or parts.netloc != text or parts.port == 0:
        raise ValueError("a node is HOST or HOST:PORT, and a port is a number from 1 to 65535")
    return parts.hostname, parts.port or DEFAULT_PORT


class Store(Record, frozen=True, kw_only=True):
    """The Redis-protocol store that all workers share."""

    url: Annotated[
        str,
        Meta(
            description="`embedded` starts a Valkey of its own on a unix socket and keeps its data under `state`; "
            "otherwise `redis://`, `rediss://` (TLS), `unix://` and an absolute path, or `redis+cluster://` (with TLS "
            "`rediss+cluster://`) and some nodes of a cluster, as in `redis+cluster://10.0.0.1:6379,10.0.0.2:6379`."
        ),
    ] = "embedded"
    timeout_seconds: Annotated[
        float,
        Meta(
            ge=0.05,
            le=10,
            description="Longest wait for the store while a request is served, in seconds; after it the tenant's "
            "`on_store_failure` says what happens.",
        ),
    ] = 0.5
    encryption_key: Annotated[
        SecretSource | None,
        Meta(
            description="Where the key is that encrypts keys of providers in the store: 32 bytes in base64 or "
            "hexadecimal. Several, with white space between them, replace one another: the first encrypts, all decrypt."
        ),
    ] = None

    @property
    def embedded(self) -> bool:
        """Whether `penstock serve` starts the store itself."""
        return self.url == "embedded"

    @property
    def shown_url(self) -> str:
        """The address without user name and password, for people and logs."""
        return CREDENTIALS.sub("***@", self.url)
