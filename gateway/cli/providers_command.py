"""`penstock providers`: manage the keys that the gateway sends to providers, stored encrypted."""

import argparse
import getpass
import sys
from collections.abc import Awaitable, Callable
from functools import partial

from gateway.cli.command_output import shown_time
from gateway.cli.registry_access import actor, add_store_action
from gateway.config.provider_secret import SecretError
from gateway.config.settings import Config
from gateway.store.store_client import Store
from gateway.tenancy.providers.encryption import read_cipher
from gateway.tenancy.providers.vault import ProviderVault
from observability.terminal import fail, print_fields, print_json, print_table

_COMMAND = "providers"
_LONGEST_INPUT = 16_384

_Run = Callable[[ProviderVault, argparse.Namespace], Awaitable[int]]


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `providers` and its subcommands."""
    parser = subparsers.add_parser(_COMMAND, help="set, list and delete keys of providers in the store")
    add = partial(_add_action, parser.add_subparsers(required=True, metavar="ACTION"))
    setting = add("set", _set, "store a key, read from standard input or asked for; workers use it within 2 seconds")
    add("list", _list, "show the names of all stored keys, never the keys")
    deleting = add("delete", _delete, "remove a key; workers stop using it within 2 seconds")
    add("reencrypt", _reencrypt, "encrypt with the first encryption key what an older one has encrypted")
    for chosen in (setting, deleting):
        chosen.add_argument("name", metavar="NAME", help="what api_key: {stored: NAME} in the configuration refers to")


def _add_action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, run: _Run, meaning: str
) -> argparse.ArgumentParser:
    async def act(store: Store, config: Config, arguments: argparse.Namespace) -> int:
        if run in (_set, _reencrypt) and config.store.encryption_key is not None:
            try:
                read_cipher(config.store.encryption_key)
            except SecretError as error:
                return fail(_COMMAND, f"store.encryption_key: {error}")
        return await run(ProviderVault(store, config), arguments)

    return add_store_action(actions, _COMMAND, name, act, meaning)


async def _set(vault: ProviderVault, arguments: argparse.Namespace) -> int:
    made = await vault.set_key(arguments.name, _read_key(arguments.name), actor())
    if arguments.json:
        print_json(made)
    else:
        print_fields([("name", made.name), ("fingerprint", made.fingerprint)])
    return 0


async def _list(vault: ProviderVault, arguments: argparse.Namespace) -> int:
    keys = await vault.keys()
    if arguments.json:
        print_json(keys)
    elif keys:
        rows = [(key.name, key.fingerprint, shown_time(key.created_at), key.created_by) for key in keys]
        print_table(("NAME", "FINGERPRINT", "CREATED", "BY"), rows)
    else:
        print("no keys yet; store one with: penstock providers set NAME", file=sys.stderr)
    return 0


async def _delete(vault: ProviderVault, arguments: argparse.Namespace) -> int:
    await vault.delete_key(arguments.name, actor())
    if arguments.json:
        print_json({"deleted": arguments.name})
    else:
        print(f"deleted {arguments.name}")
    return 0


async def _reencrypt(vault: ProviderVault, arguments: argparse.Namespace) -> int:
    names = await vault.reencrypt(actor())
    if arguments.json:
        print_json({"reencrypted": names})
    else:
        print(f"encrypted anew: {', '.join(names)}" if names else "all are encrypted with the first key already")
    return 0


def _read_key(name: str) -> str:
    """Read the key from a prompt without echo or from standard input; never an argument, which every user could see."""
    if sys.stdin.isatty():
        try:
            return getpass.getpass(f"Key for {name} (not shown): ")
        except EOFError:
            return ""
    return sys.stdin.read(_LONGEST_INPUT)
