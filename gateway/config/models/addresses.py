"""Replica addresses: forms, parsing, and the replica names derived from them."""

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final
from urllib.parse import urlsplit

from protos.types import Role, Shape

_HOST: Final = r"(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})"
_NAME: Final = r"(?P<name>[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252}))"
_GRPC: Final = re.compile(rf"grpcs?://{_HOST}:(?P<port>[0-9]{{1,5}})|unix:/[^\s\x00-\x1f\x7f]{{1,4095}}")
_DNS: Final = re.compile(
    rf"(?P<scheme>grpcs?|https?)\+(?:dns://{_NAME}:(?P<port>[0-9]{{1,5}})|srv://(?P<service>_[A-Za-z0-9._-]{{1,253}}))"
    r"(?P<path>/[!-~]*)?"
)
#: Characters that end the path of a URL.
_NO_PATH: Final = frozenset("?#")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._]")
_LONGEST_NAME: Final = 64
#: Characters of a launch id in a socket's name.
_LONGEST_SOCKET: Final = 40
_LAUNCHED: Final = re.compile(r"unix:/.*/launched-([a-z0-9-]+)\.sock")
#: A longer name is cut to this many characters of its beginning and of its end.
_CUT_CHARS: Final = 27
_LONGEST_LABEL: Final = 63


@dataclass(frozen=True, slots=True)
class DnsName:
    """A DNS name whose records are replicas. With `port` 0, SRV records give hosts and ports."""

    text: str
    scheme: str
    name: str
    port: int
    path: str

    def address(self, host: str, port: int) -> str:
        """Format the address of a replica at this host and port, as the configuration would write it."""
        return f"{self.scheme}://{f'[{host}]' if ':' in host else host}:{port}{self.path}"


@dataclass(frozen=True, slots=True)
class Found:
    """A replica found by discovery; `host` is the name that its TLS certificate must match, or empty.

    Shape, role and version are None where they are the pool's; `near` says whether it is in the gateway's zone, None:
    that is not known. Of one `revision` are those whose KV caches fit together.
    """

    address: str
    host: str = ""
    shape: Shape | None = None
    role: Role | None = None
    version: str | None = None
    near: bool | None = None
    revision: str = ""


def is_grpc_address(address: str) -> bool:
    """Whether an address is one gRPC server: grpc://HOST:PORT, grpcs://HOST:PORT or unix:/PATH."""
    match = _GRPC.fullmatch(address)
    return match is not None and (match["port"] is None or _is_port(match["port"]))


def is_discovered(address: str) -> bool:
    """Whether an address has a DNS scheme, even if it is malformed."""
    return address.partition("://")[0].endswith(("+dns", "+srv"))


def dns_name(address: str) -> DnsName | None:
    """Parse an address such as grpc+dns://NAME:PORT or https+srv://_http._tcp.NAME/v1; None for any other form."""
    match = _DNS.fullmatch(address)
    if match is None or (match["port"] is not None and not _is_port(match["port"])):
        return None
    path, name = match["path"] or "", match["name"] or match["service"]
    if path and (not match["scheme"].startswith("http") or not _NO_PATH.isdisjoint(path)):
        return None
    labels = name.removesuffix(".").split(".")
    # An IP address has no records; no DNS name ends in a number.
    if not all(1 <= len(label) <= _LONGEST_LABEL for label in labels) or labels[-1].isdigit():
        return None
    return DnsName(address, match["scheme"], name, int(match["port"] or 0), path)


def launched_socket(launch_id: str) -> str:
    """Name the socket of a launched replica of this machine. It has room in a path, whatever the folder."""
    if len(launch_id) > _LONGEST_SOCKET:
        launch_id = blake2b(launch_id.encode(), digest_size=8).hexdigest()
    return f"launched-{launch_id}.sock"


def replica_name(address: str) -> str:
    """Derive a replica's name in its pool from its address: HOST-PORT, a launch id, or a socket's path."""
    if (launched := _LAUNCHED.fullmatch(address)) is not None:
        return launched[1]
    if address.startswith("unix:"):
        where = address.removeprefix("unix:").strip("/")
    else:
        parts = urlsplit(address)
        where = f"{parts.hostname or ''}-{parts.port}" if parts.port else parts.hostname or ""
    name = _NOT_IN_NAMES.sub("-", where)
    if len(name) <= _LONGEST_NAME:
        return name
    # Hosts differ at the start, sockets at the end: a digest of the whole keeps shortened names distinct.
    return f"{name[:_CUT_CHARS]}-{blake2b(where.encode(), digest_size=4).hexdigest()}-{name[-_CUT_CHARS:]}"


def _is_port(text: str) -> bool:
    return 1 <= int(text) <= 65535
