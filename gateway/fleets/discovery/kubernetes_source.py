"""The replicas that are endpoints of a service of Kubernetes, kept up to date by watching its EndpointSlices."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from gateway.config.models.addresses import Found
from gateway.config.models.engine_checks import SESSIONS
from gateway.config.models.kubernetes import KubernetesService
from gateway.config.models.settings import Pool
from gateway.fleets.discovery.endpoints import SERVICE_LABEL, PodEndpoint, endpoint_address, ready_endpoints
from gateway.fleets.discovery.pod_labels import SHAPE, PodLabels, read_labels
from gateway.fleets.discovery.watched_source import WatchedSource
from gateway.kubernetes.api_server import ApiServer
from gateway.kubernetes.list_watch import ListWatch
from gateway.kubernetes.resources import ENDPOINT_SLICES, PODS
from protos.cluster_errors import ClusterUnavailable
from protos.types import Role

log = logging.getLogger(__name__)

#: Seconds after which a pod whose endpoint is known, and which is not, has no labels: two watches are not told at once.
_UNKNOWN_SECONDS: Final = 2.0
_MOST_COMPLAINTS: Final = 1024


class KubernetesSource(WatchedSource):
    """The endpoints of a pool's service."""

    nothing_found = "it has no endpoint that is ready"

    def __init__(
        self,
        pool: Pool,
        service: KubernetesService,
        server: ApiServer,
        clock: Callable[[], float] = time.monotonic,
        zone: str = "",
    ) -> None:
        """`clock` counts seconds. `zone` is the one that endpoints are near in; empty: none is preferred."""
        super().__init__(f"service {service.service}")
        self._pool = pool
        self._service = service
        self._server = server
        self._clock = clock
        self._zone = zone
        selector = f"{SERVICE_LABEL}={service.service}"
        self._slices = ListWatch(server, ENDPOINT_SLICES, service.namespace, selector)
        self._pods = ListWatch(server, PODS, service.namespace, SHAPE) if service.labels else None
        self._unknown_since: dict[str, float] = {}
        self._logged: set[str] = set()

    def _watches(self) -> Sequence[ListWatch[Any]]:
        return [self._slices] if self._pods is None else [self._slices, self._pods]

    async def _list(self) -> None:
        await asyncio.gather(*(watch.list() for watch in self._watches()))

    async def follow(self, changed: Callable[[], None]) -> None:
        """Watch until cancelled; `changed` is called whenever `found` is another one."""
        renew = self._renewing(changed)
        watches = [self._slices.follow(renew)]
        if self._pods is not None:
            watches += [self._pods.follow(renew), self._complain(renew)]
        await asyncio.gather(*watches)

    async def _complain(self, renew: Callable[[], None]) -> None:
        """Look again at pods that were not known in time, for as long as there are some."""
        while True:
            await asyncio.sleep(_UNKNOWN_SECONDS)
            if self._unknown_since:
                try:
                    renew()
                except Exception:
                    # Any error: it would end this loop, and leave the watches to nobody.
                    log.exception("looking again at %s", self.text)

    def _renew(self) -> None:
        endpoints, self._problem = ready_endpoints(self._slices.objects.values(), self._service.port, self._zone)
        self.found = tuple(self._labelled(endpoints) if self._pods is not None else map(self._found, endpoints))

    def _found(self, endpoint: PodEndpoint, labels: PodLabels | None = None) -> Found:
        address = endpoint_address(self._pool, self._service, endpoint)
        name = f"{self._service.service}.{self._namespace()}.svc"
        if labels is None:
            return Found(address, name, near=endpoint.near)
        return Found(address, name, labels.shape, labels.role, labels.version, endpoint.near)

    def _labelled(self, endpoints: Iterable[PodEndpoint]) -> Iterable[Found]:
        """Leave out what has no labels, and what they say cannot be."""
        unknown = {}
        for endpoint in endpoints:
            pod = None if self._pods is None else self._pods.objects.get(endpoint.pod)
            now = self._clock()
            if pod is None:
                since = unknown[endpoint.pod] = self._unknown_since.get(endpoint.pod, now)
                if now - since >= _UNKNOWN_SECONDS:
                    self._ignore(endpoint, f"it has no label {SHAPE}")
                continue
            labels, problem = read_labels(pod.metadata.labels)
            if labels is not None and labels.role is not Role.BOTH and self._pool.engine not in SESSIONS:
                problem = f"its role {labels.role.value} is none that a replica of {self._pool.engine} can have"
            if labels is None or problem:
                self._ignore(endpoint, problem)
            else:
                yield self._found(endpoint, labels)
        self._unknown_since = unknown

    def _ignore(self, endpoint: PodEndpoint, problem: str) -> None:
        who = endpoint.pod or endpoint.host
        self._problem = self._problem or f"pod {who} gets no requests: {problem}"
        if who not in self._logged and len(self._logged) < _MOST_COMPLAINTS:
            self._logged.add(who)
            log.warning("%s: pod %s gets no requests: %s", self.text, who, problem)

    def _namespace(self) -> str:
        try:
            return self._service.namespace or self._server.namespace
        except ClusterUnavailable:
            return "default"
