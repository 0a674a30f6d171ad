"""What the launcher of Kubernetes does beyond what all launchers do, against a small API server."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.kubernetes.api_server import ApiServer
from gateway.scaling.kubernetes.kubernetes_launcher import KubernetesLauncher
from protos.launch_step import LaunchStep
from replicas.launchers.launcher import LauncherError, PoolsUnknown
from tests.gateway.scaling.kubernetes.world import bound_pod, seen, world
from tests.launched import order
from tests.played_cluster import Object
from tests.played_workloads import (
    COST,
    GROUP,
    READY,
    UNPLACED,
    deployment,
    pods,
    set_status,
    workloads,
)


async def test_the_drained_pod_is_the_one_that_goes(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        launcher = here.launcher()
        await launcher.start([order("a"), order("b"), order("c")])
        found = await seen(launcher)
        for name in pods(here.cluster):
            set_status(here.cluster, name, READY)
        await seen(launcher)
        mine = bound_pod(here.cluster, found["a"])
        here.played.linger = True
        await launcher.stop(["a"], 30.0)
        assert mine not in pods(here.cluster)
        assert len(pods(here.cluster)) == 2
        # It was marked, and taken by the scale alone.
        assert COST in here.cluster.objects["pods", mine]["metadata"]["annotations"]
        assert "delete pods" not in here.cluster.heard
        assert (await seen(launcher))["a"].step is LaunchStep.STOPPING


async def test_where_the_workload_would_take_another_pod_the_drained_one_is_deleted(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        launcher = here.launcher()
        await launcher.start([order("a")])
        await seen(launcher)
        set_status(here.cluster, pods(here.cluster)[0], READY)
        await seen(launcher)
        # Another one is starting: made smaller, the workload would take that.
        await launcher.start([order("b")])
        starting = bound_pod(here.cluster, (await seen(launcher))["b"])
        await launcher.stop(["a"], 30.0)
        found = await seen(launcher)
        assert set(found) == {"b"}
        assert bound_pod(here.cluster, found["b"]) == starting
        assert pods(here.cluster) == [starting]


async def test_what_was_running_before_is_taken_over_once(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        here.cluster.put("deployments", deployment("w", 2))
        one, other = here.launcher(), here.launcher()
        found = await seen(one)
        assert len(found) == 2
        assert all(id_ == replica.registers_as for id_, replica in found.items())
        assert (await seen(other)).keys() == found.keys()
        await other.start([order("a")])
        assert (await seen(one)).keys() == {*found, "a"}
        await one.stop([next(iter(found))], 0.0)
        assert len(pods(here.cluster)) == 2


async def test_a_pod_that_others_have_ended_ends_its_replica_and_another_comes(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        launcher = here.launcher()
        await launcher.start([order("a")])
        await seen(launcher)
        [name] = pods(here.cluster)
        set_status(here.cluster, name, READY)
        await seen(launcher)
        here.played.linger = True
        pod = here.cluster.objects["pods", name]
        metadata = {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:01:00Z", "deletionGracePeriodSeconds": 60}
        here.cluster.put("pods", {**pod, "metadata": metadata})
        found = await seen(launcher)
        [replacement] = found.keys() - {"a"}
        assert found["a"].step is LaunchStep.STOPPING
        assert bound_pod(here.cluster, found[replacement]) == pods(here.cluster)[0]
        # It keeps the time that it was given.
        await launcher.stop(["a"], 0.0)
        here.now += 50.0
        assert (await seen(launcher))["a"].step is LaunchStep.STOPPING
        assert "delete pods" not in here.cluster.heard
        assert here.cluster.objects["deployments", "w"]["spec"]["replicas"] == 1
        here.cluster.remove("pods", name)
        assert set(await seen(launcher)) == {replacement}


async def test_a_pod_that_goes_before_it_was_ready_is_made_up_for(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        launcher = here.launcher()
        await launcher.start([order("a")])
        await seen(launcher)
        [name] = pods(here.cluster)
        here.cluster.remove("pods", name)
        found = await seen(launcher)
        assert set(found) == {"a"}
        assert found["a"].step is LaunchStep.PROCESS
        assert pods(here.cluster) != [name]


async def test_orders_that_are_deleted_before_they_are_written_hide_no_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path) as here:
        launcher = here.launcher()
        await launcher.start([order("a")])
        pod = bound_pod(here.cluster, (await seen(launcher))["a"])
        set_status(here.cluster, pod, READY)
        update = here.cluster._update

        def delete_first(plural: str, name: str, *asked: Any) -> Object:
            monkeypatch.undo()
            here.cluster.remove(plural, name)
            return update(plural, name, *asked)

        monkeypatch.setattr(here.cluster, "_update", delete_first)
        [found] = (await seen(launcher)).values()
        assert bound_pod(here.cluster, found) == pod


async def test_one_that_does_not_end_in_its_grace_is_killed(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        launcher = here.launcher()
        await launcher.start([order("a")])
        here.played.linger = True
        await seen(launcher)
        await launcher.stop(["a"], 10.0)
        here.now += 14.0
        await seen(launcher)
        assert "delete pods" not in here.cluster.heard
        here.now += 2.0
        await seen(launcher)
        assert here.cluster.heard.count("delete pods") == 1


@pytest.mark.parametrize(("status", "problem"), [(UNPLACED, "0/3 nodes are available"), (None, "exceeded quota")])
async def test_what_cannot_be_placed_is_said_and_then_given_up(
    tmp_path: Path, status: Object | None, problem: str
) -> None:
    async with world(tmp_path) as here:
        launcher = here.launcher()
        if status is None:
            here.played.is_slow = True
            one = here.cluster.objects["deployments", "w"]
            message = 'pods "w-1" is forbidden: exceeded quota: gpus'
            failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
            here.cluster.put("deployments", {**one, "status": {"conditions": [failure]}})
        else:
            here.played.next_status = [status]
        await launcher.start([order("a")])
        [found] = await launcher.observe()
        assert (found.step, found.is_unplaced) == (LaunchStep.ALLOCATE, False)
        assert problem in found.problem
        here.now += 61.0
        [found] = await launcher.observe()
        assert (found.step, found.is_unplaced) == (LaunchStep.FAILED, True)
        assert problem in found.problem
        await launcher.stop(["a"], 0.0)
        assert await launcher.observe() == []
        assert here.cluster.objects["deployments", "w"]["spec"]["replicas"] == 0


async def test_of_groups_only_the_last_go_and_others_are_begun_anew(tmp_path: Path) -> None:
    async with world(tmp_path, kind="leaderworkerset") as here:
        launcher = here.launcher()
        await launcher.start([order("a"), order("b"), order("c")])
        await seen(launcher)
        for name in pods(here.cluster):
            set_status(here.cluster, name, READY)
        found = await seen(launcher)
        assert sorted((one.place, id_) for id_, one in found.items()) == [(0, "a"), (1, "b"), (2, "c")]
        await launcher.stop(["c"], 0.0)
        assert pods(here.cluster) == ["w-0", "w-1"]
        # The first cannot go alone: its group is begun anew, and is a replica that nobody has ordered.
        await launcher.stop(["a"], 0.0)
        found = await seen(launcher)
        assert pods(here.cluster) == ["w-0", "w-1"]
        assert found["b"].place == 1
        [stranger] = found.keys() - {"b"}
        assert found[stranger].place == 0
        labels = here.cluster.objects["pods", "w-0"]["metadata"]["labels"]
        assert labels[f"{GROUP}/group-index"] == "0"


async def test_addresses_are_those_that_discovery_finds(tmp_path: Path) -> None:
    async with world(tmp_path, service="s") as here:
        launcher = here.launcher()
        await launcher.start([order("a")])
        [found] = await launcher.observe()
        assert (found.step, found.address) == (LaunchStep.PROCESS, "")
        [name] = pods(here.cluster)
        set_status(here.cluster, name, READY)
        [found] = await launcher.observe()
        assert found.step is LaunchStep.PROCESS
        target = {"kind": "Pod", "name": name, "uid": found.registers_as}
        here.cluster.put(
            "endpointslices",
            {
                "metadata": {"name": "x", "labels": {"kubernetes.io/service-name": "s"}},
                "addressType": "IPv4",
                "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {}, "targetRef": target}],
                "ports": [{"name": "grpc", "port": 9000}],
            },
        )
        [found] = await launcher.observe()
        assert (found.step, found.address) == (LaunchStep.READY, "grpc://10.0.0.1:9000")


async def test_nodes_say_what_is_preemptible_and_when_it_goes(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        launcher = here.launcher()
        labels = {"karpenter.sh/capacity-type": "spot"}
        node = {"metadata": {"name": "node", "labels": labels}, "spec": {}, "status": {}}
        here.cluster.put("nodes", node)
        await launcher.start([order("a", spot=True), order("b")])
        found = await seen(launcher)
        assert (found["a"].spot, found["a"].preempted_at, found["b"].spot) == (True, None, False)
        taint = {"key": "aws-node-termination-handler/spot-itn", "effect": "NoExecute"}
        here.cluster.put("nodes", {**node, "spec": {"taints": [taint]}})
        here.now += 4.0
        first = (await seen(launcher))["a"].preempted_at
        assert first == here.now + 120.0
        here.now += 10.0
        assert (await seen(launcher))["a"].preempted_at == first


async def test_what_is_wrong_is_one_line_that_names_it(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        launcher = here.launcher()
        here.cluster.lacks = {"patch deployments/scale"}
        with pytest.raises(
            LauncherError, match=r"^a: the role lacks the verb patch on deployments\.apps/scale: .*"
        ) as caught:
            await launcher.start([order("a")])
        assert "\n" not in str(caught.value)
        here.cluster.lacks = {"list pods"}
        with pytest.raises(LauncherError, match="the role lacks the verb list on pods"):
            await launcher.observe()
        here.cluster.lacks = set()
        with pytest.raises(LauncherError, match="no workload is configured for pool p of other"):
            await launcher.start([order("x").__class__(id="x", model="other", pool="p", shape=order("x").shape)])
        here.cluster.remove("deployments", "w")
        with pytest.raises(LauncherError, match=r"get deployments\.apps: deployments \"w\" not found"):
            await launcher.start([order("a")])
        # Without its workload a pool has nothing; the others go on.
        assert await launcher.observe() == []
        here.cluster.put("deployments", deployment("w"))
        here.cluster.put("configmaps", {"metadata": {"name": "penstock-deployment-w"}, "data": {"orders": "{"}})
        with pytest.raises(LauncherError, match="configmap penstock-deployment-w: orders cannot be read"):
            await launcher.observe()
        here.cluster.is_away = True
        with pytest.raises(LauncherError):
            await launcher.observe()


async def test_a_workload_that_cannot_be_looked_at_makes_its_pool_unknown_and_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(tmp_path) as here:
        here.cluster.put("deployments", deployment("other", 1))
        server = ApiServer(str(here.cluster.kubeconfig))
        mine = workloads()
        launcher = KubernetesLauncher([*mine, replace(mine[0], model="n", name="other")], server)
        await launcher.start([order("a")])
        here.cluster.put("configmaps", {"metadata": {"name": "penstock-deployment-w"}, "data": {"orders": "{"}})
        with pytest.raises(PoolsUnknown) as caught:
            await launcher.observe()
        assert caught.value.unknown.keys() == {("m", "p")}
        assert "configmap penstock-deployment-w: orders cannot be read" in caught.value.unknown["m", "p"]
        assert [one.model for one in caught.value.seen] == ["n"]
        # Where nothing can be looked at, nothing is said of any pool.
        here.cluster.lacks = {"list pods"}
        with pytest.raises(LauncherError, match="the role lacks the verb list on pods") as refused:
            await launcher.observe()
        assert not isinstance(refused.value, PoolsUnknown)
        # A workload that is gone has nothing to stop, and its starts fail for its own orders alone.
        here.cluster.lacks = set()
        here.cluster.remove("deployments", "w")
        running = [one.id for one in await launcher.observe()]
        assert [one.id for one in await launcher.observe()] == running
        await launcher.stop(running, 1.0)
        with pytest.raises(LauncherError) as failed:
            await launcher.start([order("b"), order("c"), msgspec.structs.replace(order("d"), model="n")])
        assert str(failed.value).startswith('b, c: get deployments.apps: deployments "w" not found')
        assert "d" not in str(failed.value).partition(":")[0]
        await server.aclose()
    said = [record.getMessage() for record in caplog.records if "has no replicas" in record.getMessage()]
    assert len(said) == 1


async def test_where_advice_is_told_nothing_is_written(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        here.cluster.put("deployments", deployment("w", 2))
        server = ApiServer(str(here.cluster.kubeconfig))
        owners = [replace(owner, acts=False) for owner in workloads()]
        here.cluster.lacks = {"get configmaps", "create configmaps", "patch deployments/scale"}
        assert len(await KubernetesLauncher(owners, server).observe()) == 2
        assert set(here.cluster.heard) == {"get deployments", "list pods"}
        await server.aclose()


async def test_a_workload_that_is_made_anew_has_no_orders(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        launcher = here.launcher()
        await launcher.start([order("a")])
        assert set(await seen(launcher)) == {"a"}
        here.cluster.remove("deployments", "w")
        for name in pods(here.cluster):
            here.cluster.remove("pods", name)
        here.cluster.put("deployments", deployment("w"))
        assert await seen(launcher) == {}
        assert pods(here.cluster) == []
        await launcher.start([order("b")])
        assert set(await seen(launcher)) == {"b"}


async def test_what_others_scale_is_set_back(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        launcher = here.launcher()
        await launcher.start([order("a")])
        here.played.is_slow = True
        here.cluster.put("deployments", deployment("w", 5))
        await launcher.observe()
        assert here.cluster.objects["deployments", "w"]["spec"]["replicas"] == 1


async def test_a_workload_without_a_selector_would_have_all_pods(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        here.cluster.put("deployments", {"metadata": {"name": "w"}, "spec": {"replicas": 0, "selector": {}}})
        with pytest.raises(LauncherError, match="deployment w does not say which pods are its own"):
            await here.launcher().observe()
