"""A gRPC server's TLS: its certificate and its client CA, as the files are when a peer connects."""

from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio

from protos import pem
from protos.renewed import Renewed


@dataclass(frozen=True, slots=True)
class ServerTls:
    """PEM files. `client_ca` turns on mutual TLS: peers must show a certificate of these authorities."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


def add_port(server: grpc.aio.Server, address: str, files: ServerTls | None) -> int:
    """Let a server listen, with TLS if there are files; a unix socket stays plain. Return the port.

    Raises:
        RuntimeError: The address cannot be bound.
        pem.PemError: A file cannot be used; the text names it.
    """
    if files is None or address.startswith("unix:"):
        return server.add_insecure_port(address)
    return server.add_secure_port(address, server_credentials(files))


def server_credentials(files: ServerTls) -> grpc.ServerCredentials:
    """Return credentials that follow their files: new connections get the current files, or the last usable ones.

    Raises:
        pem.PemError: A file cannot be used; the text names it.
    """
    paths = [path for path in (files.certificate, files.key, files.client_ca) if path is not None]
    # Connections are few, so each one checks the files.
    renewed = Renewed(paths, lambda: _configuration(files), check_seconds=0.0)
    return grpc.dynamic_ssl_server_credentials(
        renewed.get(), renewed.get, require_client_authentication=files.client_ca is not None
    )


def _configuration(files: ServerTls) -> grpc.ServerCertificateConfiguration:
    certificate, key = pem.identity(files.certificate, files.key)
    authorities = None if files.client_ca is None else pem.authorities(files.client_ca)
    return grpc.ssl_server_certificate_configuration([(key, certificate)], root_certificates=authorities)
