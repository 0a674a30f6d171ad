"""`penstock tenants`: create, list, show, change and delete tenants, while the gateway runs."""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from gateway.cli.command_output import shown_limits
from gateway.cli.record_fields import NONE, add_limit_flags, limits_from, names, number
from gateway.cli.registry_access import actor, add_action
from gateway.config.settings import Config
from gateway.config.tenants import Tenant
from gateway.config.yaml import read_yaml
from gateway.tenancy.tenants.inputs import record_of
from gateway.tenancy.tenants.tenant_registry import Registry, TenantEntry
from observability.terminal import print_fields, print_json, print_table
from protos.errors import InvalidRequest


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `tenants` and its subcommands."""
    parser = subparsers.add_parser("tenants", help="create, list, change and delete tenants")
    add = partial(add_action, parser.add_subparsers(required=True, metavar="ACTION"), "tenants")

    create = add("create", _create, "add a tenant")
    create.add_argument("name", metavar="NAME", nargs="?", help="its name, unless --file has it")
    add("list", _list, "show all tenants, of the configuration file and of the store")
    show = add("show", _show, "show all settings of a tenant")
    update = add("update", _update, "change settings of a tenant; workers heed them within a second")
    delete = add("delete", _delete, "remove a tenant that has no active keys")

    for chosen in (show, update, delete):
        chosen.add_argument("name", metavar="NAME")
    for settings in (create, update):
        _add_settings(settings)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--file", type=Path, help="a whole record in YAML or JSON, model_limits included; flags change it further"
    )
    parser.add_argument("--tier", help="name of a tier; none: the last one")
    parser.add_argument("--models", help="models that it may use, separated by commas; * and ? are wildcards")
    parser.add_argument("--waiting-requests", metavar="N", help="requests that may wait in one worker")
    parser.add_argument("--waiting-seconds", metavar="N", help="longest wait for a turn")
    parser.add_argument("--on-store-failure", metavar="HOW", help="fail_closed or fail_open")
    parser.add_argument("--safety", metavar="NAME", help="one of safety.policies; none: the rules of safety itself")
    parser.add_argument(
        "--cache-group", metavar="NAME", help="tenants that share cached prefixes with it; none: nobody"
    )
    parser.add_argument(
        "--chooses-version",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="whether its requests may name a version",
    )
    add_limit_flags(parser)


def _from_file(path: Path) -> dict[str, Any]:
    plain = read_yaml(path)
    if not isinstance(plain, dict):
        raise InvalidRequest(f"{path}: expected a mapping with a tenant's fields")
    return plain


def _with_flags(tenant: Tenant, arguments: argparse.Namespace) -> Tenant:
    """Apply the flags to a tenant."""
    plain = msgspec.to_builtins(tenant)
    for field in ("tier", "safety", "cache_group"):
        if (name := getattr(arguments, field)) is not None:
            plain[field] = None if name == NONE else name
    if arguments.models is not None:
        plain["models"] = names(arguments.models)
    if arguments.on_store_failure is not None:
        plain["on_store_failure"] = arguments.on_store_failure
    if arguments.chooses_version is not None:
        plain["chooses_version"] = arguments.chooses_version
    for field, text in (("max_requests", arguments.waiting_requests), ("max_seconds", arguments.waiting_seconds)):
        if text is not None:
            plain["waiting"][field] = number(text)
    if (limits := limits_from(arguments, tenant.limits)) is not None:
        plain["limits"] = limits
    return record_of(plain, Tenant)


async def _create(registry: Registry, config: Config, arguments: argparse.Namespace) -> int:
    plain = _from_file(arguments.file) if arguments.file else {}
    if arguments.name is not None:
        plain["name"] = arguments.name
    tenant = _with_flags(record_of(plain, Tenant), arguments)
    _print_tenant(await registry.create_tenant(tenant, actor()), config, arguments)
    return 0


async def _update(registry: Registry, config: Config, arguments: argparse.Namespace) -> int:
    plain = _from_file(arguments.file) if arguments.file else None
    replacement = None if plain is None else record_of({"name": arguments.name, **plain}, Tenant)

    def change(tenant: Tenant) -> Tenant:
        return _with_flags(replacement or tenant, arguments)

    _print_tenant(await registry.edit_tenant(arguments.name, change, actor()), config, arguments)
    return 0


async def _list(registry: Registry, config: Config, arguments: argparse.Namespace) -> int:
    found = await registry.tenants()
    if arguments.json:
        print_json([_as_json(entry) for entry in found])
        return 0
    rows = [
        (
            entry.tenant.name,
            config.tier(entry.tenant.tier)[1].name,
            ", ".join(entry.tenant.models),
            shown_limits(entry.tenant.limits) or "-",
            entry.tenant.safety or "-",
            entry.tenant.cache_group or "-",
            _source(entry),
        )
        for entry in found
    ]
    print_table(("NAME", "TIER", "MODELS", "LIMITS", "SAFETY", "CACHE", "SOURCE"), rows)
    return 0


async def _show(registry: Registry, config: Config, arguments: argparse.Namespace) -> int:
    _print_tenant(await registry.tenant(arguments.name), config, arguments)
    return 0


async def _delete(registry: Registry, _: Config, arguments: argparse.Namespace) -> int:
    await registry.delete_tenant(arguments.name, actor())
    if arguments.json:
        print_json({"name": arguments.name, "deleted": True})
    else:
        print(f"deleted {arguments.name}")
    return 0


def _print_tenant(entry: TenantEntry, config: Config, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print_json(_as_json(entry))
        return
    tenant = entry.tenant
    waiting = f"at most {tenant.waiting.max_requests} in one worker, {tenant.waiting.max_seconds:g} s"
    print_fields(
        [
            ("name", tenant.name),
            ("tier", config.tier(tenant.tier)[1].name),
            ("models", ", ".join(tenant.models)),
            ("limits", shown_limits(tenant.limits)),
            *((f"  {name}", shown_limits(limits)) for name, limits in tenant.model_limits.items()),
            ("waiting", waiting),
            ("on store failure", tenant.on_store_failure),
            ("safety", tenant.safety or ""),
            ("cache group", tenant.cache_group or ""),
            ("versions", "its requests may name one" if tenant.chooses_version else ""),
            ("source", _source(entry)),
        ]
    )


def _source(entry: TenantEntry) -> str:
    return f"{entry.source}, hides the store's" if entry.shadowed else entry.source


def _as_json(entry: TenantEntry) -> dict[str, Any]:
    return {**msgspec.to_builtins(entry.tenant), "source": entry.source, "shadowed": entry.shadowed}
