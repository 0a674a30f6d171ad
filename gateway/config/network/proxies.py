"""The proxies whose word on the client's address is taken."""

import ipaddress
from collections.abc import Iterator, Sequence

from gateway.config.errors import echo

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def networks_of(texts: Sequence[str]) -> tuple[Network, ...]:
    """Parse addresses and CIDR blocks. Raises ValueError."""
    return tuple(ipaddress.ip_network(text) for text in texts)


def proxy_problems(texts: Sequence[str], where: str) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each text that is neither an address nor a CIDR block."""
    for index, text in enumerate(texts):
        try:
            network = ipaddress.ip_network(text, strict=False)
        except ValueError:
            network = None
        at = f"{where}[{index}]"
        if network is None or "%" in text:
            yield at, f"expected an IP address or a block of them, such as 10.0.0.0/8 or fd00::/8, got {echo(text)}"
        elif not _is_exact(text):
            yield at, f"expected a block without bits after its length: {network}, got {echo(text)}"


def _is_exact(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True
