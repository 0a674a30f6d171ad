"""Let `penstock replica` announce itself in the store, so that gateways find it."""

import argparse
import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gateway.config.models.addresses import is_grpc_address
from gateway.config.store.address import address_problem
from gateway.fleets.discovery.registrations import HEARTBEAT_SECONDS, Registration, deregister, register
from protos.errors import StoreUnavailable
from protos.types import ReplicaInfo

log = logging.getLogger(__name__)

#: Seconds; a longer call would delay a heartbeat.
_TIMEOUT_SECONDS: Final = 0.5
_WILDCARDS: Final = ("0.0.0.0", "[::]", "*")


class RegistrationError(ValueError):
    """The options do not fit together; the text is one line that says how."""


def add_registration_options(parser: argparse.ArgumentParser) -> None:
    """Add the registration options to `penstock replica`."""
    group = parser.add_argument_group("registration, for pools with `replicas: registered`")
    group.add_argument(
        "--register",
        metavar="STORE",
        help="announce the replica in this store: redis://..., or env:NAME or file:PATH that holds the address, as "
        "every user of the machine can read a command line",
    )
    group.add_argument("--pool", metavar="NAME", help="the pool that it belongs to; needed with --register")
    group.add_argument(
        "--advertise",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="where gateways reach it, as grpc://HOST:PORT; given as often as --listen (default: what it listens on)",
    )


def check_registration(arguments: argparse.Namespace) -> None:
    """Check that the options fit together, before anything is started. Raises RegistrationError."""
    if arguments.register is None:
        if arguments.pool is not None or arguments.advertise:
            raise RegistrationError("--pool and --advertise go with --register")
        return
    if not arguments.pool:
        raise RegistrationError("--register needs --pool")
    if arguments.advertise and len(arguments.advertise) != len(arguments.listen):
        raise RegistrationError("--advertise is needed as often as --listen, or not at all")
    for address in arguments.advertise:
        if not is_grpc_address(address):
            raise RegistrationError(
                f"--advertise: expected grpc://HOST:PORT, grpcs://HOST:PORT or unix:/PATH: {address}"
            )
    if not arguments.advertise and any(_is_wildcard(address) for address in arguments.listen):
        raise RegistrationError("--listen names every interface, so --advertise must say where gateways reach it")
    _store_url(arguments.register)


class StoreRegistration:
    """Register replicas of `penstock replica` in the gateways' store."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        add_registration_options(parser)

    def check(self, arguments: argparse.Namespace) -> None:
        """Raises RegistrationError where the options do not fit together."""
        check_registration(arguments)

    async def run(
        self, arguments: argparse.Namespace, infos: Sequence[ReplicaInfo], addresses: Sequence[str], stop: asyncio.Event
    ) -> None:
        """Announce the replicas until `stop` is set; do nothing without `--register`."""
        if arguments.register is not None:
            await Registrar(arguments, infos, addresses).run(stop)


class Registrar:
    """Repeat the replicas' announcements as heartbeats. During an outage of the store, wait."""

    def __init__(self, arguments: argparse.Namespace, infos: Sequence[ReplicaInfo], addresses: Sequence[str]) -> None:
        """`addresses` are those that the replicas listen on, in the order of `infos`."""
        from gateway.store.store_client import (
            Store,  # imported here: its client takes 10 MB that other replicas do not need
        )

        self._store = Store(_store_url(arguments.register), timeout=_TIMEOUT_SECONDS)
        epoch = time.time_ns()
        advertised = arguments.advertise or [_advertised(address, _has_tls(arguments)) for address in addresses]
        self._replicas = [
            Registration(
                model=info.model,
                pool=arguments.pool,
                address=address,
                epoch=epoch,
                engine=info.engine,
                shape=info.shape,
                role=info.role,
                version=info.version,
                tokenizer_hash=info.tokenizer_hash,
                adapters=info.adapters,
            )
            for info, address in zip(infos, advertised, strict=True)
        ]
        self._state = ""

    async def run(self, stop: asyncio.Event) -> None:
        """Announce until `stop` is set, then withdraw; run it once."""
        try:
            while not stop.is_set():
                await self._announce()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), HEARTBEAT_SECONDS)
            await asyncio.gather(*(deregister(self._store, replica) for replica in self._replicas))
        except StoreUnavailable as error:
            # The record expires by itself.
            log.warning("cannot deregister: %s", error.__cause__ or error)
        finally:
            await self._store.aclose()

    async def _announce(self) -> None:
        try:
            done = await asyncio.gather(*(register(self._store, replica) for replica in self._replicas))
        except StoreUnavailable as error:
            self._note(f"cannot register: {error.__cause__ or error}", logging.WARNING)
            return
        taken_over = [
            replica.address for replica, registered in zip(self._replicas, done, strict=True) if not registered
        ]
        if taken_over:
            self._note(f"another replica that began later has registered as {', '.join(taken_over)}", logging.ERROR)
        else:
            self._note(f"registered as {', '.join(replica.address for replica in self._replicas)}", logging.INFO)

    def _note(self, state: str, level: int) -> None:
        if state != self._state:
            self._state = state
            log.log(level, "%s", state)


def _store_url(named: str) -> str:
    """Read the store's address from where the option says. Raises RegistrationError; no message holds the address."""
    kind, _, rest = named.partition(":")
    url = named
    if kind == "env":
        url = os.environ.get(rest, "")
        if not url:
            raise RegistrationError(f"--register: the environment has no {rest}")
    elif kind == "file":
        try:
            url = Path(rest).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise RegistrationError(f"--register: cannot read {rest}: {error}") from error
    if "://" not in url:
        raise RegistrationError(
            "--register: expected a store's address such as redis://HOST:PORT, env:NAME or file:PATH"
        )
    if problem := address_problem(url):
        raise RegistrationError(f"--register: {problem}")
    return url


def _advertised(address: str, tls: bool) -> str:
    if address.startswith("unix:"):
        return address
    return f"{'grpcs' if tls else 'grpc'}://{address}"


def _has_tls(arguments: argparse.Namespace) -> bool:
    return arguments.tls_certificate is not None


def _is_wildcard(address: str) -> bool:
    return address.rpartition(":")[0] in _WILDCARDS
