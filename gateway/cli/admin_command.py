"""`penstock admin`: serve the admin API. `penstock serve` starts it too, unless `admin.enabled` is false."""

import argparse
import asyncio
import os
import sys
from pathlib import Path

from gateway.admin.admin_key import AdminKeyError, admin_key
from gateway.admin.scrape_key import check_scrape_key
from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.reload.hangup import held_hangups
from gateway.reload.messages import SUPERVISOR_VARIABLE
from gateway.reload.supervisor_socket import SupervisorError, current_config
from gateway.server.ports import StartError, check_port
from gateway.store.socket_path import SocketPathError
from observability.logs import configure_logging


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `admin`."""
    parser = subparsers.add_parser("admin", help="serve the admin API alone")
    parser.add_argument("--config", type=Path, default=Path("penstock.yaml"), metavar="FILE")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    with held_hangups():
        return _serve(arguments)


def _serve(arguments: argparse.Namespace) -> int:
    # Imported here, so that help does not load the server.
    import uvloop

    from gateway.admin.admin_server import serve_admin

    configure_logging()
    try:
        # Under a supervisor, what its other processes have: the file may have been refused.
        supervisor = os.environ.get(SUPERVISOR_VARIABLE)
        config = load_config(arguments.config) if supervisor is None else asyncio.run(current_config(Path(supervisor)))
        configure_logging(config.observability.logs.format)
        key = admin_key(config)
        check_scrape_key(config, key)
        check_port(config.admin.host, config.admin.port, "admin")
        uvloop.run(serve_admin(config, key, supervisor))
    except (ConfigError, AdminKeyError, SocketPathError, StartError, SupervisorError) as error:
        print(f"penstock admin: {error}", file=sys.stderr)
        return 1
    return 0
