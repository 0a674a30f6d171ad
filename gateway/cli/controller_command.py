"""`penstock controller`: size the pools that have a launcher, and change models' versions and replicas' shapes.

`penstock serve` starts it where there is anything of that to do.
"""

import argparse
import asyncio
import os
import sys
from pathlib import Path

from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.provider_secret import SecretError
from gateway.reload.hangup import held_hangups
from gateway.reload.messages import SUPERVISOR_VARIABLE
from gateway.reload.supervisor_socket import SupervisorError, current_config
from gateway.store.socket_path import SocketPathError
from observability.logs import configure_logging


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `controller`."""
    parser = subparsers.add_parser("controller", help="size the pools that scale, roll out versions, change shapes")
    parser.add_argument("--config", type=Path, default=Path("penstock.yaml"), metavar="FILE")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    with held_hangups():
        return _serve(arguments)


def _serve(arguments: argparse.Namespace) -> int:
    # Imported here, so that help does not load what launches replicas.
    import uvloop

    from gateway.reshaping.reshaping_part import ReshapingPart
    from gateway.rollouts.rollouts_part import RolloutsPart
    from gateway.rpc.rpc_server import AddressInUse
    from gateway.scaling.controller_part import MakePart
    from gateway.scaling.serve_controller import serve_controller
    from protos.pem import PemError

    configure_logging()
    try:
        # Under a supervisor, what its other processes have: the file may have been refused.
        supervisor = os.environ.get(SUPERVISOR_VARIABLE)
        config = asyncio.run(current_config(Path(supervisor))) if supervisor else load_config(arguments.config)
        configure_logging(config.observability.logs.format)
        if not config.needs_controller:
            print(
                f"penstock controller: {arguments.config}: no pool has a launcher, no model goes by version, and none "
                "has `reshape`",
                file=sys.stderr,
            )
            return 1
        parts: list[MakePart] = [RolloutsPart] if config.goes_by_version else []
        parts += [ReshapingPart] if config.reshapes else []
        uvloop.run(serve_controller(config, supervisor, parts))
    except (
        ConfigError,
        SecretError,
        SocketPathError,
        SupervisorError,
        AddressInUse,
        PemError,
        OSError,
    ) as error:
        print(f"penstock controller: {error}", file=sys.stderr)
        return 1
    return 0
