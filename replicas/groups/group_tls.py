"""TLS between the replicas of a host group: they show each other the certificates that they show to gateways."""

from pathlib import Path

import grpc

from protos import pem


def group_credentials(
    certificate: Path | None, key: Path | None, authorities: Path | None
) -> grpc.ChannelCredentials | None:
    """Return the credentials of links to others; without files, None. Raises PemError for files that cannot be used."""
    if certificate is None or key is None or authorities is None:
        return None
    shown, private = pem.identity(certificate, key)
    return grpc.ssl_channel_credentials(pem.authorities(authorities), private, shown)
