import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.config.settings import Config
from gateway.fleets.discovery import kubernetes_source
from gateway.fleets.discovery.replica_discovery import Discovery
from gateway.fleets.discovery.zones import ZONE_VARIABLE
from protos.types import Role, Shape
from routing.transports.replica_tls import TlsFiles
from tests.gateway.fleets.discovery.test_endpoints import endpoint
from tests.gateway.fleets.discovery.test_replica_discovery import FakeFleet
from tests.loops import until
from tests.played_cluster import Object, PlayedCluster, played_cluster


def config_of(cluster: PlayedCluster, *pools: dict[str, Any], models: int = 1) -> Config:
    made = [{"name": f"p{number}", "engine": "simulated", **pool} for number, pool in enumerate(pools)]
    shares = [made] if models == 1 else [[one] for one in made]
    served = [
        {"name": f"m{number}", "tokenizer": "t", "context": 9, "pools": share} for number, share in enumerate(shares)
    ]
    return msgspec.convert({"models": served, "kubernetes": {"kubeconfig": str(cluster.kubeconfig)}}, Config)


def service(name: str, **options: Any) -> dict[str, Any]:
    return {"replicas": {"kubernetes": {"service": name, **options}}}


def slice_of(name: str, *endpoints: dict[str, Any], of: str = "s") -> Object:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": of}},
        "addressType": "IPv6" if any(":" in one["addresses"][0] for one in endpoints) else "IPv4",
        "endpoints": list(endpoints),
        "ports": [{"name": "grpc", "port": 9000, "protocol": "TCP"}],
    }


@contextlib.asynccontextmanager
async def discovering(
    cluster: PlayedCluster, *pools: dict[str, Any], models: int = 1
) -> AsyncIterator[tuple[Discovery, list[FakeFleet]]]:
    config = config_of(cluster, *pools, models=models)
    fleets = [FakeFleet() for _ in config.models]
    discovery = Discovery(config, {model.name: fleet for model, fleet in zip(config.models, fleets, strict=True)}, {})
    await discovery.start()
    try:
        yield discovery, fleets
    finally:
        await discovery.aclose()


async def test_ready_endpoints_are_replicas_and_those_that_terminate_leave(tmp_path: Path) -> None:
    async with played_cluster(tmp_path) as cluster:
        cluster.put("endpointslices", slice_of("a", endpoint("10.0.0.1", "u"), endpoint("10.0.0.2", "v", ready=False)))
        async with discovering(cluster, service("s")) as (discovery, [fleet]):
            assert fleet.specs.keys() == {"p0/10.0.0.1-9000"}
            spec = fleet.specs["p0/10.0.0.1-9000"]
            assert (spec.address, spec.host, spec.tls) == ("grpc://10.0.0.1:9000", "s.default.svc", None)
            assert discovery.problems() == []
            cluster.put("endpointslices", slice_of("b", endpoint("fd00::1", "w")))
            await until(lambda: "p0/fd00--1-9000" in fleet.specs)
            assert fleet.specs["p0/fd00--1-9000"].address == "grpc://[fd00::1]:9000"
            cluster.put("endpointslices", slice_of("a", endpoint("10.0.0.1", "u", ready=False, terminating=True)))
            await until(lambda: fleet.specs.keys() == {"p0/fd00--1-9000"})
            cluster.remove("endpointslices", "b")
            await until(lambda: not fleet.specs)
            assert discovery.problems() == ["model m0: pool p0: service s: it has no endpoint that is ready"]


@pytest.mark.parametrize("zone", ["eu-1a", ""])
async def test_replicas_of_the_own_zone_are_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    monkeypatch.setenv(ZONE_VARIABLE, zone)
    async with played_cluster(tmp_path) as cluster:
        here, there = {"zone": "eu-1a"}, {"zone": "eu-1b"}
        cluster.put("endpointslices", slice_of("a", endpoint("10.0.0.1", "u") | here, endpoint("10.0.0.2") | there))
        async with discovering(cluster, service("s")) as (_, [fleet]):
            one, other = sorted(fleet.specs)
            assert [fleet.specs[id_].near for id_ in (one, other)] == ([True, False] if zone else [None, None])
            if not zone:
                return
            # What is told later counts as well, and it is the same replica.
            before = fleet.specs[one]
            hints = {"hints": {"forZones": [{"name": "eu-1b"}]}}
            slices = slice_of("a", endpoint("10.0.0.1", "u") | here | hints, endpoint("10.0.0.2") | there | hints)
            cluster.put("endpointslices", slices)
            await until(lambda: fleet.specs[one].near is False)
            assert fleet.specs[one] == before


async def test_what_is_known_stays_while_the_server_is_away(tmp_path: Path) -> None:
    async with played_cluster(tmp_path) as cluster:
        cluster.put("endpointslices", slice_of("a", endpoint("10.0.0.1", "u")))
        async with discovering(cluster, service("s")) as (discovery, [fleet]):
            await until(lambda: "watch endpointslices" in cluster.heard)
            cluster.is_away = True
            cluster.cut()
            await until(lambda: discovery.problems() != [])
            assert fleet.specs.keys() == {"p0/10.0.0.1-9000"}
            cluster.put("endpointslices", slice_of("a", endpoint("10.0.0.1", "u"), endpoint("10.0.0.2", "v")))
            cluster.is_away = False
            await until(lambda: len(fleet.specs) == 2)
            assert discovery.problems() == []


async def test_a_worker_starts_without_the_server(tmp_path: Path) -> None:
    async with played_cluster(tmp_path) as cluster:
        cluster.is_away = True
        async with discovering(cluster, service("s")) as (discovery, [fleet]):
            assert fleet.specs == {}
            assert "list endpointslices.discovery.k8s.io: " in discovery.problems()[0]
            cluster.put("endpointslices", slice_of("a", endpoint("10.0.0.1", "u")))
            cluster.is_away = False
            await until(lambda: len(fleet.specs) == 1)


async def test_a_role_that_may_not_is_said_in_one_line(tmp_path: Path) -> None:
    async with played_cluster(tmp_path) as cluster:
        cluster.lacks = {"list endpointslices"}
        async with discovering(cluster, service("s")) as (discovery, _):
            [problem] = discovery.problems()
            assert problem.startswith(
                "model m0: pool p0: service s: the role lacks the verb list on endpointslices.discovery.k8s.io: "
            )
            assert "\n" not in problem


async def test_addresses_are_as_the_engine_has_them(tmp_path: Path) -> None:
    async with played_cluster(tmp_path) as cluster:
        cluster.put("endpointslices", slice_of("a", endpoint("10.0.0.1", "u")))
        cluster.put("endpointslices", slice_of("b", endpoint("10.0.0.2", "v"), of="t"))
        pools = [
            {"engine": "openai", **service("s")},
            {"engine": "openai", "tls": {"ca": "/ca.pem"}, **service("t", path="/openai/v1/", port=8443)},
        ]
        async with discovering(cluster, *pools) as (_, [fleet]):
            one, other = fleet.specs["p0/10.0.0.1-9000"], fleet.specs["p1/10.0.0.2-8443"]
            assert one.address == "http://10.0.0.1:9000/v1"
            assert other.address == "https://10.0.0.2:8443/openai/v1"
            assert isinstance(other.tls, TlsFiles)
            assert other.tls.server_name == "t.default.svc"


async def test_labels_say_what_a_replica_is_and_those_without_get_no_requests(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_source, "_UNKNOWN_SECONDS", 0.05)
    caplog.set_level(logging.WARNING)
    async with played_cluster(tmp_path) as cluster:
        endpoints = [endpoint(f"10.0.0.{number}", uid) for number, uid in enumerate("abcd")]
        cluster.put("endpointslices", slice_of("a", *endpoints))
        labels = {"a": {"penstock/shape": "tp4-ep2", "penstock/version": "v2"}, "b": {"penstock/shape": "x"}}
        labels["c"] = {"penstock/shape": "tp2", "penstock/role": "decode"}
        for uid, those in labels.items():
            cluster.put("pods", {"metadata": {"name": f"pod-{uid}", "labels": those}})
        cluster.put("pods", {"metadata": {"name": "pod-d"}})
        async with discovering(cluster, {"engine": "trtllm_grpc", **service("s", labels=True)}) as (discovery, [fleet]):
            [spec] = fleet.specs.values()
            assert (spec.shape, spec.role, spec.version) == (Shape(tp=4, ep=2), Role.BOTH, "v2")
            await until(lambda: "pod pod-d gets no requests: it has no label penstock/shape" in caplog.text)
            assert "pod pod-b gets no requests: its label penstock/shape is none" in caplog.text
            assert "pod pod-c gets no requests: its role decode is none that a replica of trtllm_grpc" in caplog.text
            assert "gets no requests" in discovery.problems()[0]
            cluster.put("pods", {"metadata": {"name": "pod-d", "labels": {"penstock/shape": "tp8"}}})
            await until(lambda: len(fleet.specs) == 2)


async def test_a_defect_while_it_looks_again_ends_no_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kubernetes_source, "_UNKNOWN_SECONDS", 0.05)

    def fails(_: object) -> None:
        raise RuntimeError("a defect")

    async with played_cluster(tmp_path) as cluster:
        cluster.put("endpointslices", slice_of("a", endpoint("10.0.0.1", "u")))
        async with discovering(cluster, service("s", labels=True)) as (discovery, _):
            monkeypatch.setattr(kubernetes_source.KubernetesSource, "_renew", fails)
            await until(lambda: "looking again at service s" in caplog.text)
            assert not any(task.done() for task in discovery._tasks)


async def test_two_pools_do_not_share_pods(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with played_cluster(tmp_path) as cluster:
        shared = endpoint("10.0.0.1", "u")
        cluster.put("endpointslices", slice_of("a", shared))
        cluster.put("endpointslices", slice_of("b", shared, endpoint("10.0.0.2", "v"), of="t"))
        async with discovering(cluster, service("s"), service("t"), models=2) as (discovery, [one, other]):
            assert one.specs.keys() == {"p0/10.0.0.1-9000"}
            assert other.specs.keys() == {"p1/10.0.0.2-9000"}
            assert discovery.problems() == [
                "model m1: pool p1: 1 of its endpoints are another pool's, as grpc://10.0.0.1:9000 is p0's"
            ]
            assert caplog.text.count("1 of its endpoints are another pool's") == 1
            # Once the first pool has it no more, it is the other one's.
            cluster.put("endpointslices", slice_of("a"))
            await until(lambda: len(other.specs) == 2)
            assert not one.specs


async def test_another_configuration_watches_on_with_the_same_server(tmp_path: Path) -> None:
    """A fleet that stays loses nothing although the server is away, and follows its endpoints when it is back."""
    async with played_cluster(tmp_path) as cluster:
        cluster.put("endpointslices", slice_of("a", endpoint("10.0.0.1", "u")))
        async with discovering(cluster, service("s")) as (last, [fleet]):
            before = dict(fleet.specs)
            await until(lambda: "watch endpointslices" in cluster.heard)
            cluster.is_away = True
            cluster.cut()
            config = config_of(cluster, service("s"), {"replicas": ["grpc://10.0.9.9:1"]}, models=2)
            other = FakeFleet()
            made = Discovery(config, {"m0": fleet, "m1": other}, {}, last=last, kept=["m0"])
            await made.look()
            last.stop()
            made.follow()
            assert fleet.specs == before
            await last.aclose()
            cluster.is_away = False
            cluster.put("endpointslices", slice_of("b", endpoint("10.0.0.2", "v")))
            await until(lambda: "p0/10.0.0.2-9000" in fleet.specs)
            # Back to the first one: the second's server is handed on.
            again = Discovery(config_of(cluster, service("s")), {"m0": fleet}, {}, last=made, kept=["m0"])
            await again.look()
            made.stop()
            again.follow()
            await made.aclose()
            cluster.remove("endpointslices", "a")
            await until(lambda: fleet.specs.keys() == {"p0/10.0.0.2-9000"})
            await again.aclose()
