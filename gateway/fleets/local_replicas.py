"""Replica pools on this machine: addresses, and the command line that serves them."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from gateway.config.models.addresses import launched_socket
from gateway.config.models.settings import Pool
from gateway.config.secret_variables import environment_without, secret_variables
from gateway.config.settings import Config
from gateway.store.socket_path import make_socket_folder, socket_path
from protos.types import Role, Shape

#: The variable in which launched replicas find the store's address.
STORE_VARIABLE: Final = "PENSTOCK_STORE"


def replica_addresses(config: Config, model_index: int, pool_index: int) -> list[str]:
    """The addresses of a pool's configured replicas; a local pool's are sockets in the state directory."""
    pool = config.models[model_index].pools[pool_index]
    if not pool.local_replicas:
        return [address for address, _ in pool.replica_keys]
    return [
        f"unix:{socket_path(config.state_dir, f'replica-{model_index}-{pool_index}-{number}.sock')}"
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
    # Every user of the machine can read a command line: the store's address is in the environment.
    command += ["--register", f"env:{STORE_VARIABLE}", "--pool", pool.name, "--launch-id", order.id]
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


def launch_environment(config: Config) -> Mapping[str, str]:
    """The environment of launched replicas: this process's, with the store's address in place of all secrets.

    Raises as `store_url`.
    """
    from gateway.store.configured_store import store_url  # here: commands that start nothing need no client of a store

    return {**environment_without(secret_variables(config)), STORE_VARIABLE: store_url(config)}


def _command(config: Config, model_index: int, pool_index: int, shape: Shape, role: Role, version: str) -> list[str]:
    """The command line without what says where it listens."""
    model = config.models[model_index]
    pool = model.pools[pool_index]
    command = [*command_base(pool.engine), "--model", model.name]
    if model.tokenizer is not None:
        command += ["--tokenizer", model.tokenizer]
    command += ["--max-sequence-tokens", str(model.context)]
    command += ["--tp", str(shape.tp), "--ep", str(shape.ep), "--pp", str(shape.pp)]
    command += ["--role", role.value, "--drain-seconds", str(config.listen.drain_seconds)]
    if version:
        command += ["--model-version", version]
    return command + _engine_options(pool)


def _engine_options(pool: Pool) -> list[str]:
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
