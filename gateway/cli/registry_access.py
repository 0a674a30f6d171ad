"""Give commands that manage tenants and keys their connection to the registry and the actor's name."""

import argparse
import asyncio
import os
import pwd
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from gateway.config.settings import Config
from gateway.reload.serving_config import serving_config
from gateway.store.configured_store import open_store
from gateway.store.socket_path import SocketPathError
from gateway.store.store_client import Store
from gateway.store.store_failure import refuses
from gateway.tenancy.tenants.tenant_registry import Registry
from observability.terminal import fail
from protos.errors import PenstockError, StoreUnavailable

# A person waits here, not a request: the store gets longer than a worker would give it.
_TIMEOUT_SECONDS: Final = 5.0

Run = Callable[[Registry, Config, argparse.Namespace], Awaitable[int]]
StoreRun = Callable[[Store, Config, argparse.Namespace], Awaitable[int]]


def add_action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", command: str, name: str, run: Run, meaning: str
) -> argparse.ArgumentParser:
    """Add an action such as `list` to a command such as `keys`; `run` gets the registry of the configuration."""

    def of_registry(store: Store, config: Config, arguments: argparse.Namespace) -> Awaitable[int]:
        return run(Registry(store, config), config, arguments)

    return add_store_action(actions, command, name, of_registry, meaning)


def add_store_action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", command: str, name: str, run: StoreRun, meaning: str
) -> argparse.ArgumentParser:
    """Add an action to a command; `run` gets the store of the configuration."""
    parser = actions.add_parser(name, help=meaning)
    parser.add_argument("--config", type=Path, default=Path("penstock.yaml"), metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(
        run=lambda arguments: with_store(command, arguments.config, lambda store, config: run(store, config, arguments))
    )
    return parser


def manage(command: str, path: Path, action: Callable[[Registry, Config], Awaitable[int]]) -> int:
    """Run an action on the registry of a configuration; on failure print one line to stderr and return 1."""
    return with_store(command, path, lambda store, config: action(Registry(store, config), config))


def with_store(command: str, path: Path, action: Callable[[Store, Config], Awaitable[int]]) -> int:
    """Run an action on the store of a configuration; on failure print one line to stderr and return 1."""
    try:
        config = serving_config(command, path)
        return asyncio.run(_connected(config, action))
    except StoreUnavailable as error:
        if config.store.embedded and not refuses(error):
            return fail(command, f"the embedded store does not answer; it runs with: penstock serve --config {path}")
        reason = " ".join(str(error.__cause__ or error).split())
        says = "refuses a call" if refuses(error) else "does not answer"
        return fail(command, f"the store at {config.store.shown_url} {says}: {reason}")
    except PenstockError as error:
        return fail(command, error.message)
    except (ValueError, SocketPathError) as error:
        # ConfigError has its own message.
        return fail(command, str(error))


async def _connected(config: Config, action: Callable[[Store, Config], Awaitable[int]]) -> int:
    store = open_store(config, timeout=_TIMEOUT_SECONDS)
    try:
        return await action(store, config)
    finally:
        await store.aclose()


def actor() -> str:
    """Return the name of the user who runs the command, for the audit trail."""
    try:
        return f"cli:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"cli:{os.getuid()}"
