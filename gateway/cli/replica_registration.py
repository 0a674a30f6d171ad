"""Let `penstock replica` announce itself in the store, so that gateways find it."""

import argparse
import contextlib
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from gateway.config.models.addresses import is_grpc_address
from gateway.config.store.address import address_problem, parse_address, with_password
from gateway.fleets.discovery.registrations import Registration
from protos.launch_step import LaunchStep
from protos.types import ReplicaInfo, Role, Shape

if TYPE_CHECKING:
    from gateway.cli.announcer import Announcer

_LAUNCH_ID: Final = re.compile(r"[a-z0-9-]{1,63}")
_SOURCES: Final = ("env:", "file:")
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
    group.add_argument(
        "--register-password",
        metavar="SOURCE",
        help="where the store's password is, if its address has none: env:NAME or file:PATH. Files are read anew for "
        "each new connection",
    )
    group.add_argument("--pool", metavar="NAME", help="the pool that it belongs to; needed with --register")
    group.add_argument(
        "--advertise",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="where gateways reach it, as grpc://HOST:PORT; given as often as --listen (default: what it listens on)",
    )
    group.add_argument(
        "--launch-id", metavar="ID", help="the id under which a launcher has started it; it needs --register"
    )
    group.add_argument(
        "--orphan-seconds",
        type=float,
        default=60.0,
        metavar="N",
        help="with --launch-id: end when for so long neither the store has answered nor a gateway has been connected "
        "(default: 60)",
    )


def check_registration(arguments: argparse.Namespace) -> None:
    """Check that the options fit together, before anything is started. Raises RegistrationError."""
    if arguments.register is None:
        if arguments.pool is not None or arguments.advertise or arguments.launch_id is not None:
            raise RegistrationError("--pool, --advertise and --launch-id go with --register")
        if arguments.register_password is not None:
            raise RegistrationError("--register-password goes with --register")
        return
    if not arguments.pool:
        raise RegistrationError("--register needs --pool")
    if arguments.advertise and len(arguments.advertise) != len(arguments.listen):
        raise RegistrationError("--advertise is needed as often as --listen, or not at all")
    if arguments.launch_id is not None and not _LAUNCH_ID.fullmatch(arguments.launch_id):
        raise RegistrationError("--launch-id: expected 1 to 63 of a-z, 0-9 and -")
    if arguments.launch_id is not None and len(arguments.listen) > 1:
        raise RegistrationError("--launch-id names one replica, so give --listen once")
    if not arguments.orphan_seconds > 0:
        raise RegistrationError("--orphan-seconds: expected more than 0")
    for address in arguments.advertise:
        if not is_grpc_address(address):
            raise RegistrationError(
                f"--advertise: expected grpc://HOST:PORT, grpcs://HOST:PORT or unix:/PATH: {address}"
            )
    if not arguments.advertise and any(_is_wildcard(address) for address in arguments.listen):
        raise RegistrationError("--listen names every interface, so --advertise must say where gateways reach it")
    _store_url(arguments)


class StoreRegistration:
    """Register replicas of `penstock replica` in the gateways' store."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        add_registration_options(parser)

    def check(self, arguments: argparse.Namespace) -> None:
        """Raises RegistrationError where the options do not fit together."""
        check_registration(arguments)

    @contextlib.contextmanager
    def announced(self, arguments: argparse.Namespace) -> "Iterator[_Announcement | _Silence]":
        """Announce the replicas to the end of the block; nothing is announced without `--register`."""
        if arguments.register is None:
            yield _Silence()
            return
        # Here: its client takes 10 MB that other replicas do not need.
        from gateway.cli.announcer import Announcer
        from gateway.store.connections import followed_login

        orphan_seconds = None if arguments.launch_id is None else arguments.orphan_seconds
        url = _store_url(arguments)
        login = followed_login(url, lambda: _store_url(arguments)) if _may_change(arguments) else None
        announcer = Announcer(url, orphan_seconds, login=login)
        with announcer.running():
            yield _Announcement(arguments, announcer)


class _Silence:
    """The announcement of replicas that do not register."""

    def tell(self, step: LaunchStep) -> None: ...

    def describe(
        self, infos: Sequence[ReplicaInfo], addresses: Sequence[str], start_seconds: Mapping[LaunchStep, float]
    ) -> None: ...

    def attend(self, sessions: int) -> None: ...


class _Announcement:
    """The registrations of this process's replicas: from the options before an engine is loaded, then from its info."""

    def __init__(self, arguments: argparse.Namespace, announcer: "Announcer") -> None:
        self._arguments = arguments
        self._announcer = announcer
        self._step = LaunchStep.PROCESS
        started = Registration(
            model=arguments.model,
            pool=arguments.pool,
            address="",
            epoch=time.time_ns(),
            engine=arguments.engine,
            shape=Shape(tp=arguments.tp, ep=arguments.ep, pp=arguments.pp),
            role=Role(arguments.role),
            version=arguments.model_version,
            launch_id=arguments.launch_id or "",
            step=self._step,
        )
        # A port that the system chooses is known only once it is listened on.
        known = bool(arguments.advertise) or not any(address.endswith(":0") for address in arguments.listen)
        self._replicas = [
            msgspec.structs.replace(started, address=address)
            for address in (self._advertised(arguments.listen) if known else ())
        ]
        self._started = started
        announcer.say(self._replicas)

    def tell(self, step: LaunchStep) -> None:
        # What is told to end while it is being loaded may still get a step further.
        if self._step is not LaunchStep.STOPPING:
            self._step = step
            self._replicas = [msgspec.structs.replace(replica, step=step) for replica in self._replicas]
            self._announcer.say(self._replicas)

    def describe(
        self, infos: Sequence[ReplicaInfo], addresses: Sequence[str], start_seconds: Mapping[LaunchStep, float]
    ) -> None:
        took = {step.value: round(seconds, 3) for step, seconds in start_seconds.items()}
        self._replicas = [
            msgspec.structs.replace(
                self._started,
                model=info.model,
                address=address,
                engine=info.engine,
                shape=info.shape,
                role=info.role,
                version=info.version,
                tokenizer_hash=info.tokenizer_hash,
                adapters=info.adapters,
                start_seconds=took,
            )
            for info, address in zip(infos, self._advertised(addresses), strict=True)
        ]

    def attend(self, sessions: int) -> None:
        self._announcer.attend(sessions)

    def _advertised(self, addresses: Sequence[str]) -> Sequence[str]:
        tls = self._arguments.tls_certificate is not None
        return self._arguments.advertise or [_advertised(address, tls) for address in addresses]


def _store_url(arguments: argparse.Namespace) -> str:
    """Read the store's address from where the options say. Raises RegistrationError; no message holds the address."""
    url = _said("--register", arguments.register)
    if "://" not in url:
        raise RegistrationError(
            "--register: expected a store's address such as redis://HOST:PORT, env:NAME or file:PATH"
        )
    if problem := address_problem(url):
        raise RegistrationError(f"--register: {problem}")
    source = arguments.register_password
    if source is None:
        return url
    if parse_address(url).password is not None:
        raise RegistrationError("--register-password: the address has a password too; one of them is enough")
    password = _said("--register-password", source)
    # What is neither is a password that every user of the machine could read.
    if not source.startswith(_SOURCES) or not password or not password.isascii():
        raise RegistrationError("--register-password: expected env:NAME or file:PATH, with ASCII characters in it")
    return with_password(url, password)


def _said(option: str, named: str) -> str:
    """Read what an option names: a variable, a file, or itself. Raises RegistrationError."""
    kind, _, rest = named.partition(":")
    if kind == "env":
        if not (text := os.environ.get(rest, "")):
            raise RegistrationError(f"{option}: the environment has no {rest}")
        return text
    if kind == "file":
        try:
            return Path(rest).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise RegistrationError(f"{option}: cannot read {rest}: {error}") from error
    return named


def _may_change(arguments: argparse.Namespace) -> bool:
    return any(source and source.startswith("file:") for source in (arguments.register, arguments.register_password))


def _advertised(address: str, tls: bool) -> str:
    if address.startswith("unix:"):
        return address
    return f"{'grpcs' if tls else 'grpc'}://{address}"


def _is_wildcard(address: str) -> bool:
    return address.rpartition(":")[0] in _WILDCARDS
