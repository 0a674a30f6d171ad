"""What a configuration names and the cluster does not have, or does not allow, as seen from here."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from gateway.config.settings import Config
from gateway.fleets.discovery.endpoints import SERVICE_LABEL, ready_endpoints
from gateway.fleets.discovery.kubernetes_sources import configured_server
from gateway.kubernetes.api_server import ApiServer
from gateway.kubernetes.resources import ENDPOINT_SLICES, INFERENCE_POOLS
from gateway.scaling.kubernetes.workloads import pool_workloads
from protos.cluster_errors import ClusterObjectMissing, ClusterRefuses, ClusterUnavailable

#: Seconds that the looks may take together.
_SECONDS: Final = 8.0


async def cluster_trouble(config: Config) -> list[str]:
    """Return a line for each trouble, which begins with the path; one alone where nothing can be asked."""
    server = configured_server(config)
    try:
        async with asyncio.timeout(_SECONDS):
            return [line async for line in _troubles(config, server)]
    except TimeoutError:
        return [f"kubernetes: the API server has not answered within {_SECONDS:.0f} s"]
    except ClusterUnavailable as error:
        return [f"kubernetes: {error}"]
    finally:
        await server.aclose()


async def _troubles(config: Config, server: ApiServer) -> AsyncIterator[str]:
    """Yield them. Raises ClusterUnavailable where it is of no pool's."""
    for m, model in enumerate(config.models):
        for p, pool in enumerate(model.pools):
            where, service = f"models[{m}].pools[{p}]", pool.service
            if (named := pool.inference_pool) is not None:
                at = f"{where}.replicas.inference_pool"
                try:
                    # Listed, as discovery does: a role may allow no more.
                    pools, _ = await server.list(INFERENCE_POOLS, named.namespace)
                except (ClusterRefuses, ClusterObjectMissing) as error:
                    yield f"{at}: {error}"
                    continue
                if all(one.metadata.name != named.name for one in pools):
                    yield f"{at}.name: there is no InferencePool {named.name}"
            if service is None:
                continue
            try:
                labels = f"{SERVICE_LABEL}={service.service}"
                slices, _ = await server.list(ENDPOINT_SLICES, service.namespace, labels)
            except ClusterRefuses as error:
                yield f"{where}.replicas.kubernetes: {error}"
                continue
            _, problem = ready_endpoints(slices, service.port)
            if problem or not slices:
                yield f"{where}.replicas.kubernetes: service {service.service}: {problem or 'it has no EndpointSlices'}"
    paths = {
        (model.name, pool.name): f"models[{m}].pools[{p}]"
        for m, model in enumerate(config.models)
        for p, pool in enumerate(model.pools)
    }
    for owner in pool_workloads(config):
        try:
            await server.get(owner.resource, owner.name, owner.namespace)
        except (ClusterRefuses, ClusterObjectMissing) as error:
            field = "spot" if owner.spot else owner.kind
            yield f"{paths[owner.model, owner.pool.name]}.workload.{field}: {error}"
