from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.config.models.kubernetes_checks import uses_kubernetes
from gateway.config.settings import Config
from gateway.scaling.kubernetes import cluster_check
from gateway.scaling.kubernetes.cluster_check import cluster_trouble
from tests.gateway.fleets.discovery.test_endpoints import endpoint
from tests.gateway.fleets.discovery.test_kubernetes_source import slice_of
from tests.played_cluster import PlayedCluster, played_cluster
from tests.played_workloads import deployment


def config_of(cluster: PlayedCluster, **pool: Any) -> Config:
    pools = [
        {
            "name": "p",
            "engine": "simulated",
            "replicas": {"kubernetes": {"service": "s", **pool}},
            "launcher": "kubernetes",
            "workload": {"deployment": "w", "spot": "w-spot"},
            "scaling": {"min": 0, "max": 2, "spot_max": 1, "spot_price_per_hour": 1},
        }
    ]
    model = {"name": "m", "tokenizer": "t", "context": 9, "pools": pools}
    return msgspec.convert({"models": [model], "kubernetes": {"kubeconfig": str(cluster.kubeconfig)}}, Config)


async def test_what_the_cluster_does_not_have_is_named_by_its_path(tmp_path: Path) -> None:
    async with played_cluster(tmp_path) as cluster:
        assert await cluster_trouble(config_of(cluster)) == [
            "models[0].pools[0].replicas.kubernetes: service s: it has no EndpointSlices",
            'models[0].pools[0].workload.deployment: get deployments.apps: deployments "w" not found',
            'models[0].pools[0].workload.spot: get deployments.apps: deployments "w-spot" not found',
        ]
        cluster.put("endpointslices", slice_of("a", endpoint("10.0.0.1", "u")))
        cluster.put("deployments", deployment("w"))
        cluster.put("deployments", deployment("w-spot"))
        assert await cluster_trouble(config_of(cluster)) == []
        assert await cluster_trouble(config_of(cluster, port="http")) == [
            "models[0].pools[0].replicas.kubernetes: service s: it has no port http, only grpc (9000)"
        ]


async def test_what_a_role_lacks_is_named_by_its_path(tmp_path: Path) -> None:
    async with played_cluster(tmp_path) as cluster:
        cluster.lacks = {"list endpointslices", "get deployments"}
        lines = await cluster_trouble(config_of(cluster))
        assert len(lines) == 3
        assert lines[0].startswith(
            "models[0].pools[0].replicas.kubernetes: the role lacks the verb list on endpointslices"
        )
        assert lines[1].startswith("models[0].pools[0].workload.deployment: the role lacks the verb get on deployments")


async def test_without_an_api_server_it_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with played_cluster(tmp_path) as cluster:
        config = config_of(cluster)
        cluster.is_away = True
        [line] = await cluster_trouble(config)
        assert line.startswith("kubernetes: list endpointslices.discovery.k8s.io: ")
        monkeypatch.setattr(cluster_check, "_SECONDS", 0.0)
        assert await cluster_trouble(config) == ["kubernetes: the API server has not answered within 0 s"]
        monkeypatch.undo()
        cluster.kubeconfig.unlink()
        [line] = await cluster_trouble(config)
        assert line.startswith("kubernetes: no API server is configured: ")


async def test_an_inference_pool_that_is_not_there_is_named_by_its_path(tmp_path: Path) -> None:
    async with played_cluster(tmp_path) as cluster:
        pool = {"name": "p", "engine": "openai", "replicas": {"inference_pool": {"name": "qwen"}}}
        model = {"name": "m", "context": 9, "pools": [pool]}
        plain = {"models": [model], "kubernetes": {"kubeconfig": str(cluster.kubeconfig)}}
        config = msgspec.convert(plain, Config)
        assert uses_kubernetes(config)
        where = "models[0].pools[0].replicas.inference_pool"
        assert await cluster_trouble(config) == [f"{where}.name: there is no InferencePool qwen"]
        cluster.lacks = {"list inferencepools"}
        (line,) = await cluster_trouble(config)
        assert line.startswith(f"{where}: the role lacks the verb list on inferencepools")
