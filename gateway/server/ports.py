"""The ports that a start needs, looked at before anything is started."""

import socket


class StartError(RuntimeError):
    """Something `penstock serve` needs did not start; the text is one line for an operator."""


def check_port(host: str, port: int, setting: str) -> None:
    """Raises StartError when the address cannot be bound; `setting` is where the configuration has it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise StartError(
                f"cannot listen on {host}:{port}: {error.strerror}; set {setting} in the configuration"
            ) from error
