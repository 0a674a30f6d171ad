"""Find the addresses to listen on, and check that they are free, before anything is started."""

import errno
import socket

from gateway.config.network.hosts import resolved_host, with_port


class StartError(RuntimeError):
    """A part of `penstock serve` did not start; the text is one line for an operator."""


def address_of(host: str, section: str) -> str:
    """Resolve the host of a section of the configuration to an IP address. Raises StartError, which names the field."""
    try:
        return resolved_host(host)
    except OSError as error:
        raise StartError(f"{host} cannot be resolved: {error.strerror}; set {section}.host in the configuration") from (
            error
        )


def check_port(host: str, port: int, section: str) -> None:
    """Check that an address can be bound. Raises StartError, which names the field of `section` to change."""
    address = address_of(host, section)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
    except OSError as error:
        field = "host" if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT) else "port"
        where = with_port(host, port)
        raise StartError(
            f"cannot listen on {where}: {error.strerror}; set {section}.{field} in the configuration"
        ) from error
