"""`penstock epp`: tell proxies of Kubernetes' Gateway API which endpoint a request shall go to."""

import argparse
import sys
from pathlib import Path

from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.provider_secret import SecretError
from gateway.reload.hangup import held_hangups
from gateway.store.socket_path import SocketPathError
from observability.logs import configure_logging


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `epp`."""
    parser = subparsers.add_parser("epp", help="pick endpoints for proxies (Gateway API Inference Extension)")
    parser.add_argument("--config", type=Path, default=Path("penstock.yaml"), metavar="FILE")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    with held_hangups():
        return _serve(arguments)


def _serve(arguments: argparse.Namespace) -> int:
    # Imported here, so that help does not load gRPC.
    import uvloop

    from gateway.endpoint_picker.picker_checks import picker_problems
    from gateway.endpoint_picker.picker_process import serve_picker
    from gateway.rpc.rpc_server import AddressInUse
    from protos.pem import PemError
    from routing.contracts.heatmap import HeatmapError

    configure_logging()
    try:
        config = load_config(arguments.config)
        configure_logging(config.observability.logs.format)
        for where, problem in picker_problems(config):
            raise ConfigError(str(arguments.config), where, problem)
        uvloop.run(serve_picker(config))
    except (ConfigError, SecretError, SocketPathError, HeatmapError, AddressInUse, PemError, OSError) as error:
        print(f"penstock epp: {error}", file=sys.stderr)
        return 1
    return 0
