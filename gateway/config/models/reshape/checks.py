"""Rules of `reshape` that span fields."""

from collections.abc import Iterator

from gateway.config.errors import echo
from gateway.config.models.engine_checks import SESSIONS
from gateway.config.models.reshape.settings import Relaunch
from gateway.config.models.settings import Model, Pool
from gateway.config.settings import Config


def reshape_problems(config: Config) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each violated rule of models whose groups change their shapes."""
    for m, model in enumerate(config.models):
        if model.reshape is None:
            continue
        where = f"models[{m}].reshape"
        if not any(pool.engine in SESSIONS for pool in model.pools):
            yield (
                where,
                f"no pool of the model has {' or '.join(SESSIONS)} replicas, and others say nothing of their GPUs",
            )
        if model.reshape.relaunch is not None:
            yield from _relaunch_problems(model, model.reshape.relaunch, f"{where}.relaunch")


def _relaunch_problems(model: Model, relaunch: Relaunch, where: str) -> Iterator[tuple[str, str]]:
    pools: list[Pool] = []
    for field, name in (("narrow", relaunch.narrow), ("wide", relaunch.wide)):
        pool = next((pool for pool in model.pools if pool.name == name), None)
        if pool is None:
            listed = ", ".join(pool.name for pool in model.pools)
            yield f"{where}.{field}", f"the model has no pool {echo(name)}; there are {listed}"
        elif pool.launcher is None:
            yield f"{where}.{field}", f"the pool {name} has no launcher, which would start and stop its replicas"
        elif pool.scaling is not None and pool.scaling.spot_max:
            yield f"{where}.{field}", f"replicas of {name} may be preemptible: what may go at any time gives no GPUs"
        else:
            pools.append(pool)
    held, holds = relaunch.narrow_kv_tokens, relaunch.wide_kv_tokens
    if held is not None and holds is not None and holds <= held:
        yield f"{where}.wide_kv_tokens", f"must be over narrow_kv_tokens ({held})"
    if len(pools) < 2:
        return
    narrow, wide = pools
    least, most = narrow.shape.value.gpus, wide.shape.value.gpus
    if most <= least or most % least:
        yield (
            f"{where}.wide",
            f"its replicas must have a multiple of the GPUs of those of {narrow.name} ({least}), not {most}",
        )
    elif narrow.scaling is not None and narrow.scaling.max * least < most:
        yield (
            f"{where}.narrow",
            f"all {narrow.scaling.max} replicas of {narrow.name} have fewer GPUs than one of {wide.name}",
        )
    if narrow.launcher != wide.launcher:
        yield (
            f"{where}.wide",
            f"the pools have the launchers {narrow.launcher} and {wide.launcher}, which share no GPUs",
        )
    if narrow.version != wide.version:
        yield f"{where}.wide", "the pools name different versions"
