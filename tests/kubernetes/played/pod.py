"""A pod on a played node, from its first sight to its end."""

import asyncio
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.kubernetes.api import AsyncApi, Object
from tests.kubernetes.network import Network, PodNetwork
from tests.kubernetes.played.container import Container, Place, now
from tests.kubernetes.played.fields import environment, pod_fields
from tests.kubernetes.played.images import image
from tests.kubernetes.played.probes import Prober
from tests.kubernetes.played.volumes import NotYet, Sources, Volumes, keep_fresh

_RETRY_SECONDS = 1.0
_FIRST_BACKOFF_SECONDS, _LAST_BACKOFF_SECONDS = 10.0, 300.0
#: The real one looks once a minute; drills are shorter.
_REFRESH_SECONDS = 5.0
#: A pod's network takes milliseconds, and seconds on a machine that does much besides.
_NETWORK_SECONDS = 20.0


@dataclass(frozen=True)
class Surroundings:
    """What a node gives to its pods."""

    api: AsyncApi
    prober: Prober
    folder: Path
    #: Where volumes lie that claims have got.
    claims: Path
    host_ip: str
    network: Network
    #: Variables that each container gets, as those that name the API server.
    env: dict[str, str]


def _said(life: asyncio.Task[None]) -> None:
    """Say what a pod's life has ended with: its pod is there still, and does nothing."""
    if not life.cancelled() and (error := life.exception()) is not None:
        traceback.print_exception(error)


class Pod:
    """Its containers and what is reported of them. `run` is its whole life."""

    def __init__(self, found: Object, ip: str, node: Surroundings, ended: Callable[[], None]) -> None:
        self._object = found
        self._ip = ip
        self._node = node
        self._ended = ended
        meta, spec = found["metadata"], found["spec"]
        self._path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        self._folder = node.folder / f"{meta['namespace']}_{meta['name']}_{meta['uid']}"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._fields = pod_fields(found, ip, node.host_ip)
        self._sources = Sources(node.api, found)
        self._volumes = Volumes(self._folder / "volumes", node.claims, found, self._sources, self._fields)
        self._network = PodNetwork(node.network, ip)
        self._report = asyncio.Event()
        self._ending = asyncio.Event()
        self._grace = float(spec.get("terminationGracePeriodSeconds", 30))
        self._initialized = not spec.get("initContainers")
        self._began = now()
        #: The status that the API server has taken last.
        self._said: Object = {}
        self._readied: dict[str, tuple[bool, str]] = {}
        place = Place(
            folder=self._folder,
            ip=ip,
            network=self._network,
            hostname=spec.get("hostname") or meta["name"],
            files=self._files(),
            volumes=self._volumes.paths,
            security=spec.get("securityContext", {}),
            grace_seconds=self._grace,
            prober=node.prober,
            changed=self._report.set,
        )
        self._init = [Container(one, image(one["image"]), place) for one in spec.get("initContainers", [])]
        self._main = [Container(one, image(one["image"]), place) for one in spec["containers"]]

    @property
    def uid(self) -> str:
        return str(self._object["metadata"]["uid"])

    def end(self, grace_seconds: float) -> None:
        """It is deleted, and has so long to end."""
        self._grace = grace_seconds
        self._ending.set()

    def seen(self, found: Object) -> None:
        """Say how it is where another says otherwise, as the controller manager does of a node that is silent."""
        conditions = found.get("status", {}).get("conditions", [])
        ready = next((one["status"] for one in conditions if one["type"] == "Ready"), None)
        said = next((one["status"] for one in self._said.get("conditions", []) if one["type"] == "Ready"), None)
        if ready != said:
            self._said = {}
            self._report.set()

    async def run(self) -> None:
        """Live, until it is deleted; at the end nothing of it is left."""
        reporting = asyncio.create_task(self._report_changes())
        self._report.set()
        life = asyncio.create_task(self._live())
        life.add_done_callback(_said)
        fresh: asyncio.Task[None] | None = None
        try:
            fresh = asyncio.create_task(keep_fresh(self._volumes, _REFRESH_SECONDS))
            await self._ending.wait()
            life.cancel()
            await asyncio.wait((life,))
            for one in self._all:
                one.end_liveness()
            async with asyncio.TaskGroup() as ends:
                for one in self._all:
                    ends.create_task(one.end(self._grace))
            for one in self._all:
                one.terminated()
            reporting.cancel()
            await self._say_gone()
        finally:
            for task in (life, reporting, fresh):
                if task is not None:
                    task.cancel()
            for one in self._all:
                await one.terminate(0.0)
            await self._network.remove()
            self._volumes.remove()
            self._ended()

    @property
    def _all(self) -> list[Container]:
        return [*self._init, *self._main]

    async def _live(self) -> None:
        await self._networked()
        await self._prepared()
        for one in self._init:
            if one.spec.get("restartPolicy") == "Always":
                raise NotImplementedError("sidecars are not played")
            if await self._keep(one, always=False) != 0:
                return
        self._initialized = True
        async with asyncio.TaskGroup() as lives:
            for one in self._main:
                lives.create_task(self._keep(one, always=self._policy == "Always"))

    async def _networked(self) -> None:
        """Make its network; where that hangs, say where, and make another one, as kubelets do of sandboxes."""
        while True:
            try:
                async with asyncio.timeout(_NETWORK_SECONDS):
                    await self._network.make()
            except TimeoutError as error:
                traceback.print_exception(error)
                await self._network.remove()
            else:
                return

    async def _prepared(self) -> None:
        while True:
            try:
                await self._volumes.prepare()
            except (NotYet, httpx.HTTPError) as error:
                for one in self._all:
                    one.wait("ContainerCreating", str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    @property
    def _policy(self) -> str:
        return str(self._object["spec"].get("restartPolicy", "Always"))

    async def _keep(self, one: Container, *, always: bool) -> int:
        """Run a container as often as the pod's policy says; the answer is its last exit code."""
        backoff = _FIRST_BACKOFF_SECONDS
        if one.image is None:
            one.wait("ErrImagePull", f"no image {one.spec['image']} is played here")
            await asyncio.Event().wait()
        while True:
            env = await self._environment(one)
            code = await one.live(env)
            if not always and (code == 0 or self._policy == "Never"):
                return code
            one.restarting()
            one.wait("CrashLoopBackOff", f"ended with {code}; again in {backoff:.0f} s")
            await asyncio.sleep(backoff)
            backoff = min(_LAST_BACKOFF_SECONDS, 2 * backoff)

    async def _environment(self, one: Container) -> dict[str, str]:
        given = {"HOSTNAME": one.place.hostname, "HOME": "/", "PATH": "/usr/local/bin:/usr/bin:/bin", **self._node.env}
        assert one.image is not None
        while True:
            try:
                return await environment(one.spec, one.image, self._fields, given, self._sources)
            except (NotYet, httpx.HTTPError) as error:
                one.wait("CreateContainerConfigError", str(error))
                await asyncio.sleep(_RETRY_SECONDS)

    def _files(self) -> dict[str, str]:
        meta, spec = self._object["metadata"], self._object["spec"]
        domain = "cluster.local"
        search = f"{meta['namespace']}.svc.{domain} svc.{domain} {domain}"
        names = spec.get("hostname") or meta["name"]
        if "hostname" in spec and "subdomain" in spec:
            names = f"{spec['hostname']}.{spec['subdomain']}.{meta['namespace']}.svc.{domain} {names}"
        return {
            "/etc/resolv.conf": f"nameserver {self._node.network.name_server}\nsearch {search}\noptions ndots:5\n",
            "/etc/hosts": f"127.0.0.1 localhost\n::1 localhost\n{self._ip} {names}\n",
        }

    async def _report_changes(self) -> None:
        while True:
            await self._report.wait()
            self._report.clear()
            status = self._status()
            if status == self._said:
                continue
            try:
                await self._send(status)
            except httpx.HTTPStatusError as error:
                if error.response.status_code in (404, 409):
                    return  # it is gone, or another has its name
                await self._again()
            except httpx.HTTPError:
                await self._again()
            else:
                self._said = status

    async def _again(self) -> None:
        await asyncio.sleep(_RETRY_SECONDS)
        self._report.set()

    async def _send(self, status: Object) -> None:
        change = {"metadata": {"uid": self.uid}, "status": status}
        await self._node.api.call(
            "PATCH", f"{self._path}/status", change, kind="application/strategic-merge-patch+json"
        )

    async def _say_gone(self) -> None:
        """Report the end, and take the object away; the API may be away meanwhile."""
        while True:
            try:
                await self._send(self._status())
                body = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
                await self._node.api.call("DELETE", self._path, body)
            except httpx.HTTPStatusError as error:
                if error.response.status_code in (404, 409):
                    return
                await asyncio.sleep(_RETRY_SECONDS)
            except httpx.HTTPError:
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    def _status(self) -> Object:
        ready = self._initialized and all(one.ready for one in self._main) and not self._over
        conditions = {
            "PodReadyToStartContainers": True,
            "Initialized": self._initialized,
            "ContainersReady": ready,
            "Ready": ready,
        }
        return {
            "phase": self._phase(),
            "hostIP": self._node.host_ip,
            "podIP": self._ip,
            "podIPs": [{"ip": self._ip}],
            "startTime": self._began,
            "conditions": [self._condition(name, holds) for name, holds in conditions.items()],
            "initContainerStatuses": [one.status() for one in self._init],
            "containerStatuses": [one.status() for one in self._main],
        }

    def _condition(self, name: str, holds: bool) -> Object:
        before, since = self._readied.get(name, (None, ""))
        if before != holds:
            since = now()
            self._readied[name] = (holds, since)
        reason = (
            {} if holds else {"reason": "ContainersNotReady" if name != "Initialized" else "ContainersNotInitialized"}
        )
        return {"type": name, "status": str(holds), "lastTransitionTime": since, **reason}

    @property
    def _over(self) -> bool:
        return all("terminated" in one.state for one in self._main)

    def _phase(self) -> str:
        failed = [one for one in self._init if one.state.get("terminated", {}).get("exitCode")]
        if self._over or (failed and self._policy == "Never"):
            codes = [one.state.get("terminated", {}).get("exitCode", 1) for one in self._main]
            return "Failed" if failed or any(codes) else "Succeeded"
        begun = any("waiting" not in one.state or one.restarts for one in self._main)
        return "Running" if begun else "Pending"
