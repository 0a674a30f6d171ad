"""`penstock config`: what another configuration would change, and taking it without a restart."""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Final

from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.settings import Config
from gateway.reload.messages import Outcome
from gateway.reload.plan import Fate, Plan, plan
from gateway.reload.serving_config import state_dir_of
from gateway.reload.supervisor_socket import SupervisorError, ask_reload, current_config, the_supervisor
from gateway.store.socket_path import SocketPathError

_RUNNING: Final = "running"
#: Exit statuses, as of `diff`: nothing differs, something does, it cannot be said. Beside them: it needs a restart.
_SAME, _DIFFERS, _TROUBLE, _RESTART = 0, 1, 2, 3


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `config` with its subcommands."""
    parser = subparsers.add_parser("config", help="compare configurations, and take a changed one without a restart")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    diff = commands.add_parser(
        "diff",
        help="show what a configuration would change",
        epilog="Exit status: 0 where nothing differs, 1 where something does and can be taken without a restart, "
        "3 where some of it needs a restart, 2 where it cannot be said or the file cannot be used.",
    )
    diff.add_argument("file", type=Path, nargs="?", default=Path("penstock.yaml"), metavar="FILE")
    diff.add_argument(
        "--against",
        default=_RUNNING,
        metavar="running|FILE",
        help="the gateway that runs on this machine with FILE's state directory (the default), or another file",
    )
    diff.set_defaults(run=_diff)

    reload = commands.add_parser("reload", help="have the gateway on this machine read its file again")
    reload.add_argument("--config", type=Path, default=Path("penstock.yaml"), metavar="FILE")
    reload.set_defaults(run=_reload)


def _diff(arguments: argparse.Namespace) -> int:
    from gateway.server.checked_configuration import checked_configuration  # deferred: tokenizers take long to import

    try:
        # As a reload reads it, but that the gateway has an environment of its own.
        after = checked_configuration(arguments.file, variables=False)
        before = _before(arguments.against, after)
    except (ConfigError, SupervisorError, SocketPathError) as error:
        print(f"penstock config diff: {error}", file=sys.stderr)
        return _TROUBLE
    found = plan(before, after)
    print("\n".join(described(found)))
    if found.restart:
        return _RESTART
    return _DIFFERS if found.changes else _SAME


def _before(against: str, after: Config) -> Config:
    if against == _RUNNING:
        return asyncio.run(current_config(the_supervisor(after.state_dir)))
    return load_config(Path(against))


def described(found: Plan) -> list[str]:
    """Describe what a configuration would do, line by line."""
    if not found.changes:
        return ["Nothing differs."]
    lines = [str(change) for change in found.changes]
    for fate, text in (
        (Fate.ADDED, "added"),
        (Fate.REBUILT, "with new fleets and queues, beside which the old ones end their requests"),
        (Fate.ADJUSTED, "that change in place, with no request or replica affected"),
        (Fate.REMOVED, "removed once their requests have ended"),
    ):
        if names := found.named(fate):
            lines.append(f"models {text}: {', '.join(names)}")
    if found.restart:
        lines.append("needs a restart:")
        lines += [f"  {change}" for change in found.restart]
    return lines


def _reload(arguments: argparse.Namespace) -> int:
    try:
        state = state_dir_of(arguments.config)
        outcome = asyncio.run(ask_reload(the_supervisor(state), "command"))
    except (ConfigError, SupervisorError, SocketPathError) as error:
        print(f"penstock config reload: {error}", file=sys.stderr)
        return 1
    return _tell(outcome)


def _tell(outcome: Outcome) -> int:
    if outcome.result == "unchanged":
        print(f"Nothing differs; the configuration {outcome.digest} serves.")
        return 0
    if outcome.result == "refused":
        print(f"Refused: {outcome.problem}\nThe configuration {outcome.digest} serves on.", file=sys.stderr)
    else:
        print("\n".join(outcome.changes))
        print(f"Taken: the configuration {outcome.digest} serves.")
    for one in outcome.processes:
        print(f"  {one.role} {one.pid}: {one.problem or 'ready'}, after {one.seconds:.2f} s")
    return 0 if outcome.result == "taken" else 1
