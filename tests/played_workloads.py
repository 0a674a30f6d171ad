"""What Kubernetes' controllers, scheduler and kubelets make of workloads, played on a small API server."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from gateway.config.models.settings import Pool
from gateway.kubernetes.api_server import ApiServer
from gateway.scaling.kubernetes.kubernetes_launcher import KubernetesLauncher
from gateway.scaling.kubernetes.workloads import PoolWorkload
from replicas.launchers.launcher import LaunchedReplica, ReplicaOrder
from tests.played_cluster import Object, PlayedCluster, played_cluster

COST = "controller.kubernetes.io/pod-deletion-cost"
GROUP = "leaderworkerset.sigs.k8s.io"
RUNNING: Object = {"phase": "Running", "containerStatuses": [{"name": "r", "state": {"running": {}}}]}
READY: Object = {**RUNNING, "conditions": [{"type": "Ready", "status": "True"}]}
FAILED: Object = {
    "phase": "Running",
    "containerStatuses": [
        {
            "name": "r",
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
            "lastState": {"terminated": {"exitCode": 1, "message": "no such checkpoint"}},
        }
    ],
}
UNPLACED: Object = {
    "phase": "Pending",
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ],
}


@dataclass
class PlayedWorkloads:
    """Keeps as many pods as Deployments and LeaderWorkerSets say; which go first is as it really is."""

    #: How the next pods are, one each; those after them run.
    next_status: list[Object] = field(default_factory=list)
    #: Whether pods that were told to end stay.
    linger: bool = False
    #: Whether pods are made and ended at all.
    is_slow: bool = False
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _busy: bool = False

    def __call__(self, cluster: PlayedCluster, _: str) -> None:
        if self._busy or self.is_slow:
            return
        self._busy = True
        try:
            self._end_pods(cluster)
            for name, one in list(cluster.named("deployments").items()):
                self._deployment(cluster, name, one["spec"]["replicas"])
            for name, one in list(cluster.named("leaderworkersets").items()):
                self._groups(cluster, name, one["spec"]["replicas"])
            self._end_pods(cluster)
        finally:
            self._busy = False

    def _end_pods(self, cluster: PlayedCluster) -> None:
        for name, pod in list(cluster.named("pods").items()):
            if "deletionTimestamp" in pod["metadata"] and not self.linger:
                cluster.remove("pods", name)

    def _deployment(self, cluster: PlayedCluster, name: str, replicas: int) -> None:
        pods = _active(cluster, "app", name)
        for pod in sorted(pods, key=_rank)[: max(len(pods) - replicas, 0)]:
            _end(cluster, pod)
        for _ in range(replicas - len(pods)):
            self._make(cluster, f"{name}-{next(self._numbers):03d}", {"app": name})

    def _groups(self, cluster: PlayedCluster, name: str, replicas: int) -> None:
        pods = {
            pod["metadata"]["labels"][f"{GROUP}/group-index"]: pod for pod in _active(cluster, f"{GROUP}/name", name)
        }
        for index, pod in pods.items():
            if int(index) >= replicas:
                _end(cluster, pod)
        for index in map(str, range(replicas)):
            # As of a StatefulSet, the one before it has to be gone.
            if index not in pods and ("pods", f"{name}-{index}") not in cluster.objects:
                labels = {f"{GROUP}/name": name, f"{GROUP}/worker-index": "0", f"{GROUP}/group-index": index}
                self._make(cluster, f"{name}-{index}", labels)

    def _make(self, cluster: PlayedCluster, name: str, labels: dict[str, str]) -> None:
        status = self.next_status.pop(0) if self.next_status else RUNNING
        spec = {} if status is UNPLACED else {"nodeName": "node"}
        cluster.put("pods", {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status})


def set_status(cluster: PlayedCluster, name: str, status: Object) -> None:
    """Let a pod be so."""
    pod = cluster.objects["pods", name]
    cluster.put("pods", {**pod, "spec": {"nodeName": "node"}, "status": status})


def pods(cluster: PlayedCluster) -> list[str]:
    """The names of the pods that have not been told to end."""
    return sorted(name for name, one in cluster.named("pods").items() if "deletionTimestamp" not in one["metadata"])


def _active(cluster: PlayedCluster, label: str, value: str) -> list[Object]:
    return [
        pod
        for pod in cluster.named("pods").values()
        if pod["metadata"]["labels"].get(label) == value and "deletionTimestamp" not in pod["metadata"]
    ]


def _rank(pod: Object) -> Any:
    """Order as a ReplicaSet's controller does (pkg/controller, ActivePodsWithRanks), the first to go first."""
    status = pod["status"]
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", []))
    cost = int(pod["metadata"].get("annotations", {}).get(COST, "0"))
    phase = {"Pending": 0, "Unknown": 1}.get(status["phase"], 2)
    newest_first = [-ord(each) for each in pod["metadata"]["name"]]
    return "nodeName" in pod["spec"], phase, ready, cost, newest_first


def _end(cluster: PlayedCluster, pod: Object) -> None:
    cluster.put("pods", {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:01:00Z"}})


def deployment(name: str, replicas: int = 0) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}},
        "status": {},
    }


def workloads(kind: str = "deployment", service: str = "", unplaced_seconds: float = 60.0) -> list[PoolWorkload]:
    """The two workloads of the pool `p` of the model `m`."""
    replicas = {"kubernetes": {"service": service}} if service else "registered"
    pool = msgspec.convert({"name": "p", "engine": "simulated", "replicas": replicas}, Pool)
    return [
        PoolWorkload("m", pool, kind, name, spot, None, unplaced_seconds)  # type: ignore[arg-type]
        for name, spot in (("w", False), ("w-spot", True))
    ]


class ClosingLauncher:
    """A launcher whose connections end with each call, so that it needs no end of its own."""

    def __init__(self, cluster: PlayedCluster, played: PlayedWorkloads) -> None:
        self._server = ApiServer(str(cluster.kubeconfig))
        self._launcher = KubernetesLauncher(workloads(), self._server)
        self._played = played

    async def start(self, orders: Sequence[ReplicaOrder]) -> None:
        self._played.next_status = [FAILED for order in orders if order.version == "fail"]
        try:
            await self._launcher.start(orders)
        finally:
            await self._server.aclose()

    async def observe(self) -> Sequence[LaunchedReplica]:
        try:
            return await self._launcher.observe()
        finally:
            await self._server.aclose()

    async def stop(self, ids: Sequence[str], grace_seconds: float) -> None:
        try:
            await self._launcher.stop(ids, grace_seconds)
        finally:
            await self._server.aclose()


@contextlib.contextmanager
def cluster_beside(folder: Path) -> Iterator[tuple[PlayedCluster, PlayedWorkloads]]:
    """A cluster with the workloads, in a thread of its own."""
    begun, ended = threading.Event(), asyncio.Event()
    found: list[tuple[PlayedCluster, PlayedWorkloads, asyncio.AbstractEventLoop]] = []

    async def serve() -> None:
        async with played_cluster(folder) as cluster:
            played = PlayedWorkloads()
            cluster.controllers.append(played)
            for name in ("w", "w-spot"):
                cluster.put("deployments", deployment(name))
            found.append((cluster, played, asyncio.get_running_loop()))
            begun.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    begun.wait()
    cluster, played, loop = found[0]
    try:
        yield cluster, played
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
