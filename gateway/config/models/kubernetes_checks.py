"""Rules of replicas that are pods."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Final, NamedTuple

from gateway.config.models.kubernetes import KubernetesReplicas
from gateway.config.models.settings import Model, Pool
from gateway.config.settings import Config

_MISSING: Final = "needs lightkube, which is not installed: pip install 'penstock[kubernetes]'"


class _Place(NamedTuple):
    """A pool and where it is in the file."""

    where: str
    model: Model
    pool: Pool


def kubernetes_problems(config: Config) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each violated rule of replicas that are pods."""
    places = [
        _Place(f"models[{m}].pools[{p}]", model, pool)
        for m, model in enumerate(config.models)
        for p, pool in enumerate(model.pools)
    ]
    for place in places:
        if isinstance(place.pool.replicas, KubernetesReplicas) and find_spec("lightkube") is None:
            yield f"{place.where}.replicas", _MISSING
        elif place.pool.launcher == "kubernetes" and find_spec("lightkube") is None:
            yield f"{place.where}.launcher", _MISSING
        yield from _found_problems(place)
        yield from _service_problems(place)
        yield from _workload_problems(place)
    yield from _shared_services(config, places)
    yield from _shared_inference_pools(config, places)
    yield from _shared_workloads(config, places)


def _found_problems(place: _Place) -> Iterator[tuple[str, str]]:
    pool, where = place.pool, f"{place.where}.replicas"
    if not isinstance(pool.replicas, KubernetesReplicas):
        return
    if (pool.service is None) == (pool.inference_pool is None):
        yield where, "needs exactly one of kubernetes and inference_pool"
    elif pool.inference_pool is not None and pool.engine != "openai":
        yield f"{where}.inference_pool", f"only of openai, which such pools are for, not of {pool.engine}"


def _service_problems(place: _Place) -> Iterator[tuple[str, str]]:
    service, where, pool = place.pool.service, f"{place.where}.replicas.kubernetes", place.pool
    if service is None:
        return
    if service.path is not None and pool.engine != "openai":
        yield f"{where}.path", f"only for openai; addresses of {pool.engine} have none"
    if service.labels and pool.version:
        yield f"{where}.labels", "the pods' labels give the version: not together with the pool's version"


def _workload_problems(place: _Place) -> Iterator[tuple[str, str]]:
    workload, where, pool = place.pool.workload, f"{place.where}.workload", place.pool
    if pool.launcher != "kubernetes":
        if workload is not None:
            yield where, "only with launcher: kubernetes"
        return
    if workload is None:
        yield where, "required: the Deployment or LeaderWorkerSet that launcher: kubernetes scales"
        return
    if (workload.deployment is None) == (workload.leaderworkerset is None):
        yield where, "needs exactly one of deployment and leaderworkerset"
    elif workload.spot == workload.name:
        yield f"{where}.spot", f"must be another {workload.kind} than {workload.name}"
    spot = pool.scaling.spot_max if pool.scaling is not None else 0
    if spot and workload.spot is None:
        yield f"{where}.spot", "required where scaling.spot_max is not 0"
    if not spot and workload.spot is not None:
        yield f"{where}.spot", "nothing would run there: scaling.spot_max is 0"


def _shared_services(config: Config, places: Sequence[_Place]) -> Iterator[tuple[str, str]]:
    """Yield the pools whose pods are another pool's."""
    seen: list[tuple[tuple[str, str], _Place]] = []
    for place in places:
        service = place.pool.service
        if service is None:
            continue
        name = (service.namespace or config.kubernetes.namespace or "", service.service)
        other = next((other for known, other in seen if known == name and _meet(place, other)), None)
        if other is not None:
            yield (
                f"{place.where}.replicas.kubernetes.service",
                f"the pods of {service.service} are already taken by {other.where}",
            )
        seen.append((name, place))


def _shared_inference_pools(config: Config, places: Sequence[_Place]) -> Iterator[tuple[str, str]]:
    """Yield the pools of a model whose pods are another pool's; a server with OpenAI's API may have many models."""
    seen: dict[tuple[str, str, str], str] = {}
    for place in places:
        named = place.pool.inference_pool
        if named is not None:
            key = (place.model.name, named.namespace or config.kubernetes.namespace or "", named.name)
            first = seen.setdefault(key, place.where)
            if first != place.where:
                where = f"{place.where}.replicas.inference_pool.name"
                yield where, f"the pods of {named.name} are already taken by {first}"


def _meet(one: _Place, other: _Place) -> bool:
    """Whether two pools of one service have servers in common that can be one pool's only."""
    ports = [place.pool.service.port for place in (one, other) if place.pool.service is not None]
    if None not in ports and len(set(ports)) > 1:
        return False
    # A server with OpenAI's API may have many models; any other replica has one.
    return one.model is other.model or not one.pool.engine == other.pool.engine == "openai"


def _shared_workloads(config: Config, places: Sequence[_Place]) -> Iterator[tuple[str, str]]:
    seen: dict[tuple[str, str, str], str] = {}
    for place in places:
        workload = place.pool.workload
        if workload is None:
            continue
        for field, name in ((workload.kind, workload.name), ("spot", workload.spot)):
            if not name:
                continue
            where = f"{place.where}.workload.{field}"
            key = (workload.namespace or config.kubernetes.namespace or "", workload.kind, name)
            first = seen.setdefault(key, where)
            if first != where:
                yield where, f"{name} is already taken by {first}"


def uses_kubernetes(config: Config) -> bool:
    """Whether an API server is asked for anything."""
    pools = [pool for model in config.models for pool in model.pools]
    return any(isinstance(pool.replicas, KubernetesReplicas) or pool.launcher == "kubernetes" for pool in pools)
