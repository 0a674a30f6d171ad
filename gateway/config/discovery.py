"""The section `discovery`: the DNS server for lookups of replicas."""

import ipaddress
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from gateway.config.base import Record


class Discovery(Record, frozen=True, kw_only=True):
    """How replicas are found that the file does not list."""

    resolver: Annotated[
        str | None,
        Meta(description="DNS server to ask, as `10.0.0.2:53` or `[fd00::2]:53`; unset: those of `/etc/resolv.conf`."),
    ] = None

    @property
    def server(self) -> tuple[str, int] | None:
        """The DNS server's address and port, or None for the system's. Raises ValueError if it cannot be parsed."""
        if self.resolver is None:
            return None
        host, _, port = self.resolver.rpartition(":")
        bare = host.removeprefix("[").removesuffix("]")
        version = ipaddress.ip_address(bare).version
        if (version == 6) != host.startswith("[") or not port.isascii() or not port.isdigit():
            raise ValueError(self.resolver)
        if not 1 <= int(port) <= 65535:
            raise ValueError(self.resolver)
        return bare, int(port)


def discovery_problems(discovery: Discovery) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each violated rule."""
    try:
        _ = discovery.server
    except ValueError:
        yield "discovery.resolver", "expected an address and a port, as 10.0.0.2:53 or [fd00::2]:53"
