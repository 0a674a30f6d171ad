from pathlib import Path

import pytest

import gateway.server.gateway
from gateway.fleets.discovery.zones import ZONE_VARIABLE
from routing.policies.adapter_affinity import AdapterAffinity
from routing.policies.auto import Auto
from routing.policies.zone_affinity import ZoneAffinity
from tests.asgi import gateway_of
from tests.gateway.fleets.discovery.test_endpoints import endpoint
from tests.gateway.fleets.discovery.test_kubernetes_source import service, slice_of
from tests.harness import MODEL, engine_of
from tests.loops import until
from tests.played_cluster import played_cluster


@pytest.mark.parametrize("zone", ["eu-1a", ""])
async def test_zones_are_looked_at_only_where_there_is_one_to_prefer(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    monkeypatch.setenv(ZONE_VARIABLE, zone)
    # Nobody listens where the endpoints are: their replicas are not waited for.
    monkeypatch.setattr(gateway.server.gateway, "START_SECONDS", 0.01)
    found = {"name": "found", "tokenizer": "t", "context": 9, "adapters": [{"name": "a"}]}
    found["pools"] = [{"name": "p", "engine": "simulated", **service("s")}]
    async with played_cluster(tmp_path) as cluster:
        slices = slice_of("a", endpoint("127.0.0.1") | {"zone": "eu-1a"}, endpoint("127.0.0.2") | {"zone": "eu-1b"})
        cluster.put("endpointslices", slices)
        at = {"kubeconfig": str(cluster.kubeconfig)}
        async with gateway_of(store_url, engine_of(), more_models=[found], kubernetes=at) as client:
            listed, watched = client.gateway.models[MODEL], client.gateway.models["found"]
            # Where nothing is preferred nothing stands between a request and the policy.
            assert type(listed.policy) is Auto
            assert isinstance(watched.policy, AdapterAffinity)
            inner = watched.policy._policy
            assert type(inner) is (ZoneAffinity if zone else Auto)
            if isinstance(inner, ZoneAffinity):
                await until(lambda: len(watched.fleet) == 2)
                zones = inner._zones()
                assert (len(zones.near), len(zones.far)) == (1, 1)
