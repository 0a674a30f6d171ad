"""A launcher whose replicas are pods of workloads that others keep: Deployments and LeaderWorkerSets.

Everything that it knows is in the cluster: the orders in a config map beside each workload, the pods, the scale. Each
call reads them in this order (scale, orders, pods), decides, writes the orders if they are still what was read, and
then brings the cluster to what they say. Whoever is killed in between has the next call, of any launcher, go on.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from gateway.fleets.discovery.endpoints import SERVICE_LABEL, endpoint_address, ready_endpoints
from gateway.kubernetes.api_server import ApiServer
from gateway.kubernetes.objects import ConfigMap, Workload
from gateway.kubernetes.resources import CONFIG_MAPS, ENDPOINT_SLICES, PODS
from gateway.scaling.kubernetes.node_looks import NodeLooks
from gateway.scaling.kubernetes.orders import Record, bound, started, stopped
from gateway.scaling.kubernetes.pod_state import DELETION_COST, PodState, exactly_taken, pod_state
from gateway.scaling.kubernetes.shown import Around, shown
from gateway.scaling.kubernetes.workloads import PoolWorkload
from protos.cluster_errors import ClusterConflict, ClusterObjectMissing, ClusterUnavailable
from replicas.launchers.launcher import LaunchedReplica, LauncherError, PoolsUnknown, ReplicaOrder

log = logging.getLogger(__name__)

#: How often a change is tried that others come before.
_TRIES: Final = 12
#: Seconds between two tries, twice as long each time, and at most.
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.005, 0.5
#: Seconds after which a pod that its workload should have ended is ended by itself.
_TAKEN_SECONDS: Final = 3.0
#: Seconds beyond its grace that a pod has to end.
_MARGIN_SECONDS: Final = 5.0
_KEY: Final = "orders"
#: Before any other one (Kubernetes, "ReplicaSet": an integer of 32 bits).
_LOWEST_COST: Final = "-2147483647"

Change = Callable[[Record, Sequence[PodState]], Record]


@dataclass(frozen=True, slots=True)
class _Seen:
    """A workload as one call has read it."""

    workload: Workload
    config_map: ConfigMap | None
    record: Record
    pods: Sequence[PodState]


class KubernetesLauncher:
    """The launcher of all workloads that pools name. Any number of them, of any controllers, can act at once."""

    def __init__(
        self, workloads: Sequence[PoolWorkload], server: ApiServer, clock: Callable[[], float] = time.time
    ) -> None:
        """`clock` gives the seconds since the epoch."""
        self._workloads = workloads
        self._server = server
        self._clock = clock
        self._nodes = NodeLooks(server, clock)
        self._missing: set[PoolWorkload] = set()

    async def aclose(self) -> None:
        """Close its connections."""
        await self._server.aclose()

    async def start(self, orders: Sequence[ReplicaOrder]) -> None:
        ids: dict[PoolWorkload, list[str]] = defaultdict(list)
        #: The orders that each problem concerns.
        problems: dict[str, list[str]] = defaultdict(list)
        for order in orders:
            place = (order.model, order.pool, order.spot)
            owner = next((one for one in self._workloads if (one.model, one.pool.name, one.spot) == place), None)
            if owner is None:
                what = " on preemptible capacity" if order.spot else ""
                problem = f"no workload is configured for pool {order.pool} of {order.model}{what}"
                problems[problem].append(order.id)
            else:
                ids[owner].append(order.id)
        now = self._clock()

        def start(owner: PoolWorkload) -> Awaitable[object]:
            return self._changed(
                owner, lambda record, pods: started(record, ids[owner], pods, now, is_ordered=owner.is_ordered)
            )

        for owner, problem in (await self._for_each(ids, start)).items():
            problems[problem] += ids[owner]
        if problems:
            raise LauncherError("; ".join(f"{', '.join(named)}: {problem}" for problem, named in problems.items()))

    async def observe(self) -> Sequence[LaunchedReplica]:
        found: list[LaunchedReplica] = []

        async def look(owner: PoolWorkload) -> None:
            try:
                seen = await self._changed(owner, lambda record, _: record)
            except ClusterObjectMissing as error:
                # With the workload its pods are gone.
                if owner not in self._missing:
                    log.warning("pool %s of %s has no replicas: %s", owner.pool.name, owner.model, error)
                self._missing.add(owner)
                return
            self._missing.discard(owner)
            addresses = await self._addresses(owner)
            if owner.spot:
                await self._nodes.look({pod.node for pod in seen.pods if pod.node})
            around = Around(owner, seen.workload, addresses, self._nodes, self._clock())
            found.extend(shown(seen.record, seen.pods, around))

        problems = await self._for_each(self._workloads, look)
        if problems and len(problems) == len(self._workloads):
            raise LauncherError("; ".join(dict.fromkeys(problems.values())))
        if problems:
            unknown = {(owner.model, owner.pool.name): problem for owner, problem in problems.items()}
            raise PoolsUnknown(unknown, [one for one in found if (one.model, one.pool) not in unknown])
        return found

    async def stop(self, ids: Sequence[str], grace_seconds: float) -> None:
        if not ids:
            return
        now = self._clock()

        async def stop(owner: PoolWorkload) -> None:
            # With a workload that is gone nothing of it runs.
            with contextlib.suppress(ClusterObjectMissing):
                await self._changed(
                    owner,
                    lambda record, pods: stopped(record, ids, grace_seconds, pods, now, is_ordered=owner.is_ordered),
                )

        problems = await self._for_each(self._workloads, stop)
        if problems:
            raise LauncherError("; ".join(dict.fromkeys(problems.values())))

    async def _for_each(
        self, owners: Collection[PoolWorkload], work: Callable[[PoolWorkload], Awaitable[object]]
    ) -> dict[PoolWorkload, str]:
        """Work on all workloads, whatever becomes of one; returns the problems of those that had one."""
        problems = {}
        done = await asyncio.gather(*(work(owner) for owner in owners), return_exceptions=True)
        for owner, one in zip(owners, done, strict=True):
            if isinstance(one, ClusterUnavailable | LauncherError):
                problems[owner] = str(one)
            elif isinstance(one, BaseException):
                raise one
        return problems

    # ---- one workload

    async def _changed(self, owner: PoolWorkload, change: Change) -> _Seen:
        """Change a workload's orders, and bring it to them. Raises ClusterUnavailable or LauncherError."""
        conflict = ClusterConflict.of("")
        for number in range(_TRIES):
            if number:
                # Those that got in each other's way do not do so again at the same time.
                await asyncio.sleep(random.uniform(0.0, min(_PAUSE_SECONDS * 2**number, _LONGEST_PAUSE_SECONDS)))
            seen = await self._read(owner)
            try:
                record = change(bound(seen.record, seen.pods, self._clock()), seen.pods)
                if not owner.acts:
                    return _Seen(seen.workload, None, record, seen.pods)
                scale = seen.workload.spec.replicas
                if not number and record == seen.record and scale != record.replicas:
                    log.warning(
                        "%s %s has the scale %d where %d replicas are ordered: it is set back",
                        *(owner.kind, owner.name, scale, record.replicas),
                    )
                if record != seen.record or seen.config_map is None:
                    await self._write(owner, seen, record)
                await self._bring_about(owner, seen, record)
            except ClusterConflict as error:
                conflict = error
            else:
                return _Seen(seen.workload, seen.config_map, record, seen.pods)
        raise LauncherError(f"{owner.kind} {owner.name} is changed by others all the time: {conflict}")

    async def _read(self, owner: PoolWorkload) -> _Seen:
        """Read scale, orders and pods: in this order, so that what is decided is of orders that are still the same."""
        server, place = self._server, owner.namespace
        workload = await server.get(owner.resource, owner.name, place)
        config_map = await self._config_map(owner) if owner.acts else None
        pods, _ = await server.list(PODS, place, owner.pods_of(workload))
        if config_map is None:
            return _Seen(workload, None, Record(workload.spec.replicas), list(map(pod_state, pods)))
        try:
            record = msgspec.json.decode((config_map.data or {})[_KEY], type=Record)
        except (KeyError, msgspec.DecodeError) as error:
            raise LauncherError(f"configmap {owner.record_name}: {_KEY} cannot be read: {error}") from error
        if workload.metadata.uid not in {one.uid for one in config_map.metadata.owner_references}:
            # It is that of an earlier workload of the name, whose pods went with it.
            record = Record(workload.spec.replicas, gone=record.gone)
        return _Seen(workload, config_map, record, list(map(pod_state, pods)))

    async def _config_map(self, owner: PoolWorkload) -> ConfigMap | None:
        try:
            return await self._server.get(CONFIG_MAPS, owner.record_name, owner.namespace)
        except ClusterObjectMissing:
            return None

    async def _write(self, owner: PoolWorkload, seen: _Seen, record: Record) -> None:
        """Write the orders, if they are still those that were read. Raises ClusterUnavailable."""
        metadata: dict[str, object] = {
            "name": owner.record_name,
            "labels": {"app.kubernetes.io/managed-by": "penstock"},
            # It goes with its workload, as the pods do.
            "ownerReferences": [
                {
                    "apiVersion": f"{owner.resource.group}/{owner.resource.version}",
                    "kind": "Deployment" if owner.kind == "deployment" else "LeaderWorkerSet",
                    "name": owner.name,
                    "uid": seen.workload.metadata.uid,
                }
            ],
        }
        body: dict[str, object] = {"metadata": metadata, "data": {_KEY: msgspec.json.encode(record).decode()}}
        if seen.config_map is None:
            await self._server.create(CONFIG_MAPS, body, owner.namespace)
            return
        metadata["resourceVersion"] = seen.config_map.metadata.resource_version
        try:
            await self._server.replace(CONFIG_MAPS, owner.record_name, body, owner.namespace)
        except ClusterObjectMissing as error:
            # Not taken for a missing workload, whose replicas would be gone.
            raise ClusterConflict.of(f"configmap {owner.record_name} has gone meanwhile") from error

    async def _bring_about(self, owner: PoolWorkload, seen: _Seen, record: Record) -> None:
        """Bring scale and pods to what the orders say. Raises ClusterUnavailable."""
        now, scale = self._clock(), seen.workload.spec.replicas
        ending = {one.order.uid: one for one in record.ending.values()}
        active = [pod for pod in seen.pods if pod.is_active]
        doomed = [pod for pod in active if pod.uid in ending]
        others = [pod for pod in active if pod.uid not in ending]
        if owner.is_ordered:
            for pod in doomed:
                if pod.index < record.replicas:
                    # Its place stays, so that it is begun anew there.
                    await self._end(owner, pod, ending[pod.uid].grace_left(now))
        elif scale > record.replicas and len(active) - record.replicas == len(doomed) and exactly_taken(doomed, others):
            for pod in doomed:
                if not pod.is_marked:
                    await self._mark(owner, pod)
        else:
            # Made smaller, the workload would take others, or it has taken others.
            for pod in doomed:
                if scale > record.replicas or now - ending[pod.uid].at >= _TAKEN_SECONDS:
                    await self._end(owner, pod, ending[pod.uid].grace_left(now))
        if scale != record.replicas:
            version = seen.workload.metadata.resource_version
            patch = {"metadata": {"resourceVersion": version}, "spec": {"replicas": record.replicas}}
            await self._server.patch(owner.resource, owner.name, patch, owner.namespace, subresource="scale")
        for pod in seen.pods:
            told = ending.get(pod.uid)
            if told is None or told.kill_at is None or now < told.kill_at + _MARGIN_SECONDS:
                continue
            if not pod.is_terminating or pod.grace is None or pod.grace > 1:
                await self._end(owner, pod, 1.0)

    async def _mark(self, owner: PoolWorkload, pod: PodState) -> None:
        """Have the pod taken before others."""
        body = {"metadata": {"annotations": {DELETION_COST: _LOWEST_COST}}}
        try:
            await self._server.patch(PODS, pod.name, body, owner.namespace)
        except ClusterObjectMissing as error:
            raise ClusterConflict.of(f"pod {pod.name} has gone meanwhile") from error

    async def _end(self, owner: PoolWorkload, pod: PodState, seconds: float) -> None:
        await self._server.delete(PODS, pod.name, pod.uid, max(int(seconds), 1), owner.namespace)

    async def _addresses(self, owner: PoolWorkload) -> dict[str, str] | None:
        """The addresses of pods that take requests, by their uid; None where they register themselves."""
        service = owner.service
        if service is None:
            return None
        slices, _ = await self._server.list(ENDPOINT_SLICES, service.namespace, f"{SERVICE_LABEL}={service.service}")
        found, _ = ready_endpoints(slices, service.port)
        return {one.uid: endpoint_address(owner.pool, service, one) for one in found if one.uid}
