"""What the launcher shows of a workload: each order, by its pod. Pure but for the nodes that it is told of."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gateway.kubernetes.objects import Workload
from gateway.scaling.kubernetes.node_looks import NodeLooks
from gateway.scaling.kubernetes.orders import Order, Record
from gateway.scaling.kubernetes.pod_state import PodState
from gateway.scaling.kubernetes.workloads import PoolWorkload
from protos.launch_step import LaunchStep
from replicas.launchers.launcher import LaunchedReplica


@dataclass(frozen=True, slots=True)
class Around:
    """What else counts. `addresses` are by the pods' uids, None where replicas register themselves."""

    owner: PoolWorkload
    workload: Workload
    addresses: Mapping[str, str] | None
    nodes: NodeLooks
    now: float


def shown(record: Record, pods: Sequence[PodState], around: Around) -> Iterator[LaunchedReplica]:
    """Yield every replica that was ordered and has not ended by being told to."""
    by_uid = {pod.uid: pod for pod in pods}
    for id_, order in record.orders.items():
        if not order.uid:
            # It would be the last of its workload.
            place = record.replicas if around.owner.is_ordered else None
            yield _waiting(id_, order, around, place)
        elif (pod := by_uid.get(order.uid)) is None:
            yield _replica(id_, order, around, LaunchStep.FAILED, f"its pod {order.pod} was deleted")
        else:
            yield _running(id_, order, pod, around)
    for id_, told in record.ending.items():
        if told.order.uid in by_uid:
            yield _replica(id_, told.order, around, LaunchStep.STOPPING, "")


def _waiting(id_: str, order: Order, around: Around, place: int | None) -> LaunchedReplica:
    """Show an order that has no pod, as where a quota does not allow one."""
    refused = next(
        (
            f"{one.reason}: {one.message}"
            for one in around.workload.status.conditions or ()
            if one.type == "ReplicaFailure" and one.status == "True"
        ),
        "",
    )
    if around.now - order.waits_since < around.owner.unplaced_seconds:
        return _replica(id_, order, around, LaunchStep.ALLOCATE, refused, place=place)
    problem = refused or f"{around.owner.kind} {around.owner.name} has made no pod for it"
    return _replica(id_, order, around, LaunchStep.FAILED, problem, is_unplaced=True, place=place)


def _running(id_: str, order: Order, pod: PodState, around: Around) -> LaunchedReplica:
    step, problem, is_unplaced = pod.step, pod.failure or pod.unplaced, False
    waited = around.now - pod.unplaced_since
    if pod.unplaced and step is LaunchStep.ALLOCATE and waited >= around.owner.unplaced_seconds:
        step, is_unplaced = LaunchStep.FAILED, True
    address = "" if around.addresses is None else around.addresses.get(pod.uid, "")
    if step is LaunchStep.READY and not address:
        # A replica that registers says itself that it is ready; one that is found is so once it can be.
        step = LaunchStep.PROCESS
    goes_at = around.nodes.goes_at(pod.node)
    if goes_at is None and pod.is_disrupted:
        goes_at = around.now
    return _replica(
        id_,
        order,
        around,
        step,
        problem,
        address=address,
        is_unplaced=is_unplaced,
        preempted_at=goes_at,
        spot=around.nodes.is_spot(pod.node),
        place=pod.index if around.owner.is_ordered else None,
    )


def _replica(
    id_: str,
    order: Order,
    around: Around,
    step: LaunchStep,
    problem: str,
    *,
    address: str = "",
    is_unplaced: bool = False,
    preempted_at: float | None = None,
    spot: bool | None = None,
    place: int | None = None,
) -> LaunchedReplica:
    owner = around.owner
    return LaunchedReplica(
        id=id_,
        model=owner.model,
        pool=owner.pool.name,
        step=step,
        since=order.at,
        address=address,
        spot=owner.spot if spot is None else spot,
        problem=problem,
        preempted_at=preempted_at,
        registers_as=order.uid,
        is_unplaced=is_unplaced,
        place=place,
    )
