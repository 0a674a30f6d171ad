"""Check that the ports which a start needs are free, before anything is started."""

import socket


class StartError(RuntimeError):
    """A part of `penstock serve` did not start; the text is one line for an operator."""


def check_port(host: str, port: int, setting: str) -> None:
    """Check that an address can be bound. Raises StartError, which names the configuration field `setting`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise StartError(
                f"cannot listen on {host}:{port}: {error.strerror}; set {setting} in the configuration"
            ) from error
