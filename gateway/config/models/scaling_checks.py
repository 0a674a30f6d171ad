"""Rules of pools that scale, and what is most likely not meant about them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.config.models.scaling import PoolScaling, Scaling
from gateway.config.models.settings import Model, Pool
from gateway.config.secret_variables import secret_variables
from gateway.config.settings import Config

#: Options of `penstock replica` that follow from the configuration.
_OWN_ARGUMENTS: Final = (
    "--engine",
    "--model",
    "--tokenizer",
    "--max-sequence-tokens",
    "--tp",
    "--ep",
    "--pp",
    "--role",
    "--drain-seconds",
    "--standby",
    "--standby-seconds",
    "--model-version",
    "--listen",
    "--port",
    "--register",
    "--register-password",
    "--pool",
    "--advertise",
    "--launch-id",
    "--group",
    "--group-gpus",
    "--gpu",
)


def scaling_problems(config: Config) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each violated rule of scaling and launchers."""
    for m, model in enumerate(config.models):
        where = f"models[{m}]"
        for p, pool in enumerate(model.pools):
            yield from _pool_problems(config, pool, f"{where}.pools[{p}]")
            yield from _argument_problems(pool, f"{where}.pools[{p}].replica_arguments")
        yield from _model_problems(model, where)
    yield from _gpu_problems(config)
    prices = config.launchers.spot_prices
    if prices is not None and sum(one is not None for one in (prices.file, prices.url, prices.command)) != 1:
        yield "launchers.spot_prices", "needs exactly one of file, url and command"
    yield from _secret_problems(config)


def scaling_warnings(config: Config) -> Iterator[str]:
    """Yield a sentence for what is valid and most likely not meant; it begins with the path."""
    for m, model in enumerate(config.models):
        scaled = [(p, pool) for p, pool in enumerate(model.pools) if pool.scaling is not None]
        priced = any(pool.scaling is not None and pool.scaling.price_per_hour is not None for _, pool in scaled)
        budget = model.scaling is not None and model.scaling.budget_per_hour is not None
        for p, pool in scaled:
            if pool.scaling is not None:
                yield from _price_warnings(pool.scaling, f"models[{m}].pools[{p}].scaling", priced, budget)
                yield from _start_warnings(pool.scaling, f"models[{m}].pools[{p}].scaling")
        yield from _zero_warnings(model, f"models[{m}].scaling")
    prices = config.launchers.spot_prices
    if prices is not None and prices.file is not None and not Path(prices.file).is_file():
        yield f"launchers.spot_prices.file: {prices.file} is not there: until it is, the configured prices hold"
    for where, _ in _local_pools(config):
        if not config.store.embedded:
            yield (
                f"{where}.launcher: local replicas run on the machine of whichever gateway is the controller, and only "
                "gateways of that machine reach them"
            )
    gpus = config.launchers.local.gpus
    if gpus is not None:
        most = sum(_gpus(pool, pool.scaling.max) for _, pool in _local_pools(config) if pool.scaling is not None)
        most -= sum(_taken_from_each_other(model) for model in config.models)
        if most > len(gpus):
            yield f"launchers.local.gpus: all pools at their max need {most} GPUs, and there are {len(gpus)}"


def _secret_problems(config: Config) -> Iterator[tuple[str, str]]:
    known = secret_variables(config)
    for section, hook in (("command", config.launchers.command), ("spot_prices", config.launchers.spot_prices)):
        for index, name in enumerate(hook.secrets if hook is not None else ()):
            if name not in known:
                hint = "no secret of this file is in this variable; the commands get all others anyway"
                yield f"launchers.{section}.secrets[{index}]", hint
    if (prices := config.launchers.spot_prices) is not None and prices.secrets and prices.command is None:
        yield "launchers.spot_prices.secrets", "only for a command"


def _price_warnings(scaling: PoolScaling, where: str, priced: bool, budget: bool) -> Iterator[str]:
    """`priced`: some pool of the model has a price; `budget`: the model has one."""
    if scaling.price_per_hour is None:
        hint = "it counts as the dearest shape" if priced else "no cost is known"
        bounded = ", in the budget as well" if priced else ", and the budget bounds nothing"
        yield f"{where}.price_per_hour: no price: {hint}{bounded if budget else ''}"
    spot, usual = scaling.spot_price_per_hour if scaling.spot_max else None, scaling.price_per_hour
    if spot is not None and usual is not None and spot >= usual:
        yield (
            f"{where}.spot_price_per_hour: {spot:g} is not below price_per_hour, {usual:g}, so preemptible capacity is "
            "used only where launchers.spot_prices tells a lower one"
        )


def _start_warnings(scaling: PoolScaling, where: str) -> Iterator[str]:
    if scaling.start_timeout_seconds <= scaling.startup_seconds:
        yield (
            f"{where}.start_timeout_seconds: a replica that is not ready after {scaling.start_timeout_seconds:g} s is "
            f"ended, and a start takes {scaling.startup_seconds:g} s (startup_seconds): none may ever be ready"
        )


def _zero_warnings(model: Model, where: str) -> Iterator[str]:
    bounds = [pool.scaling for pool in model.pools]
    settings = model.scaling or Scaling()
    waits = settings.wait_seconds
    if settings.mode == "advise" or not bounds or any(one is None or one.min for one in bounds):
        return
    takes = min(one.startup_seconds for one in bounds if one is not None)
    if waits < takes:
        yield (
            f"{where}.wait_seconds: requests to the model at zero wait {waits:g} s, and a start takes {takes:g} s "
            "(startup_seconds): the first ones get 503 with retry-after"
        )


def _pool_problems(config: Config, pool: Pool, where: str) -> Iterator[tuple[str, str]]:
    scaling = pool.scaling
    if pool.launcher is None:
        if scaling is not None:
            yield f"{where}.launcher", "required: something has to start the replicas of a pool that scales"
        return
    if not pool.is_registered and (pool.launcher != "kubernetes" or pool.service is None):
        yield f"{where}.replicas", "must be registered: replicas that a launcher starts register themselves"
    if pool.launcher == "command" and config.launchers.command is None:
        yield f"{where}.launcher", "there is no launchers.command, which says what to run"
    if scaling is None:
        yield f"{where}.scaling", "required: a pool with a launcher needs min and max"
        return
    inside = f"{where}.scaling"
    if scaling.min > scaling.max:
        yield f"{inside}.min", f"must not be over max ({scaling.max}), got {scaling.min}"
    if scaling.spot_max > scaling.max:
        yield f"{inside}.spot_max", f"must not be over max ({scaling.max}), got {scaling.spot_max}"
    if scaling.spot_max and scaling.spot_price_per_hour is None:
        yield f"{inside}.spot_price_per_hour", "required where spot_max is not 0"


def _argument_problems(pool: Pool, where: str) -> Iterator[tuple[str, str]]:
    if pool.replica_arguments and pool.launcher != "local":
        yield where, "only for replicas that launcher: local starts"
    for index, argument in enumerate(pool.replica_arguments):
        name = argument.partition("=")[0]
        # The command takes any unique beginning of a name.
        if name.startswith("--") and any(own.startswith(name) for own in _OWN_ARGUMENTS):
            yield f"{where}[{index}]", f"the gateway itself gives {name} to the replicas that it starts"


def _model_problems(model: Model, where: str) -> Iterator[tuple[str, str]]:
    if model.scaling is None:
        return
    if not any(pool.launcher for pool in model.pools):
        yield f"{where}.scaling", "no pool of the model has a launcher"
    budget = model.scaling.budget_per_hour
    least = sum(pool.scaling.min * (pool.scaling.price_per_hour or 0.0) for pool in model.pools if pool.scaling)
    if budget is not None and least > budget:
        yield (
            f"{where}.scaling.budget_per_hour",
            f"must be at least what the pools' min cost, {least:g}, got {budget:g}",
        )


def _gpu_problems(config: Config) -> Iterator[tuple[str, str]]:
    gpus = config.launchers.local.gpus
    if gpus is None:
        return
    if len(set(gpus)) < len(gpus):
        yield "launchers.local.gpus", "the same GPU is listed twice"
    pools = [(where, pool, pool.scaling) for where, pool in _local_pools(config) if pool.scaling is not None]
    kept = sum(scaling.max for _, pool, scaling in pools if pool.group_gpus is not None)
    least = kept
    for where, pool, scaling in pools:
        others = kept if pool.group_gpus is None else 0
        least += _gpus(pool, scaling.min) if pool.group_gpus is None else 0
        if (most := _gpus(pool, scaling.max)) > len(gpus) - others:
            of_groups = f", {others} of them kept for pools with group_gpus" if others else ""
            yield f"{where}.scaling.max", f"needs {most} GPUs, and launchers.local.gpus has {len(gpus)}{of_groups}"
    if least > len(gpus):
        beside = ", and those with group_gpus at their max," if kept else ""
        yield "launchers.local.gpus", f"all pools at their min{beside} need {least} GPUs, and there are {len(gpus)}"


def _local_pools(config: Config) -> Iterator[tuple[str, Pool]]:
    for m, model in enumerate(config.models):
        for p, pool in enumerate(model.pools):
            if pool.launcher == "local":
                yield f"models[{m}].pools[{p}]", pool


def _taken_from_each_other(model: Model) -> int:
    """The GPUs that only one of two pools of a relaunch has at a time."""
    relaunch = model.reshape.relaunch if model.reshape is not None else None
    if relaunch is None:
        return 0
    both = [pool for pool in model.pools if pool.name in (relaunch.narrow, relaunch.wide) and pool.launcher == "local"]
    return min(_gpus(pool, pool.scaling.max) for pool in both if pool.scaling is not None) if len(both) == 2 else 0


def _gpus(pool: Pool, replicas: int) -> int:
    return pool.shape.value.gpus * replicas
