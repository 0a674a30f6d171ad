"""The launcher of pods against real controllers and a real scheduler."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import yaml

from gateway.config.models.kubernetes import WorkloadKind
from gateway.config.models.settings import Pool
from gateway.kubernetes.api_server import ApiServer
from gateway.scaling.kubernetes.kubernetes_launcher import KubernetesLauncher
from gateway.scaling.kubernetes.workloads import PoolWorkload
from protos.launch_step import LaunchStep
from replicas.launchers.launcher import LaunchedReplica, LauncherError
from tests.kubernetes.api import Object, wait_until
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.manifests import deployment
from tests.kubernetes.nodes import Played, is_ready
from tests.kubernetes.processes import Running
from tests.launched import order

pytestmark = pytest.mark.kubernetes

_SECONDS = 90.0
_EVERY_SECONDS = 0.2


def _pause(*, gpus: int = 0) -> Object:
    made: Object = {"name": "main", "image": "pause"}
    if gpus:
        made["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    return made


def _workload(namespace: str, kind: WorkloadKind = "deployment") -> PoolWorkload:
    pool = msgspec.convert({"name": "p", "engine": "simulated", "replicas": "registered"}, Pool)
    return PoolWorkload("m", pool, kind, "w", False, namespace, 3.0)


@asynccontextmanager
async def _launcher(plane: ControlPlane, *workloads: PoolWorkload) -> AsyncIterator[KubernetesLauncher]:
    launcher = KubernetesLauncher(workloads, ApiServer(str(plane.kubeconfig)))
    try:
        yield launcher
    finally:
        await launcher.aclose()


async def _seen(
    launcher: KubernetesLauncher, wanted: Callable[[dict[str, LaunchedReplica]], bool]
) -> dict[str, LaunchedReplica]:
    """Look until that is seen."""
    found: dict[str, LaunchedReplica] = {}
    try:
        async with asyncio.timeout(_SECONDS):
            while True:
                found = {one.id: one for one in await launcher.observe()}
                if wanted(found):
                    return found
                await asyncio.sleep(_EVERY_SECONDS)
    except TimeoutError as error:
        error.add_note(f"{found}")
        raise


def _run(*ids: str) -> Callable[[dict[str, LaunchedReplica]], bool]:
    return lambda found: set(found) == set(ids) and all(one.step is LaunchStep.PROCESS for one in found.values())


def _pods(plane: ControlPlane, namespace: str) -> dict[str, Object]:
    """Those that have not been told to end, by uid."""
    found = plane.api.items(f"/api/v1/namespaces/{namespace}/pods")
    return {one["metadata"]["uid"]: one for one in found if "deletionTimestamp" not in one["metadata"]}


async def _ready(plane: ControlPlane, namespace: str, count: int) -> None:
    await asyncio.to_thread(wait_until, lambda: sum(map(is_ready, _pods(plane, namespace).values())) == count, _SECONDS)


async def test_orders_are_pods_and_the_drained_one_goes(plane: ControlPlane, beside: Played, namespace: str) -> None:
    plane.api.create(deployment(namespace, "w", 0, _pause(), terminationGracePeriodSeconds=2))
    workload = _workload(namespace)
    async with _launcher(plane, workload) as one, _launcher(plane, workload) as other:
        ids = ["a", "b", "c"]
        began = time.monotonic()
        await asyncio.gather(*(each.start([order(id_) for id_ in ids]) for each in (one, other, one)))
        found = await _seen(one, _run(*ids))
        print(f"three pods run {time.monotonic() - began:.2f} s after their orders")
        await _ready(plane, namespace, 3)
        await one.observe()
        assert _pods(plane, namespace).keys() == {each.registers_as for each in found.values()}
        await other.stop(["b"], 5.0)
        left = await _seen(one, _run("a", "c"))
        assert {each.registers_as for each in left.values()} == {found["a"].registers_as, found["c"].registers_as}
        assert _pods(plane, namespace).keys() == {each.registers_as for each in left.values()}
        # A start and a stop at once: the ReplicaSet would rather end what starts.
        await one.start([order("d")])
        await one.stop(["a"], 5.0)
        left = await _seen(other, _run("c", "d"))
        assert left["c"].registers_as == found["c"].registers_as
        assert _pods(plane, namespace).keys() == {each.registers_as for each in left.values()}
        await other.start([order("a"), order("b")])
        assert set(await _seen(other, _run("c", "d"))) == {"c", "d"}
        await one.stop(["c", "d"], 1.0)
        await _seen(one, lambda found: not found)


async def test_a_rollout_ends_replicas_and_brings_others(plane: ControlPlane, beside: Played, namespace: str) -> None:
    plane.api.create(deployment(namespace, "w", 2, _pause(), terminationGracePeriodSeconds=2))
    async with _launcher(plane, _workload(namespace)) as launcher:
        # What runs already is taken over.
        before = await _seen(launcher, lambda found: len(found) == 2 and _run(*found)(found))
        await _ready(plane, namespace, 2)
        await launcher.observe()
        template = {"metadata": {"annotations": {"rolled": "out"}}}
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/w"
        plane.api.patch(path, {"spec": {"template": template}})

        def replaced(found: dict[str, LaunchedReplica]) -> bool:
            new = found.keys() - before.keys()
            ended = all(found[id_].step in (LaunchStep.FAILED, LaunchStep.STOPPING) for id_ in before if id_ in found)
            return len(new) == 2 and ended and all(found[id_].step is LaunchStep.PROCESS for id_ in new)

        found = await _seen(launcher, replaced)
        await launcher.stop(list(before), 1.0)
        await _seen(launcher, _run(*(found.keys() - before.keys())))
        assert plane.api.get(path)["spec"]["replicas"] == 2


async def test_what_no_node_has_room_for_is_given_up(plane: ControlPlane, beside: Played, namespace: str) -> None:
    plane.api.create(deployment(namespace, "w", 0, _pause(gpus=64)))
    async with _launcher(plane, _workload(namespace)) as launcher:
        await launcher.start([order("a")])
        found = await _seen(launcher, lambda found: bool(found["a"].problem))
        assert found["a"].step is LaunchStep.ALLOCATE
        assert "Insufficient nvidia.com/gpu" in found["a"].problem
        found = await _seen(launcher, lambda found: found["a"].step is LaunchStep.FAILED)
        assert found["a"].is_unplaced
        await launcher.stop(["a"], 0.0)
        await _seen(launcher, lambda found: not found)


async def test_what_a_quota_forbids_is_given_up(plane: ControlPlane, beside: Played, namespace: str) -> None:
    meta = {"name": "few", "namespace": namespace}
    plane.api.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": {"pods": "1"}}})
    plane.api.create(deployment(namespace, "w", 0, _pause()))
    async with _launcher(plane, _workload(namespace)) as launcher:
        await launcher.start([order("a"), order("b")])
        found = await _seen(launcher, lambda found: any(one.step is LaunchStep.FAILED for one in found.values()))
        [refused] = [one for one in found.values() if one.step is LaunchStep.FAILED]
        assert "exceeded quota: few" in refused.problem
        assert refused.is_unplaced
        await launcher.stop([refused.id], 0.0)
        await _seen(launcher, _run(*({"a", "b"} - {refused.id})))


async def test_of_groups_the_last_go(plane: ControlPlane, beside: Played, groups: Running, namespace: str) -> None:
    template: Object = {"spec": {"containers": [_pause()], "terminationGracePeriodSeconds": 1}}
    plane.api.create(
        {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": "w", "namespace": namespace},
            "spec": {"replicas": 0, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}},
        }
    )
    async with _launcher(plane, _workload(namespace, "leaderworkerset")) as launcher:
        await launcher.start([order("a"), order("b"), order("c")])
        found = await _seen(launcher, _run("a", "b", "c"))
        assert sorted(one.place or 0 for one in found.values()) == [0, 1, 2]
        last = next(id_ for id_, one in found.items() if one.place == 2)
        await launcher.stop([last], 1.0)
        await _seen(launcher, _run(*({"a", "b", "c"} - {last})))
        await launcher.stop(["a", "b", "c"], 1.0)
        await _seen(launcher, lambda found: not found)


#: The role of docs/kubernetes.md, by resource.
_ROLE = {
    ("apps", "deployments"): ["get"],
    ("apps", "deployments/scale"): ["patch"],
    ("", "pods"): ["list", "patch", "delete"],
    ("", "configmaps"): ["get", "create", "update"],
}


def _account(plane: ControlPlane, namespace: str, role: dict[tuple[str, str], list[str]], folder: Path) -> str:
    """Make an account with a role, and give a kubeconfig of it."""
    meta = {"name": "small", "namespace": namespace}
    rules = [{"apiGroups": [group], "resources": [name], "verbs": verbs} for (group, name), verbs in role.items()]
    api = "rbac.authorization.k8s.io"
    plane.api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    plane.api.apply({"apiVersion": f"{api}/v1", "kind": "Role", "metadata": meta, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "small", "namespace": namespace}
    ref = {"apiGroup": api, "kind": "Role", "name": "small"}
    binding = {"apiVersion": f"{api}/v1", "kind": "RoleBinding", "metadata": meta, "roleRef": ref}
    plane.api.apply({**binding, "subjects": [subject]})
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/small/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = plane.api.call("POST", path, asked)["status"]["token"]
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    written = folder / "kubeconfig"
    written.write_text(yaml.safe_dump(config))
    return str(written)


async def test_the_documented_role_is_enough_and_what_it_lacks_is_named(
    plane: ControlPlane, beside: Played, namespace: str, tmp_path: Path
) -> None:
    plane.api.create(deployment(namespace, "w", 0, _pause(), terminationGracePeriodSeconds=1))
    server = ApiServer(_account(plane, namespace, _ROLE, tmp_path))
    launcher = KubernetesLauncher([_workload(namespace)], server)
    try:
        await launcher.start([order("a"), order("b")])
        await _seen(launcher, _run("a", "b"))
        await launcher.stop(["a"], 1.0)
        await _seen(launcher, _run("b"))
        for group, resource, verb in [
            ("apps", "deployments", "get"),
            ("apps", "deployments/scale", "patch"),
            ("", "pods", "list"),
            ("", "configmaps", "update"),
        ]:
            role = {
                key: [one for one in verbs if (*key, one) != (group, resource, verb)] for key, verbs in _ROLE.items()
            }
            _account(plane, namespace, {key: verbs for key, verbs in role.items() if verbs}, tmp_path)
            name, _, part = resource.partition("/")
            named = "/".join(filter(None, (f"{name}.{group}" if group else name, part)))
            words = f"the role lacks the verb {verb} on {named}: "
            async with asyncio.timeout(_SECONDS):
                # A changed role counts a moment later.
                while True:
                    id_ = f"c-{time.monotonic_ns()}"
                    try:
                        await launcher.start([order(id_)])
                    except LauncherError as error:
                        assert "\n" not in str(error)
                        if str(error).startswith(f"{id_}: {words}"):
                            break
    finally:
        await server.aclose()
