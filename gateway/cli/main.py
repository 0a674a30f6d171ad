"""The `penstock` command. Each subcommand is a module of gateway/cli, imported on demand."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from importlib import metadata

#: Subcommand -> the module that registers it, and its line in the help.
_COMMANDS = {
    "serve": "gateway.cli.serve_command",
    "replica": "gateway.cli.replica_command",
    "check": "gateway.cli.configuration_commands",
    "config": "gateway.cli.config_command",
    "schema": "gateway.cli.configuration_commands",
    "eject": "gateway.cli.eject.eject_command",
    "init": "gateway.cli.init.init_command",
    "keys": "gateway.cli.keys_command",
    "tenants": "gateway.cli.tenants_command",
    "usage": "gateway.cli.usage_command",
    "replicas": "gateway.cli.replicas_command",
    "top": "gateway.cli.top.top_command",
    "providers": "gateway.cli.providers_command",
    "admin": "gateway.cli.admin_command",
    "controller": "gateway.cli.controller_command",
    "epp": "gateway.cli.epp_command",
    "scale": "gateway.cli.scale_command",
    "drift": "gateway.cli.rollout.drift_command",
    "rollout": "gateway.cli.rollout.rollout_command",
    "reshape": "gateway.cli.reshape.reshape_command",
    "route": "gateway.cli.route.route_command",
    "safety": "gateway.cli.safety.safety_command",
    "audit": "gateway.cli.audit.audit_command",
    "batch": "gateway.cli.batch.batch_command",
    "replay": "gateway.cli.replay.replay_command",
    "bench": "loadtest.cli.bench_command",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit status."""
    if argv is None:
        # Every Python process under this one goes by it: else a child takes modules from the working directory, such
        # as a `multiprocessing.py` that lies there.
        os.environ["PYTHONSAFEPATH"] = "1"
    try:
        status = _run(sys.argv[1:] if argv is None else list(argv))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of the output, such as `head`, has closed it; what is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return status


def _run(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="penstock", description="A gateway in front of large language models.")
    # Looked up only where it is asked for: that takes as long as a short command.
    version = f"penstock {metadata.version('penstock')}" if "--version" in arguments[:1] else ""
    parser.add_argument("--version", action="version", version=version, help="show the version")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    # Only the module of the given command is imported; help and errors need them all.
    wanted = [_COMMANDS[arguments[0]]] if arguments and arguments[0] in _COMMANDS else sorted(set(_COMMANDS.values()))
    if version:
        wanted = []
    for module in wanted:
        importlib.import_module(module).register(subparsers)
    parsed = parser.parse_args(arguments)
    status: int = parsed.run(parsed)
    return status


if __name__ == "__main__":
    sys.exit(main())
