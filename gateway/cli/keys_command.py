"""`penstock keys`: create, list, show, change, rotate and revoke API keys, while the gateway runs."""

import argparse
import sys
from collections.abc import Collection
from functools import partial
from typing import Any

import msgspec

from gateway.cli.command_output import shown_limits, shown_time
from gateway.cli.record_fields import add_limit_flags, duration, expiry, limits_from, metadata_from, names
from gateway.cli.registry_access import actor, add_action
from gateway.config.settings import Config
from gateway.config.tenants import DEFAULT_TENANT, Limits
from gateway.tenancy.auth.key_records import ENDPOINTS, ApiKey, KeyChange, KeyRequest
from gateway.tenancy.tenants.inputs import record_of
from gateway.tenancy.tenants.tenant_registry import Registry
from observability.terminal import print_fields, print_json, print_table
from protos.errors import Conflict, KeyNotFound

_KEPT = "\nKeep the key now: only a hash of it is stored, and it cannot be shown again."


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `keys` and its subcommands."""
    parser = subparsers.add_parser("keys", help="create, list, change, rotate and revoke API keys")
    add = partial(add_action, parser.add_subparsers(required=True, metavar="ACTION"), "keys")

    create = add("create", _create, "make a key; its secret is shown once")
    create.add_argument("--name", required=True, help="what the key is for, 1 to 64 characters")
    create.add_argument("--tenant", default=DEFAULT_TENANT, help=f"whose it is (default: {DEFAULT_TENANT})")

    listing = add("list", _list, "show all keys, without their secrets")
    listing.add_argument("--tenant", help="only the keys of this tenant")

    show = add("show", _show, "show all settings of a key")
    update = add("update", _update, "change settings of a key; workers heed them within a second")
    update.add_argument("--name", help="a new name")
    rotate = add("rotate", _rotate, "make a new secret for a key; both work for a time of grace")
    rotate.add_argument("--grace", default="24h", metavar="DURATION", help="0s to 30d (default: 24h)")
    revoke = add("revoke", _revoke, "take a key back; workers refuse it within a second")

    for chosen in (show, update, rotate, revoke):
        chosen.add_argument("key", metavar="ID_OR_NAME", help="the key's id, or its name where one active key has it")
    for settings in (create, update):
        _add_settings(settings)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", help="models that it may use, separated by commas; * and ? are wildcards")
    parser.add_argument("--endpoints", help=f"of {', '.join(ENDPOINTS)}; none: all of them")
    parser.add_argument(
        "--explain", action=argparse.BooleanOptionalAction, help="whether it may ask why its requests go where they go"
    )
    parser.add_argument("--expires", metavar="WHEN", help="as in 30d, 12h, 2030-01-31 or never")
    parser.add_argument(
        "--metadata", action="append", metavar="NAME=VALUE", help="anything; may be given again; none: take all away"
    )
    add_limit_flags(parser)


def _settings(arguments: argparse.Namespace, limits: Limits, metadata: dict[str, str], now: float) -> dict[str, Any]:
    """Collect the flags as plain values; `limits` and `metadata` are the values that they change."""
    plain: dict[str, Any] = {}
    if arguments.name is not None:
        plain["name"] = arguments.name
    if arguments.models is not None:
        plain["models"] = names(arguments.models)
    if arguments.endpoints is not None:
        plain["endpoints"] = names(arguments.endpoints)
    if arguments.explain is not None:
        plain["explain"] = arguments.explain
    if (chosen := limits_from(arguments, limits)) is not None:
        plain["limits"] = chosen
    if arguments.metadata is not None:
        plain["metadata"] = metadata_from(arguments.metadata, metadata)
    if arguments.expires is not None:
        plain["expires_at"] = expiry(arguments.expires, now)
    return plain


async def _create(registry: Registry, _: Config, arguments: argparse.Namespace) -> int:
    plain = _settings(arguments, Limits(), {}, await registry.now())
    request = record_of({**plain, "tenant": arguments.tenant}, KeyRequest)
    _print_secret(*await registry.create_key(request, actor()), arguments)
    return 0


async def _list(registry: Registry, _: Config, arguments: argparse.Namespace) -> int:
    found = await registry.keys(arguments.tenant)
    if arguments.tenant is not None and not found:
        # One that is gone may have left keys.
        await registry.tenant(arguments.tenant)
    now, tenants = await registry.now(), await _tenants(registry)
    if arguments.json:
        print_json(found)
    elif found:
        rows = [
            (
                key.key_id,
                key.name,
                key.tenant,
                ", ".join(key.models),
                "yes" if key.explain else "-",
                shown_time(key.created_at),
                _state(key, now, tenants),
            )
            for key in found
        ]
        print_table(("ID", "NAME", "TENANT", "MODELS", "EXPLAIN", "CREATED", "STATE"), rows)
    else:
        print("no keys yet; make one with: penstock keys create --name NAME", file=sys.stderr)
    return 0


async def _show(registry: Registry, _: Config, arguments: argparse.Namespace) -> int:
    key = await _chosen(registry, arguments.key)
    _print_key(key, await registry.now(), await _tenants(registry), arguments)
    return 0


async def _update(registry: Registry, _: Config, arguments: argparse.Namespace) -> int:
    now = await registry.now()

    def change(key: ApiKey) -> KeyChange:
        return record_of(_settings(arguments, key.limits, key.metadata, now), KeyChange)

    chosen = await _chosen(registry, arguments.key)
    _print_key(await registry.edit_key(chosen.key_id, change, actor()), now, await _tenants(registry), arguments)
    return 0


async def _rotate(registry: Registry, _: Config, arguments: argparse.Namespace) -> int:
    grace = duration(arguments.grace, "grace_seconds")
    chosen = await _chosen(registry, arguments.key)
    _print_secret(*await registry.rotate_key(chosen.key_id, grace, actor()), arguments)
    return 0


async def _revoke(registry: Registry, _: Config, arguments: argparse.Namespace) -> int:
    chosen = await _chosen(registry, arguments.key)
    key = await registry.revoke_key(chosen.key_id, actor())
    if arguments.json:
        print_json(key)
    else:
        print(f"revoked {key.key_id} ({key.name})")
    return 0


async def _chosen(registry: Registry, id_or_name: str) -> ApiKey:
    """Find the key of an id, or the one active key of a name.

    Raises:
        KeyNotFound: There is none.
        Conflict: Several active keys have the name.
    """
    keys = await registry.keys()
    now = await registry.now()
    found = [key for key in keys if key.key_id == id_or_name]
    found = found or [key for key in keys if key.name == id_or_name and key.active(now)]
    if not found:
        raise KeyNotFound(f"no active key has the id or name {id_or_name!r}; see: penstock keys list")
    if len(found) > 1:
        ids = ", ".join(key.key_id for key in found)
        raise Conflict(f"{len(found)} active keys are named {id_or_name!r}; name one by its id: {ids}")
    return found[0]


def _print_secret(key: ApiKey, secret: str, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print_json({**msgspec.to_builtins(key), "key": secret})
        return
    print_fields([*_described(key), ("key", secret)])
    print(_KEPT, file=sys.stderr)


def _print_key(key: ApiKey, now: float, tenants: Collection[str], arguments: argparse.Namespace) -> None:
    if arguments.json:
        print_json(key)
    else:
        print_fields([*_described(key), ("created", shown_time(key.created_at)), ("state", _state(key, now, tenants))])


def _described(key: ApiKey) -> list[tuple[str, str]]:
    return [
        ("id", key.key_id),
        ("name", key.name),
        ("tenant", key.tenant),
        ("models", ", ".join(key.models)),
        ("endpoints", ", ".join(key.endpoints)),
        ("explain", "yes" if key.explain else ""),
        ("limits", shown_limits(key.limits)),
        ("metadata", ", ".join(f"{name}={value}" for name, value in key.metadata.items())),
        ("expires", "" if key.expires_at is None else shown_time(key.expires_at)),
        ("replaces", key.replaces or ""),
    ]


async def _tenants(registry: Registry) -> frozenset[str]:
    return frozenset(entry.tenant.name for entry in await registry.tenants())


def _state(key: ApiKey, now: float, tenants: Collection[str]) -> str:
    if key.revoked_at is not None:
        return f"revoked {shown_time(key.revoked_at)}"
    if key.tenant not in tenants and not key.expired(now):
        # As when it was taken out of the file: its requests are refused until it is there again.
        return "without its tenant"
    if key.expires_at is None:
        return "active"
    return f"{'expired' if key.expired(now) else 'active until'} {shown_time(key.expires_at)}"
