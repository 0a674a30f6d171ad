"""A cluster for tests of the launcher of pods, and controllers that are killed."""

import contextlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from gateway.kubernetes.api_server import ApiServer
from gateway.scaling.kubernetes.kubernetes_launcher import KubernetesLauncher
from replicas.launchers.launcher import LaunchedReplica
from tests.played_cluster import PlayedCluster, played_cluster
from tests.played_workloads import PlayedWorkloads, deployment, workloads

#: When pods of these tests are made, in seconds since the epoch.
MADE = 1767225600.0


class Killed(BaseException):
    """The controller's process is gone."""


class Mortal(ApiServer):
    """Connections of a controller that is killed at one of its calls, before or after the server has heard of it."""

    def __init__(self, kubeconfig: str) -> None:
        super().__init__(kubeconfig)
        self.calls = itertools.count()
        self.dies_at: tuple[int, bool] | None = None

    async def _send(self, *asked: Any, **more: Any) -> bytes:
        number = next(self.calls)
        if self.dies_at == (number, False):
            raise Killed
        answer = await super()._send(*asked, **more)
        if self.dies_at == (number, True):
            raise Killed
        return answer


class World:
    """A cluster, and controllers that come and go."""

    def __init__(self, cluster: PlayedCluster, played: PlayedWorkloads, kind: str, service: str) -> None:
        self.cluster = cluster
        self.played = played
        self.now = MADE
        self._kind, self._service = kind, service
        self._servers: list[Mortal] = []

    def launcher(self, dies_at: tuple[int, bool] | None = None) -> KubernetesLauncher:
        server = Mortal(str(self.cluster.kubeconfig))
        server.dies_at = dies_at
        self._servers.append(server)
        return KubernetesLauncher(workloads(self._kind, self._service), server, lambda: self.now)

    async def aclose(self) -> None:
        for server in self._servers:
            await server.aclose()


@contextlib.asynccontextmanager
async def world(folder: Path, kind: str = "deployment", service: str = "", replicas: int = 0) -> AsyncIterator[World]:
    async with played_cluster(folder) as cluster:
        played = PlayedWorkloads()
        cluster.controllers.append(played)
        for name in ("w", "w-spot"):
            cluster.put(f"{kind}s", deployment(name, replicas if name == "w" else 0))
        made = World(cluster, played, kind, service)
        try:
            yield made
        finally:
            await made.aclose()


async def seen(launcher: KubernetesLauncher) -> dict[str, LaunchedReplica]:
    return {one.id: one for one in await launcher.observe()}


def bound_pod(cluster: PlayedCluster, one: LaunchedReplica) -> str:
    found = [name for name, pod in cluster.named("pods").items() if pod["metadata"]["uid"] == one.registers_as]
    return found[0] if found else ""
