"""The simulated fleet: pools of replicas of one model, read from YAML or from the gateway's configuration."""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml
from msgspec import Meta

from protos.types import Role, Shape
from replicas.engine_limits import CapacityPolicy, Limits
from replicas.kv_cache import TOKENS_PER_BLOCK
from replicas.profiles import GPUS, H100, PROFILES, ModelProfile
from replicas.timing import RooflineTimer, kv_blocks

_DEFAULT_PROFILE = "mixtral-8x7b"
_Degree = Annotated[int, Meta(ge=1, le=1024)]


class FleetError(ValueError):
    """A fleet cannot be simulated; one line names the file and the place in it."""


class PoolShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """GPUs of each replica: tensor, expert and pipeline parallel degrees."""

    tp: _Degree = 1
    ep: _Degree = 1
    pp: _Degree = 1


class Pool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Replicas of one shape. `kv_blocks` unset: as many as fit beside the weights."""

    name: Annotated[str, Meta(min_length=1)]
    shape: PoolShape = PoolShape()
    role: Role = Role.BOTH
    replicas: Annotated[int, Meta(ge=1, le=100_000)] = 1
    kv_blocks: Annotated[int, Meta(ge=1)] | None = None
    max_num_tokens: Annotated[int, Meta(ge=1)] = 8192
    max_batch_size: Annotated[int, Meta(ge=1)] = 2048
    scheduler: Literal["guaranteed_no_evict", "max_utilization"] = "guaranteed_no_evict"

    @property
    def value(self) -> Shape:
        """The shape as `Shape`."""
        return Shape(self.shape.tp, self.shape.ep, self.shape.pp)


class Fleet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All replicas of one model; `profile` is the published model whose sizes they have, `gpu` what they run on."""

    pools: Annotated[tuple[Pool, ...], Meta(min_length=1)]
    profile: str = _DEFAULT_PROFILE
    gpu: str = H100.name

    @property
    def sizes(self) -> ModelProfile:
        """The model's profile."""
        return PROFILES[self.profile]

    @property
    def gpus(self) -> int:
        """Number of GPUs of all replicas."""
        return sum(pool.value.gpus * pool.replicas for pool in self.pools)

    def timer(self, pool: Pool) -> RooflineTimer:
        """Return the step times of each engine in the pool. Raises ValueError."""
        return RooflineTimer(self.sizes, pool.value, gpu=GPUS[self.gpu])

    def limits(self, pool: Pool) -> Limits:
        """Return the limits of each engine in the pool. Raises ValueError."""
        return Limits(
            pool.kv_blocks or kv_blocks(self.sizes, pool.value, gpu=GPUS[self.gpu]),
            tokens_per_block=TOKENS_PER_BLOCK,
            max_batch_size=pool.max_batch_size,
            max_num_tokens=pool.max_num_tokens,
            policy=CapacityPolicy(pool.scheduler.upper()),
        )


def read_fleet(path: Path) -> Fleet:
    """Read and check a fleet file, or the first model of a gateway's configuration. Raises FleetError."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FleetError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise FleetError(f"{path}: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise FleetError(f"{path}: not a mapping")
    where = "models[0]." if "models" in document else ""
    try:
        plain = _of_configuration(document["models"]) if where else document
        fleet = msgspec.convert(plain, Fleet)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at ")
        at = place.strip("`").removeprefix("$").removeprefix(".")
        raise FleetError(f"{path}: {where}{at}: {problem[:1].lower()}{problem[1:]}".replace(": : ", ": ")) from error
    _check(fleet, f"{path}: {where}")
    return fleet


def _of_configuration(models: Any) -> dict[str, Any]:
    """Convert the first model of a configuration to the form of a fleet file, without what only concerns serving."""
    if not isinstance(models, list) or not models or not isinstance(models[0], dict):
        raise msgspec.ValidationError("expected a model - at `$`")
    model = models[0]
    pools = model.get("pools")
    profile = model.get("name") if model.get("name") in PROFILES else _DEFAULT_PROFILE
    known: list[Any] = []
    for pool in pools if isinstance(pools, list) else []:
        if not isinstance(pool, dict):
            known.append(pool)
            continue
        kept = {name: value for name, value in pool.items() if name in ("name", "shape", "role", "replicas")}
        if isinstance(kept.get("replicas"), list):
            kept["replicas"] = len(kept["replicas"])
        engine = pool.get("simulated")
        if isinstance(engine, dict):
            profile = engine.get("profile") or profile
            if "scheduler" in engine:
                kept["scheduler"] = engine["scheduler"]
        known.append(kept)
    return {"profile": profile, "pools": known if isinstance(pools, list) else pools}


def _check(fleet: Fleet, where: str) -> None:
    """Check what types cannot express. Raises FleetError."""
    if fleet.profile not in PROFILES:
        raise FleetError(f"{where}profile: no profile {fleet.profile}; there are {', '.join(sorted(PROFILES))}")
    if fleet.gpu not in GPUS:
        raise FleetError(f"{where}gpu: no GPU {fleet.gpu}; there are {', '.join(sorted(GPUS))}")
    seen: set[str] = set()
    roles = {pool.role for pool in fleet.pools}
    for number, pool in enumerate(fleet.pools):
        at = f"{where}pools[{number}]"
        if pool.name in seen:
            raise FleetError(f"{at}.name: {pool.name} is the name of an earlier pool, too")
        seen.add(pool.name)
        partner = {Role.PREFILL: Role.DECODE, Role.DECODE: Role.PREFILL}.get(pool.role)
        if partner is not None and partner not in roles:
            raise FleetError(f"{at}.role: a {pool.role.value} pool needs a {partner.value} pool as its partner")
        try:
            fleet.limits(pool)
            fleet.timer(pool)
        except ValueError as error:
            raise FleetError(f"{at}: {error}") from error
