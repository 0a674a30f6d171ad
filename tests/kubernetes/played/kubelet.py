"""Played nodes: they register, renew their leases, and run the pods that are bound to them as processes.

`python -m tests.kubernetes.played.kubelet SPEC.json` plays until it is ended; `tests.kubernetes.nodes` writes the spec.
"""

import asyncio
import json
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

import httpx

from tests.kubernetes.api import AsyncApi, Object
from tests.kubernetes.network import Network
from tests.kubernetes.played.container import now
from tests.kubernetes.played.pod import Pod, Surroundings
from tests.kubernetes.played.probes import Prober
from tests.kubernetes.programs import KUBERNETES

_LEASE_SECONDS = 40
_RENEW_SECONDS = 10.0
_RETRY_SECONDS = 1.0
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


class Kubelet:
    """One process's nodes; `nodes` has each one's number by its name."""

    def __init__(self, api: AsyncApi, here: Network, folder: Path, claims: Path, nodes: list[Object]) -> None:
        self._api = api
        self._nodes = {str(one["name"]): one for one in nodes}
        prober = Prober()
        self._prober = prober
        env = {
            "KUBERNETES_SERVICE_HOST": f"{here.prefix}.0.1",
            "KUBERNETES_SERVICE_PORT": "443",
            "KUBERNETES_SERVICE_PORT_HTTPS": "443",
        }
        self._surroundings = {
            name: Surroundings(api, prober, folder, claims, str(here.of_node(one["number"])[1]), here, env)
            for name, one in self._nodes.items()
        }
        self._free = {name: [str(ip) for ip in here.of_node(one["number"])][2:] for name, one in self._nodes.items()}
        self._pods: dict[str, Pod] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Play, until it is cancelled; then each pod's processes are ended at once."""
        try:
            async with asyncio.TaskGroup() as parts:
                for name in self._nodes:
                    parts.create_task(self._be(name))
                parts.create_task(self._follow())
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._prober.close()

    async def _be(self, name: str) -> None:
        """Register a node, and renew its lease."""
        while True:
            try:
                await self._register(name)
                break
            except httpx.HTTPError:
                await asyncio.sleep(_RETRY_SECONDS)
        while True:
            try:
                spec = {"holderIdentity": name, "leaseDurationSeconds": _LEASE_SECONDS}
                renewed = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
                lease = {
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": {"name": name, "namespace": "kube-node-lease"},
                    "spec": {**spec, "renewTime": renewed},
                }
                await self._apply(f"{_LEASES}/{name}", lease)
                # Whoever was away is marked as lost, and says itself that it is back.
                await self._apply(f"/api/v1/nodes/{name}/status", {**_identity(name), "status": self._status(name)})
            except httpx.HTTPError:
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                await asyncio.sleep(_RENEW_SECONDS)

    async def _register(self, name: str) -> None:
        one = self._nodes[name]
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            **one.get("labels", {}),
        }
        node = _identity(name)
        node["metadata"]["labels"] = labels
        node["spec"] = {"taints": one["taints"]} if one.get("taints") else {}
        await self._apply(f"/api/v1/nodes/{name}", node)
        await self._apply(f"/api/v1/nodes/{name}/status", {**_identity(name), "status": self._status(name)})

    def _status(self, name: str) -> Object:
        one = self._nodes[name]
        room = {
            "cpu": "64",
            "memory": "256Gi",
            "pods": "110",
            "ephemeral-storage": "100Gi",
            **one.get("allocatable", {}),
        }
        healthy = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}
        return {
            "capacity": room,
            "allocatable": room,
            "addresses": [
                {"type": "InternalIP", "address": self._surroundings[name].host_ip},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": dict.fromkeys(
                ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "kubeProxyVersion"), "played"
            )
            | {
                "containerRuntimeVersion": "process://1",
                "kubeletVersion": KUBERNETES,
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
            "conditions": [
                {"type": kind, "status": status, "reason": "Played", "lastHeartbeatTime": now()}
                for kind, status in healthy.items()
            ],
        }

    async def _apply(self, path: str, one: Object) -> None:
        await self._api.call(
            "PATCH", path, one, kind="application/apply-patch+yaml", fieldManager="kubelet", force="true"
        )

    async def _follow(self) -> None:
        """List the pods that are bound to nodes, then watch; again whenever the watch ends."""
        while True:
            try:
                listed = await self._api.call("GET", "/api/v1/pods", fieldSelector="spec.nodeName!=")
                self._listed(listed["items"])
                version = listed["metadata"]["resourceVersion"]
                async for event in self._api.watch("/api/v1/pods", version, fieldSelector="spec.nodeName!="):
                    self._seen(event["object"], gone=event["type"] == "DELETED")
            except httpx.HTTPError:
                await asyncio.sleep(_RETRY_SECONDS)

    def _listed(self, found: list[Object]) -> None:
        there = {one["metadata"]["uid"] for one in found}
        for uid, pod in list(self._pods.items()):
            if uid not in there:
                pod.end(0.0)
        for one in found:
            self._seen(one, gone=False)

    def _seen(self, found: Object, *, gone: bool) -> None:
        node, uid = found["spec"].get("nodeName", ""), found["metadata"]["uid"]
        if node not in self._nodes:
            return
        pod = self._pods.get(uid)
        if pod is None:
            if not gone and found.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
                self._begin(node, found)
            return
        if gone:
            pod.end(0.0)
        elif "deletionTimestamp" in found["metadata"]:
            pod.end(float(found["metadata"].get("deletionGracePeriodSeconds", 30)))
        else:
            pod.seen(found)

    def _begin(self, node: str, found: Object) -> None:
        ip, uid = self._free[node].pop(0), found["metadata"]["uid"]

        def ended() -> None:
            # At the end of the line: whoever still knows the address finds nobody there for a while.
            self._free[node].append(ip)
            self._pods.pop(uid, None)

        pod = self._pods[uid] = Pod(found, ip, self._surroundings[node], ended)
        task = asyncio.create_task(pod.run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if "deletionTimestamp" in found["metadata"]:
            pod.end(float(found["metadata"].get("deletionGracePeriodSeconds", 30)))


def _identity(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


async def _play(spec: Object) -> None:
    folder = Path(spec["folder"])
    api = AsyncApi(Path(spec["kubeconfig"]))
    kubelet = asyncio.create_task(
        Kubelet(api, Network(spec["prefix"]), folder, Path(spec["claims"]), spec["nodes"]).run()
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, kubelet.cancel)
    try:
        await kubelet
    except asyncio.CancelledError:
        pass
    finally:
        await api.close()


if __name__ == "__main__":
    asyncio.run(_play(json.loads(Path(sys.argv[1]).read_text())))
