"""Rules of `reshape` that span fields."""

from collections.abc import Iterator

from gateway.config.alerts import webhook_problems
from gateway.config.errors import echo
from gateway.config.models.engine_checks import SESSIONS
from gateway.config.models.reshape.settings import Relaunch
from gateway.config.models.settings import Model, Pool
from gateway.config.settings import Config
from protos.types import Shape


def reshape_problems(config: Config) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each violated rule of models whose groups change their shapes."""
    for m, model in enumerate(config.models):
        for p, pool in enumerate(model.pools):
            if pool.group_gpus is not None:
                yield from _group_problems(config, model, pool, pool.group_gpus, f"models[{m}].pools[{p}]")
        if model.reshape is None:
            continue
        where = f"models[{m}].reshape"
        if not any(pool.engine in SESSIONS for pool in model.pools):
            yield (
                where,
                f"no pool of the model has {' or '.join(SESSIONS)} replicas, and others say nothing of their GPUs",
            )
        yield from webhook_problems(model.reshape.webhook, f"{where}.webhook")
        if model.reshape.relaunch is not None:
            yield from _relaunch_problems(model, model.reshape.relaunch, f"{where}.relaunch")


def _group_problems(config: Config, model: Model, pool: Pool, gpus: int, where: str) -> Iterator[tuple[str, str]]:
    field = f"{where}.group_gpus"
    if gpus & (gpus - 1):
        yield field, f"a group has a power of two of GPUs, not {gpus}"
    if model.reshape is None:
        yield field, "the model has no `reshape`: nobody would change the shape of its groups"
    if pool.engine != "simulated":
        yield field, f"{pool.engine} cannot change its shape in place; reshape.relaunch starts other replicas instead"
    if pool.launcher != "local":
        yield field, "only for replicas that launcher: local starts; others are given --group by who starts them"
        return
    if pool.shape.value != Shape():
        yield f"{where}.shape", "replicas with group_gpus start with one GPU each"
    if config.launchers.local.gpus is None:
        yield "launchers.local.gpus", f"required: it says on which GPUs replicas of {pool.name} form groups"
    if pool.scaling is None:
        return
    if pool.scaling.max % gpus:
        yield f"{where}.scaling.max", f"must be a multiple of group_gpus ({gpus}), got {pool.scaling.max}"
    if pool.scaling.spot_max:
        yield f"{where}.scaling.spot_max", "what may be taken away at any time shares no GPUs with others"


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
