"""TLS to replicas: which files, and gRPC channels that use them as they are when the channel is opened."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of one hop. `ca` None: the system's roots; with `certificate` and `key` the gateway shows its own.

    `server_name` is what the peer's certificate must be for, where that is not the address's host.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    server_name: str = ""
