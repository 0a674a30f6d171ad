"""`penstock controller`: size the pools that have a launcher. `penstock serve` starts it where there are such pools."""

import argparse
import sys
from pathlib import Path

from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.provider_secret import SecretError
from gateway.store.socket_path import SocketPathError
from observability.logs import configure_logging


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `controller`."""
    parser = subparsers.add_parser("controller", help="start and stop the replicas of pools that scale")
    parser.add_argument("--config", type=Path, default=Path("penstock.yaml"), metavar="FILE")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    # Imported here, so that help does not load what launches replicas.
    import uvloop

    from gateway.scaling.serve_controller import serve_controller

    configure_logging()
    try:
        config = load_config(arguments.config)
        configure_logging(config.observability.logs.format)
        if not config.scales:
            print(f"penstock controller: {arguments.config}: no pool has a launcher", file=sys.stderr)
            return 1
        uvloop.run(serve_controller(config))
    except (ConfigError, SecretError, SocketPathError) as error:
        print(f"penstock controller: {error}", file=sys.stderr)
        return 1
    return 0
