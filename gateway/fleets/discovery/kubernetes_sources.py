"""Make the sources of the pools whose replicas are found in Kubernetes."""

from collections.abc import Iterator

from gateway.config.settings import Config
from gateway.fleets.discovery.inference_pool_source import InferencePoolSource
from gateway.fleets.discovery.kubernetes_source import KubernetesSource
from gateway.fleets.discovery.replica_source import ReplicaSource
from gateway.fleets.discovery.zones import own_zone
from gateway.kubernetes.api_server import ApiServer


def kubernetes_sources(
    config: Config, server: ApiServer, *, pairs: bool = False
) -> Iterator[tuple[tuple[str, str], ReplicaSource]]:
    """Yield each such pool's source, with its model and pool; `pairs`: pairs are made of an InferencePool's pods."""
    zone = own_zone()
    for model in config.models:
        for pool in model.pools:
            if pool.service is not None:
                yield (model.name, pool.name), KubernetesSource(pool, pool.service, server, zone=zone)
            elif pool.inference_pool is not None:
                yield (model.name, pool.name), InferencePoolSource(pool, pool.inference_pool, server, pairs=pairs)


def configured_server(config: Config) -> ApiServer:
    """The API server that the configuration names, which is not connected yet."""
    return ApiServer(config.kubernetes.kubeconfig, config.kubernetes.namespace)
