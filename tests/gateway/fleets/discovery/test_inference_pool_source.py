"""The pods of an InferencePool as a picker's endpoints."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.config.settings import Config
from gateway.fleets.discovery.inference_pool_source import REVISION_LABEL, ROLE_LABEL
from gateway.fleets.discovery.replica_discovery import Discovery
from protos.types import Role
from tests.gateway.fleets.discovery.test_replica_discovery import FakeFleet
from tests.loops import until
from tests.played_cluster import Object, PlayedCluster, played_cluster


def pool_of(labels: dict[str, str], *ports: int) -> Object:
    spec = {"selector": {"matchLabels": labels}, "targetPorts": [{"number": port} for port in ports or (8000,)]}
    return {"metadata": {"name": "pool"}, "spec": spec}


def pod(name: str, ip: str, *, ready: bool = True, app: str = "a", **metadata: Any) -> Object:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {
        "metadata": {"name": name, "labels": {"app": app}, **metadata},
        "status": {"phase": "Running", "podIP": ip, "conditions": [condition]},
    }


@contextlib.asynccontextmanager
async def discovering(cluster: PlayedCluster, *, pairs: bool = False) -> AsyncIterator[tuple[Discovery, FakeFleet]]:
    made = {"name": "p", "engine": "openai", "replicas": {"inference_pool": {"name": "pool"}}}
    raw = {
        "models": [{"name": "m", "context": 9, "pools": [made]}],
        "kubernetes": {"kubeconfig": str(cluster.kubeconfig)},
    }
    fleet = FakeFleet()
    discovery = Discovery(msgspec.convert(raw, Config), {"m": fleet}, {}, pairs=pairs)
    await discovery.start()
    try:
        yield discovery, fleet
    finally:
        await discovery.aclose()


def addresses(fleet: FakeFleet) -> set[str]:
    return {spec.address for spec in fleet.specs.values()}


async def test_ready_pods_are_endpoints_and_those_that_terminate_leave(tmp_path: Path) -> None:
    async with played_cluster(tmp_path) as cluster:
        cluster.put("inferencepools", pool_of({"app": "a"}))
        cluster.put("pods", pod("one", "10.0.0.1"))
        cluster.put("pods", pod("two", "10.0.0.2", ready=False))
        cluster.put("pods", pod("other", "10.0.0.3", app="b"))
        async with discovering(cluster) as (discovery, fleet):
            assert addresses(fleet) == {"http://10.0.0.1:8000/v1"}
            assert discovery.problems() == []
            cluster.put("pods", pod("two", "10.0.0.2"))
            await until(lambda: "http://10.0.0.2:8000/v1" in addresses(fleet))
            cluster.put("pods", pod("one", "10.0.0.1", deletionTimestamp="2026-01-01T00:00:00Z"))
            await until(lambda: addresses(fleet) == {"http://10.0.0.2:8000/v1"})
            cluster.remove("pods", "two")
            await until(lambda: not fleet.specs)
            assert discovery.problems() == ["model m: pool p: inference pool pool: it has no pod that is ready"]


@pytest.mark.parametrize("pairs", [True, False])
async def test_labels_tell_what_computes_prompts_for_others(tmp_path: Path, pairs: bool) -> None:
    async with played_cluster(tmp_path) as cluster:
        cluster.put("inferencepools", pool_of({"app": "a"}))
        for number, labels in enumerate(
            [{ROLE_LABEL: "prefill", REVISION_LABEL: "r1"}, {ROLE_LABEL: "decode"}, {ROLE_LABEL: "prefill-decode"}, {}]
        ):
            cluster.put("pods", pod(f"pod-{number}", f"10.0.0.{number}", labels={"app": "a", **labels}))
        async with discovering(cluster, pairs=pairs) as (_, fleet):
            found = sorted((spec.address[7:15], spec.role, spec.revision) for spec in fleet.specs.values())
            if pairs:
                roles = [Role.PREFILL, Role.DECODE, Role.BOTH, Role.BOTH]
                assert found == [(f"10.0.0.{n}", role, "" if n else "r1") for n, role in enumerate(roles)]
            else:
                # Whoever makes no pairs asks those alone that answer by themselves.
                assert found == [(f"10.0.0.{n}", Role.BOTH, "") for n in (1, 2, 3)]


async def test_every_target_port_is_an_endpoint(tmp_path: Path) -> None:
    async with played_cluster(tmp_path) as cluster:
        cluster.put("inferencepools", pool_of({"app": "a"}, 8000, 8001))
        cluster.put("pods", pod("one", "fd00::1"))
        async with discovering(cluster) as (_, fleet):
            assert addresses(fleet) == {"http://[fd00::1]:8000/v1", "http://[fd00::1]:8001/v1"}


async def test_another_selector_has_other_pods(tmp_path: Path) -> None:
    async with played_cluster(tmp_path) as cluster:
        cluster.put("inferencepools", pool_of({"app": "a"}))
        cluster.put("pods", pod("one", "10.0.0.1"))
        cluster.put("pods", pod("two", "10.0.0.2", app="b"))
        async with discovering(cluster) as (_, fleet):
            assert addresses(fleet) == {"http://10.0.0.1:8000/v1"}
            cluster.put("inferencepools", pool_of({"app": "b"}))
            await until(lambda: addresses(fleet) == {"http://10.0.0.2:8000/v1"})
            # Nothing follows the pods of before.
            cluster.put("pods", pod("three", "10.0.0.3"))
            cluster.put("pods", pod("four", "10.0.0.4", app="b"))
            await until(lambda: addresses(fleet) == {"http://10.0.0.2:8000/v1", "http://10.0.0.4:8000/v1"})


async def test_a_pool_may_come_later_and_go(tmp_path: Path) -> None:
    async with played_cluster(tmp_path) as cluster:
        cluster.put("pods", pod("one", "10.0.0.1"))
        async with discovering(cluster) as (discovery, fleet):
            assert discovery.problems() == ["model m: pool p: inference pool pool: there is no such pool"]
            cluster.put("inferencepools", pool_of({"app": "a"}))
            await until(lambda: addresses(fleet) == {"http://10.0.0.1:8000/v1"})
            cluster.remove("inferencepools", "pool")
            await until(lambda: not fleet.specs)


async def test_a_selector_without_labels_is_not_every_pod(tmp_path: Path) -> None:
    async with played_cluster(tmp_path) as cluster:
        cluster.put("inferencepools", pool_of({}))
        cluster.put("pods", pod("one", "10.0.0.1"))
        async with discovering(cluster) as (discovery, fleet):
            assert not fleet.specs
            assert discovery.problems() == ["model m: pool p: inference pool pool: its selector has no labels"]


async def test_what_is_known_stays_while_the_server_is_away(tmp_path: Path) -> None:
    async with played_cluster(tmp_path) as cluster:
        cluster.put("inferencepools", pool_of({"app": "a"}))
        cluster.put("pods", pod("one", "10.0.0.1"))
        async with discovering(cluster) as (discovery, fleet):
            await until(lambda: {"watch pods", "watch inferencepools"} <= set(cluster.heard))
            cluster.is_away = True
            cluster.cut()
            await until(discovery.problems)
            assert addresses(fleet) == {"http://10.0.0.1:8000/v1"}
            cluster.is_away = False
            cluster.put("pods", pod("two", "10.0.0.2"))
            await until(lambda: len(fleet.specs) == 2)


async def test_a_right_that_is_missing_is_named(tmp_path: Path) -> None:
    async with played_cluster(tmp_path) as cluster:
        cluster.put("inferencepools", pool_of({"app": "a"}))
        cluster.lacks = {"list pods"}
        async with discovering(cluster) as (discovery, fleet):
            assert not fleet.specs
            (problem,) = discovery.problems()
            assert "the role lacks the verb list on pods" in problem
