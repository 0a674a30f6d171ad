"""Conversion of the configuration to what the controller works with."""

from collections.abc import Sequence
from typing import Final

import msgspec

from gateway.config.models.scaling import LauncherName, Scaling
from gateway.config.models.settings import Model, Pool
from gateway.config.settings import Config
from gateway.scaling.status import Mode
from protos.types import Shape
from replicas.controller.scaling_settings import ModelScaling, PoolScaling, Slo
from routing.contracts.policy_settings import Targets

_DEFAULTS: Final = Scaling()


class ScaledPool(msgspec.Struct, frozen=True, kw_only=True):
    """A pool that scales. The indexes are its places in the configuration; `start_timeout` is in seconds.

    `registers`: its replicas register themselves.
    """

    model: str
    name: str
    launcher: LauncherName
    version: str
    registers: bool
    scaling: PoolScaling
    start_timeout: float
    model_index: int
    pool_index: int

    @property
    def place(self) -> tuple[str, str]:
        """Model and pool."""
        return self.model, self.name


class ScaledModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model with pools that scale. `fixed` are the names of the others, which `scaling` has as well.

    `reshapes`: somebody looks after its shapes, and says what is held of them.
    """

    name: str
    mode: Mode
    pools: Sequence[ScaledPool]
    fixed: Sequence[str]
    scaling: ModelScaling
    reshapes: bool


def scaled_models(config: Config) -> list[ScaledModel]:
    """Return the models that have a pool with a launcher, in the configuration's order."""
    found = []
    for m, model in enumerate(config.models):
        pools = [made for p, pool in enumerate(model.pools) if (made := _scaled_pool(model, pool, m, p)) is not None]
        if pools:
            found.append(_scaled_model(model, pools))
    return found


def slo_of(model: Model) -> Slo:
    """Return the targets that the model's requests are measured by."""
    targets, settings = model.routing.targets or Targets(), model.scaling or _DEFAULTS
    return Slo(
        ttft=targets.ttft_ms * 1e-3,
        ttft_per_token=targets.ttft_per_token_ms * 1e-3,
        tpot=targets.tpot,
        in_time=settings.in_time,
    )


def shape_name(shape: Shape) -> str:
    """Write a shape as `tp8` or `tp2-pp2`."""
    degrees = (("tp", shape.tp), ("ep", shape.ep), ("pp", shape.pp))
    return "-".join(f"{name}{degree}" for name, degree in degrees if name == "tp" or degree > 1)


def _scaled_model(model: Model, pools: Sequence[ScaledPool]) -> ScaledModel:
    settings = model.scaling or _DEFAULTS
    fixed = [_fixed_pool(pool) for pool in model.pools if pool.scaling is None]
    return ScaledModel(
        name=model.name,
        mode=settings.mode,
        pools=pools,
        fixed=[pool.name for pool in fixed],
        reshapes=model.reshape is not None,
        scaling=ModelScaling(
            model=model.name,
            pools=[*(pool.scaling for pool in pools), *fixed],
            slo=slo_of(model),
            budget=settings.budget_per_hour,
            down_seconds=settings.down_seconds,
            idle_seconds=settings.idle_seconds,
        ),
    )


def _fixed_pool(pool: Pool) -> PoolScaling:
    return PoolScaling(name=pool.name, shape=pool.shape.value, role=pool.role, min=0, max=0, fixed=True)


def _scaled_pool(model: Model, pool: Pool, model_index: int, pool_index: int) -> ScaledPool | None:
    if pool.launcher is None or pool.scaling is None:
        return None
    bounds = pool.scaling
    return ScaledPool(
        model=model.name,
        name=pool.name,
        launcher=pool.launcher,
        version=pool.version,
        registers=pool.is_registered,
        start_timeout=bounds.start_timeout_seconds,
        model_index=model_index,
        pool_index=pool_index,
        scaling=PoolScaling(
            name=pool.name,
            shape=pool.shape.value,
            min=bounds.min,
            max=bounds.max,
            role=pool.role,
            price=bounds.price_per_hour,
            spot_price=bounds.spot_price_per_hour,
            spot_max=bounds.spot_max,
            startup_seconds=bounds.startup_seconds,
        ),
    )
