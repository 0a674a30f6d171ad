"""Replica pools on this machine: addresses, and the command line that serves them."""

import hashlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from gateway.config.models.addresses import launched_socket
from gateway.config.models.settings import Pool
from gateway.config.secret_variables import ChildEnvironment, LateSecrets, secret_variables
from gateway.config.secrets import SecretSource
from gateway.config.settings import Config
from gateway.store.socket_path import make_socket_folder, socket_path
from protos.types import Role, Shape

#: The variables in which launched replicas find the store's address, and its password where a file has the address.
STORE_VARIABLE: Final = "PENSTOCK_STORE"
PASSWORD_VARIABLE: Final = "PENSTOCK_STORE_PASSWORD"
_DIGEST_BYTES: Final = 6


def replica_addresses(config: Config, model_index: int, pool_index: int) -> list[str]:
    """The addresses of a pool's configured replicas; a local pool's are sockets in the state directory.

    Their names tell its model, name and settings: while one configuration takes the place of another, the replicas of
    a changed pool run beside those that it had, and a pool that only stands elsewhere in the file has the same ones.
    """
    model = config.models[model_index]
    pool = model.pools[pool_index]
    if not pool.local_replicas:
        return [address for address, _ in pool.replica_keys]
    options = _options(config, model_index, pool_index, pool.shape.value, pool.role, pool.version)
    told = "\0".join([model.name, pool.name, pool.engine, str(pool.local_replicas), *options])
    digest = hashlib.blake2s(told.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return [
        f"unix:{socket_path(config.state_dir, f'replica-{digest}-{number}.sock')}"
        for number in range(pool.local_replicas)
    ]


def replica_command(config: Config, model_index: int, pool_index: int) -> list[str]:
    """The `penstock replica` command line that hosts a local pool, all its replicas in one process."""
    pool = config.models[model_index].pools[pool_index]
    command = _command(config, model_index, pool_index, pool.shape.value, pool.role, pool.version)
    for address in replica_addresses(config, model_index, pool_index):
        command += ["--listen", address]
    return command


class Order(Protocol):
    """A replica that shall be started, as `replicas.launchers.launcher.ReplicaOrder` has it."""

    @property
    def id(self) -> str: ...

    @property
    def shape(self) -> Shape: ...

    @property
    def role(self) -> Role: ...

    @property
    def version(self) -> str: ...


def launch_command(config: Config, model_index: int, pool_index: int, order: Order, address: str) -> list[str]:
    """The `penstock replica` command line of one replica of a pool that scales, on this machine.

    It is run in the environment of `launch_environment`.
    """
    pool = config.models[model_index].pools[pool_index]
    command = _command(config, model_index, pool_index, order.shape, order.role, order.version or pool.version)
    command += pool.replica_arguments
    command += [*_register_options(config), "--pool", pool.name, "--launch-id", order.id]
    return [*command, "--listen", address]


def command_base(engine: str) -> list[str]:
    """The beginning of every `penstock replica` command line of an engine."""
    return [sys.executable, "-P", "-m", "gateway.cli.main", "replica", "--engine", engine]


def standby_socket(config: Config, name: str) -> Path:
    """The path of the socket of a process in wait; its folder is there then. Raises as `launch_address`."""
    path = socket_path(config.state_dir, f"standby-{name}.sock")
    make_socket_folder(path)
    return path


def launch_address(config: Config, launch_id: str) -> str:
    """The address of a launched replica of this machine; the folder of its socket is there then.

    Raises:
        SocketPathError: The folder exists and others could have made it.
        OSError: It cannot be created.
    """
    path = socket_path(config.state_dir, launched_socket(launch_id))
    make_socket_folder(path)
    return f"unix:{path}"


def launch_environment(config: Config, late: LateSecrets) -> Mapping[str, str]:
    """The environment of launched replicas: this process's, with the store's address in place of all secrets.

    What a file has is not in it: replicas read that by themselves, and anew when it has changed. Raises as `store_url`.
    """
    # Here: commands that start nothing need no client of a store.
    from gateway.store.configured_store import read_password, store_url, url_as_named

    store, password = config.store, config.store.password
    more = {}
    if _file_of(store.url) is None:
        with_it = password is None or password.file is None
        more = {STORE_VARIABLE: store_url(config) if with_it else url_as_named(store)}
    elif password is not None and password.file is None:
        more = {PASSWORD_VARIABLE: read_password(password)}
    return ChildEnvironment(secret_variables(config), late, more)


def _register_options(config: Config) -> Sequence[str]:
    """Where a launched replica finds the store: every user of the machine can read a command line."""
    file, password = _file_of(config.store.url), config.store.password
    options = ["--register", f"env:{STORE_VARIABLE}" if file is None else f"file:{file}"]
    if password is not None and password.file is not None:
        return [*options, "--register-password", f"file:{password.file}"]
    if password is not None and file is not None:
        return [*options, "--register-password", f"env:{PASSWORD_VARIABLE}"]
    return options


def _file_of(url: str | SecretSource) -> str | None:
    return url.file if isinstance(url, SecretSource) else None


def _command(config: Config, model_index: int, pool_index: int, shape: Shape, role: Role, version: str) -> list[str]:
    """The command line without what says where it listens."""
    pool = config.models[model_index].pools[pool_index]
    return [*command_base(pool.engine), *_options(config, model_index, pool_index, shape, role, version)]


def _options(config: Config, model_index: int, pool_index: int, shape: Shape, role: Role, version: str) -> list[str]:
    """What of the command line says what runs."""
    model = config.models[model_index]
    pool = model.pools[pool_index]
    command = ["--model", model.name]
    if model.tokenizer is not None:
        command += ["--tokenizer", model.tokenizer]
    command += ["--max-sequence-tokens", str(model.context)]
    command += ["--tp", str(shape.tp), "--ep", str(shape.ep), "--pp", str(shape.pp)]
    command += ["--role", role.value, "--drain-seconds", str(config.listen.drain_seconds)]
    if version:
        command += ["--model-version", version]
    return command + engine_options(pool)


def engine_options(pool: Pool) -> list[str]:
    """What the settings of a simulated pool are as options of `penstock replica`; none of other engines."""
    settings = pool.simulated
    if settings is None:
        return []
    options = ["--speed", str(settings.speed), "--scheduler", settings.scheduler]
    if settings.profile is not None:
        options += ["--profile", settings.profile]
    if settings.instant:
        options.append("--instant")
    if settings.pace_ms is not None:
        options += ["--pace-ms", str(settings.pace_ms)]
    if settings.output_tokens is not None:
        options += ["--output-tokens", str(settings.output_tokens)]
    if settings.start is not None:
        options += ["--simulate-start", ",".join(settings.start) or "none"]
    if settings.answers is not None:
        options += ["--answers", settings.answers]
    for adapter in settings.adapters:
        options += ["--adapter", adapter]
    if settings.max_adapters:
        options += ["--max-adapters", str(settings.max_adapters)]
    return options
