"""Nodes for a control plane: processes that play kubelets, and the one that plays the service network."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.kubernetes.api import Object, wait_until
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.processes import Running

_TREE = Path(__file__).parents[2]
_START_SECONDS = 60.0
_BEHIND = 15


@dataclass(frozen=True)
class Node:
    """A node as it is played: its labels and taints, and what it has to give beside 64 CPUs and 256 GiB."""

    name: str
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Object, ...] = ()
    allocatable: dict[str, str] = field(default_factory=dict)

    @classmethod
    def with_gpus(cls, name: str, gpus: int, **labels: str) -> "Node":
        return cls(name, labels, allocatable={"nvidia.com/gpu": str(gpus)})


class Played:
    """What plays beside a control plane."""

    def __init__(self, plane: ControlPlane, ends: ExitStack) -> None:
        self._plane = plane
        self._ends = ends
        self._numbers = iter(range(200))
        self.kubelets: list[Running] = []
        self.services = self._start("services", {})

    def add(self, *nodes: Node) -> Running:
        """Play these nodes in one process, and wait until the cluster has them."""
        listed: list[Any] = [{**vars(one), "number": next(self._numbers)} for one in nodes]
        name = f"kubelet-{len(self.kubelets)}"
        kubelet = self._start(name, {"nodes": listed, "folder": str(self._plane.folder / name)})
        self.kubelets.append(kubelet)
        for one in nodes:
            # The controller manager takes its taint away from whoever says that it is ready.
            kubelet.wait_for(partial(self._usable, one.name), _START_SECONDS)
        return kubelet

    @contextmanager
    def guests(self, *nodes: Node) -> Iterator[None]:
        """Play these nodes meanwhile, behind all else that this machine does: in truth they are others."""
        kubelet = self.add(*nodes)
        os.setpriority(os.PRIO_PROCESS, kubelet.pid, _BEHIND)
        try:
            yield
        finally:
            kubelet.stop()
            for one in nodes:
                self._plane.api.delete(f"/api/v1/nodes/{one.name}")

    def cut_api(self) -> None:
        """End each connection of a pod to the API server."""
        os.kill(self.services.pid, signal.SIGUSR1)

    def log(self, pod: Object, container: str) -> str:
        """What a pod's container has written."""
        meta = pod["metadata"]
        name = f"{meta['namespace']}_{meta['name']}_{meta['uid']}"
        found = list(self._plane.folder.glob(f"kubelet-*/{name}/{container}.log"))
        return found[0].read_text(errors="replace") if found else ""

    def _usable(self, name: str) -> bool:
        node = self._plane.api.find(f"/api/v1/nodes/{name}")
        if node is None or not is_ready(node):
            return False
        return not any(one["key"].startswith("node.kubernetes.io/") for one in node["spec"].get("taints", []))

    def _start(self, name: str, spec: Object) -> Running:
        module = "services" if name == "services" else "kubelet"
        path = self._plane.folder / f"{name}.json"
        given = {"kubeconfig": str(self._plane.kubeconfig), "prefix": self._plane.network.prefix, **spec}
        given["claims"] = str(self._plane.folder / "claims")
        path.write_text(json.dumps(given))
        command = [sys.executable, "-m", f"tests.kubernetes.played.{module}", str(path)]
        environment = {**os.environ, "PYTHONPATH": str(_TREE)}
        running = Running(name, command, self._plane.folder / f"{name}.log", environment)
        self._ends.callback(running.stop)
        running.start()
        return running


@contextmanager
def played(plane: ControlPlane) -> Iterator[Played]:
    """The service network, and the nodes that are added meanwhile."""
    with ExitStack() as ends:
        yield Played(plane, ends)


def ready(plane: ControlPlane, namespace: str, selector: str, count: int, seconds: float = 90.0) -> list[Object]:
    """Wait until as many pods as this are ready, and no more; these."""

    def found() -> list[Object]:
        return plane.api.items(f"/api/v1/namespaces/{namespace}/pods", labelSelector=selector)

    wait_until(
        lambda: (pods := found()) is not None and len(pods) == count and all(is_ready(pod) for pod in pods),
        seconds,
        f"{count} ready pods of {selector}",
    )
    return found()


def is_ready(one: Object) -> bool:
    """Whether a pod, or a node, says that it is."""
    conditions = one.get("status", {}).get("conditions", [])
    return any(said["type"] == "Ready" and said["status"] == "True" for said in conditions)
