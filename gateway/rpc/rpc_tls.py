"""A server's TLS by its section of the configuration."""

from pathlib import Path

from gateway.config.network.rpc import RpcListen
from protos.server_tls import ServerTls


def rpc_tls(listen: RpcListen) -> ServerTls | None:
    """Give a section's files to its server."""
    tls = listen.tls
    if tls is None:
        return None
    return ServerTls(Path(tls.certificate), Path(tls.key), None if tls.client_ca is None else Path(tls.client_ca))
