"""Make the launchers that the configuration's pools name."""

from collections.abc import Callable, Sequence
from functools import partial

from gateway.config.models.addresses import is_grpc_address
from gateway.config.models.reshape.gpu_shares import gpu_shares
from gateway.config.secret_variables import LateSecrets, hook_environment
from gateway.config.settings import Config
from gateway.fleets.local_replicas import (
    command_base,
    launch_address,
    launch_command,
    launch_environment,
    standby_socket,
)
from gateway.scaling.kubernetes.workloads import pool_workloads
from gateway.scaling.settings import scaled_models
from replicas.launchers.command_launcher import CommandLauncher
from replicas.launchers.gpu_share import GpuShare
from replicas.launchers.launcher import Launcher, LauncherError, ReplicaOrder
from replicas.launchers.local_launcher import LocalLauncher
from replicas.launchers.standby_slots import SlotKind, StandbySlots


def build_launchers(config: Config, late: LateSecrets) -> dict[str, Launcher]:
    """Return the launchers that pools use, by name; what they start has no secret that is named later.

    Raises:
        SecretError: The store's address cannot be read, which local replicas are given.
    """
    used = {pool.launcher for model in scaled_models(config) for pool in model.pools}
    found: dict[str, Launcher] = {}
    if "local" in used:
        found["local"] = LocalLauncher(
            # Not relative: replicas and other controllers may have another working directory.
            config.state_dir.absolute() / "launched",
            _command_of(config),
            partial(launch_address, config),
            launch_environment(config, late),
            config.launchers.local.gpus,
            shares=_shares(config),
            standby=_standby(config, late),
        )
    if "command" in used and (command := config.launchers.command) is not None:
        found["command"] = CommandLauncher(
            command.start,
            command.observe,
            command.stop,
            command.timeout_seconds,
            hook_environment(config, command.secrets, late),
            is_grpc_address,
        )
    if "kubernetes" in used:
        from gateway.fleets.discovery.kubernetes_sources import configured_server  # deferred: it needs an extra
        from gateway.scaling.kubernetes.kubernetes_launcher import KubernetesLauncher

        found["kubernetes"] = KubernetesLauncher(list(pool_workloads(config)), configured_server(config))
    return found


def _shares(config: Config) -> dict[tuple[str, str], GpuShare]:
    """Return the GPUs of pools whose replicas form host groups."""
    shares = gpu_shares(config)
    return {
        (model.name, pool.name): GpuShare(pool.name, shares[model.name, pool.name], pool.group_gpus)
        for model in config.models
        for pool in model.pools
        if pool.group_gpus is not None and (model.name, pool.name) in shares
    }


def _standby(config: Config, late: LateSecrets) -> StandbySlots | None:
    """Return the processes in wait, None where there are none."""
    count = config.launchers.local.standby
    if not count:
        return None
    acting = (model for model in scaled_models(config) if model.mode == "act")
    pools = (pool for model in acting for pool in model.pools if pool.launcher == "local")
    gives_gpus = config.launchers.local.gpus is not None
    kinds = sorted(
        {
            (config.models[pool.model_index].pools[pool.pool_index].engine, pool.scaling.shape.gpus * gives_gpus)
            for pool in pools
        }
    )
    return StandbySlots(
        config.state_dir.absolute() / "launched" / "standby",
        [SlotKind(command_base(engine), gpus) for engine, gpus in kinds],
        count,
        launch_environment(config, late),
        partial(standby_socket, config),
    )


def _command_of(config: Config) -> Callable[[ReplicaOrder, str], Sequence[str]]:
    places = {pool.place: pool for model in scaled_models(config) for pool in model.pools}

    def command_of(order: ReplicaOrder, address: str) -> Sequence[str]:
        pool = places.get((order.model, order.pool))
        if pool is None:
            raise LauncherError(f"the configuration has no pool {order.pool} of {order.model}")
        return launch_command(config, pool.model_index, pool.pool_index, order, address)

    return command_of
