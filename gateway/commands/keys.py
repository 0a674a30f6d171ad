"""`penstock keys`: create, list and revoke API keys, while the gateway runs."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from gateway.auth.keys import ApiKey, KeyStore
from gateway.config import Config, load_config
from gateway.store.socket_path import SocketPathError
from gateway.store.store import Store, store_url
from protos.errors import StoreUnavailable

# A person waits here, not a request: a busy store gets longer than a worker would give it.
_TIMEOUT_SECONDS: Final = 5.0


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `keys` and its subcommands."""
    parser = subparsers.add_parser("keys", help="create, list and revoke API keys")
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    create = actions.add_parser("create", help="make a key; its secret is shown once")
    create.add_argument("--name", required=True, help="what the key is for, 1 to 64 characters")
    create.add_argument(
        "--models", default="*", help="models that it may use, separated by commas; * and ? are wildcards (default: *)"
    )
    create.set_defaults(run=_create)

    listing = actions.add_parser("list", help="show all keys, without their secrets")
    listing.set_defaults(run=_list)

    revoke = actions.add_parser("revoke", help="take a key back; workers refuse it within a second")
    revoke.add_argument("key", metavar="ID_OR_NAME", help="the key's id, or its name where one active key has it")
    revoke.set_defaults(run=_revoke)

    for action in (create, listing, revoke):
        action.add_argument("--config", type=Path, default=Path("penstock.yaml"), metavar="FILE")
    for action in (create, listing):
        action.add_argument("--json", action="store_true", help="print JSON")


def _create(arguments: argparse.Namespace) -> int:
    async def create(keys: KeyStore) -> int:
        models = [part.strip() for part in arguments.models.split(",")]
        key, secret = await keys.create(arguments.name, models)
        if arguments.json:
            _print_json({**_as_json(key), "key": secret})
            return 0
        for label, value in (
            ("id", key.key_id),
            ("name", key.name),
            ("models", ", ".join(key.models)),
            ("key", secret),
        ):
            print(f"{label:<8}{value}")
        print("\nKeep the key now: only a hash of it is stored, and it cannot be shown again.", file=sys.stderr)
        return 0

    return _with_keys(arguments.config, create)


def _list(arguments: argparse.Namespace) -> int:
    async def show(keys: KeyStore) -> int:
        found = await keys.list_keys()
        if arguments.json:
            _print_json([_as_json(key) for key in found])
        elif found:
            rows = [(k.key_id, k.name, ", ".join(k.models), _time(k.created_at), _state(k)) for k in found]
            _print_table(("ID", "NAME", "MODELS", "CREATED", "STATE"), rows)
        else:
            print("no keys yet; make one with: penstock keys create --name NAME", file=sys.stderr)
        return 0

    return _with_keys(arguments.config, show)


def _revoke(arguments: argparse.Namespace) -> int:
    async def revoke(keys: KeyStore) -> int:
        key = await keys.revoke(arguments.key)
        if key is None:
            return _fail(f"no active key has the id or name {arguments.key!r}; see: penstock keys list")
        print(f"revoked {key.key_id} ({key.name})")
        return 0

    return _with_keys(arguments.config, revoke)


def _with_keys(path: Path, action: Callable[[KeyStore], Awaitable[int]]) -> int:
    """Run an action on the store that a configuration names; 1 and one line on stderr where that fails."""
    try:
        config = load_config(path)
        return asyncio.run(_connected(config, action))
    except StoreUnavailable as error:
        if config.store.embedded:
            return _fail(f"the embedded store does not answer; it runs with: penstock serve --config {path}")
        reason = " ".join(str(error.__cause__ or error).split())
        return _fail(f"the store at {config.store.shown_url} does not answer: {reason}")
    except (ValueError, SocketPathError) as error:
        # A bad configuration, an ambiguous name or a malformed one: each says so itself.
        return _fail(str(error))


async def _connected(config: Config, action: Callable[[KeyStore], Awaitable[int]]) -> int:
    store = Store(store_url(config), timeout=_TIMEOUT_SECONDS)
    try:
        return await action(KeyStore(store))
    finally:
        await store.aclose()


def _fail(problem: str) -> int:
    print(f"penstock keys: {problem}", file=sys.stderr)
    return 1


def _as_json(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.key_id,
        "name": key.name,
        "models": key.models,
        "created_at": key.created_at,
        "revoked_at": key.revoked_at,
    }


def _print_json(value: object) -> None:
    print(msgspec.json.format(msgspec.json.encode(value)).decode())


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in (header, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _state(key: ApiKey) -> str:
    return "active" if key.revoked_at is None else f"revoked {_time(key.revoked_at)}"
