"""Replica pools on this machine: addresses, and the command line that serves them."""

import sys

from gateway.config.models.settings import Pool
from gateway.config.settings import Config
from gateway.store.socket_path import socket_path


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
    model = config.models[model_index]
    pool = model.pools[pool_index]
    command = [sys.executable, "-P", "-m", "gateway.cli.main", "replica"]
    command += ["--engine", pool.engine, "--model", model.name]
    if model.tokenizer is not None:
        command += ["--tokenizer", model.tokenizer]
    command += ["--max-sequence-tokens", str(model.context)]
    command += ["--tp", str(pool.shape.tp), "--ep", str(pool.shape.ep), "--pp", str(pool.shape.pp)]
    command += ["--role", pool.role.value, "--drain-seconds", str(config.listen.drain_seconds)]
    if pool.version:
        command += ["--model-version", pool.version]
    command += _engine_options(pool)
    for address in replica_addresses(config, model_index, pool_index):
        command += ["--listen", address]
    return command


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
