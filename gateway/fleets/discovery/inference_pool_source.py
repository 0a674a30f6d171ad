"""The replicas that are pods of an InferencePool, kept up to date by watching both."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.config.models.addresses import Found
from gateway.config.models.kubernetes import InferencePoolPods
from gateway.config.models.settings import Pool
from gateway.config.network.hosts import with_port
from gateway.fleets.discovery.endpoints import MOST_REPLICAS
from gateway.fleets.discovery.pod_labels import VERSION
from gateway.fleets.discovery.watched_source import WatchedSource
from gateway.kubernetes.api_server import ApiServer
from gateway.kubernetes.list_watch import ListWatch
from gateway.kubernetes.objects import InferencePool, Pod
from gateway.kubernetes.resources import INFERENCE_POOLS, PODS
from protos.types import Role

#: The label by which llm-d, and what follows its conventions, tells the phases that a pod runs.
ROLE_LABEL: Final = "llm-d.ai/role"
#: The label that tells pods apart whose KV caches do not fit together, beside their version.
REVISION_LABEL: Final = "disaggregatedset.x-k8s.io/revision"
_ROLES: Final = {"prefill": Role.PREFILL, "decode": Role.DECODE}


@dataclass(frozen=True, slots=True)
class PoolEndpoint:
    """One target port of a ready pod, `IP:PORT`."""

    address: str
    role: Role
    version: str
    revision: str


class InferencePoolSource(WatchedSource):
    """The pods of an InferencePool."""

    nothing_found = "it has no pod that is ready"

    def __init__(self, pool: Pool, named: InferencePoolPods, server: ApiServer, *, pairs: bool = False) -> None:
        """`pairs`: whoever takes them makes pairs of roles. Else pods that only compute prompts are left out."""
        super().__init__(f"inference pool {named.name}")
        self._pool = pool
        self._named = named
        self._server = server
        self._pools = ListWatch(server, INFERENCE_POOLS, named.namespace)
        self._pairs = pairs
        self._selector = ""
        self._pods: ListWatch[Pod] | None = None

    def _watches(self) -> Sequence[ListWatch[Any]]:
        return [self._pools] if self._pods is None else [self._pools, self._pods]

    async def _list(self) -> None:
        if await self._pools.list() and self._selects_anew() and self._pods is not None:
            await self._pods.list()

    async def follow(self, changed: Callable[[], None]) -> None:
        """Watch until cancelled; `changed` is called whenever `found` is another one."""
        renew = self._renewing(changed)
        followers: set[asyncio.Task[None]] = set()

        def follow_pods() -> None:
            """Watch the pods of the selector, and no others."""
            for follower in followers:
                follower.cancel()
            if self._pods is not None:
                task = asyncio.create_task(self._pods.follow(renew))
                followers.add(task)
                task.add_done_callback(followers.discard)

        def pool_changed() -> None:
            if self._selects_anew():
                follow_pods()
            renew()

        follow_pods()
        try:
            await self._pools.follow(pool_changed)
        finally:
            left = list(followers)
            for follower in left:
                follower.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    def _selects_anew(self) -> bool:
        """Take over the pool's selector; return whether it is another one."""
        named = self._pools.objects.get(self._named.name)
        labels = named.spec.selector.match_labels if named is not None else {}
        selector = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
        if selector == self._selector:
            return False
        self._selector = selector
        # Without labels it would be every pod of the namespace.
        self._pods = ListWatch(self._server, PODS, self._named.namespace, selector) if selector else None
        return True

    def _renew(self) -> None:
        named, self._problem = self._pools.objects.get(self._named.name), ""
        if named is None:
            # A pool that was there and is gone has no pods; where nothing could be listed, the last ones stay.
            if not self._pools.problem:
                self._problem, self.found = "there is no such pool", ()
            return
        if self._pods is None:
            self._problem, self.found = "its selector has no labels", ()
            return
        if self._pods.problem and not self._pods.objects:
            return  # those of the last selector stay until the new ones are known
        endpoints = pool_endpoints(named, self._pods.objects.values())
        if not self._pairs:
            # Those that decode compute prompts as well, where nobody else has.
            endpoints = [one for one in endpoints if one.role is not Role.PREFILL]
        if len(endpoints) > MOST_REPLICAS:
            self._problem = f"it has {len(endpoints)} endpoints, of which {MOST_REPLICAS} are taken"
        scheme = "https" if self._pool.tls is not None else "http"
        path = self._named.path.rstrip("/")
        self.found = tuple(
            Found(f"{scheme}://{one.address}{path}", role=one.role, version=one.version, revision=one.revision)
            if self._pairs
            else Found(f"{scheme}://{one.address}{path}")
            for one in endpoints[:MOST_REPLICAS]
        )


def pool_endpoints(pool: InferencePool, pods: Iterable[Pod]) -> Sequence[PoolEndpoint]:
    """Return the endpoints in a stable order: one for each ready pod and target port."""
    ports = [port.number for port in pool.spec.target_ports]
    ready = sorted(filter(_takes_requests, pods), key=lambda pod: pod.status.pod_ip)
    return [_endpoint(pod, port) for pod in ready for port in ports]


def _endpoint(pod: Pod, port: int) -> PoolEndpoint:
    labels = pod.metadata.labels
    role = _ROLES.get(labels.get(ROLE_LABEL, ""), Role.BOTH)
    address = with_port(pod.status.pod_ip, port)
    return PoolEndpoint(address, role, labels.get(VERSION, ""), labels.get(REVISION_LABEL, ""))


def _takes_requests(pod: Pod) -> bool:
    ready = pod.condition("Ready")
    is_ready = ready is not None and ready.status == "True"
    return is_ready and bool(pod.status.pod_ip) and pod.metadata.deletion_timestamp is None
