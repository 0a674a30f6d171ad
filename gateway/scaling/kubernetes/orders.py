"""The record of a workload's orders: which replicas shall run, and which pod each of them is. Pure.

Pods of a workload are anonymous, and orders have ids. The record, of which there is one object for each workload, says
both how many pods there shall be and whose each is; it is written only as it was read, so that of two controllers one
begins anew. The workload's scale follows the record, whoever was killed in between.

A pod that has been ready is its order's replica, which ends with it: what a rollout or an eviction puts in its place is
another replica, which the controller takes over. One that goes before was none yet, and its order gets another pod.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from gateway.scaling.kubernetes.pod_state import PodState

#: Seconds for which an id that ran is remembered after its end: a late `start` must not start it again.
GONE_SECONDS: Final = 3600.0


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """A replica that shall run, ordered at `at`. `pod` and `uid` are empty while it has none, since `waits` or `at`.

    `ready`: its pod was ready once.
    """

    at: float
    pod: str = ""
    uid: str = ""
    ready: bool = False
    waits: float = 0.0

    @property
    def waits_since(self) -> float:
        """Since when it has been without a pod."""
        return self.waits or self.at


class Ending(msgspec.Struct, frozen=True):
    """A replica that shall end, told at `at`, and whose pod may be killed from `kill_at` on.

    `kill_at` None: others have told it before, as by a rollout, and gave it a time of their own.
    """

    order: Order
    at: float
    kill_at: float | None

    def grace_left(self, now: float) -> float:
        """Seconds that it may still take."""
        return 0.0 if self.kill_at is None else self.kill_at - now


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """All orders of one workload by their ids. Times are seconds since the epoch.

    `replicas` is the scale that the workload shall have, and `gone` are ids that have ended, with the time of that.
    """

    replicas: int
    orders: dict[str, Order] = {}
    ending: dict[str, Ending] = {}
    gone: dict[str, float] = {}


def bound(record: Record, pods: Sequence[PodState], now: float) -> Record:
    """Give pods to orders that have none, the oldest first, and take over pods that nobody has ordered.

    Of those, no more are taken over than the workload shall have: what is beyond that is about to go.
    """
    active = {pod.uid: pod for pod in pods if pod.is_active}
    orders = {id_: _renewed(order, active.get(order.uid), now) for id_, order in record.orders.items()}
    taken = {order.uid for order in orders.values()} | {ending.order.uid for ending in record.ending.values()}
    free = sorted((pod for uid, pod in active.items() if uid not in taken), key=lambda pod: pod.age_key)
    waiting = sorted((order.at, id_) for id_, order in orders.items() if not order.uid)
    for (at, id_), pod in zip(waiting, free, strict=False):
        orders[id_] = _renewed(Order(at, pod.name, pod.uid), pod, now)
    here = {pod.uid for pod in pods}
    ending = {id_: one for id_, one in record.ending.items() if one.order.uid in here}
    gone = {id_: at for id_, at in record.gone.items() if 0.0 <= now - at < GONE_SECONDS}
    gone |= dict.fromkeys(record.ending.keys() - ending.keys(), now)
    record = Record(record.replicas, orders, ending, gone)
    for pod in free[len(waiting) :]:
        if len(_living(record, pods)) < record.replicas:
            orders[pod.uid] = _renewed(Order(pod.created, pod.name, pod.uid), pod, now)
    return record


def _renewed(order: Order, pod: PodState | None, now: float) -> Order:
    """Note what has become of an order's pod."""
    if not order.uid or order.ready:
        return order
    if pod is None:
        return Order(order.at, waits=now)
    return msgspec.structs.replace(order, ready=pod.rank[2])


def started(record: Record, ids: Iterable[str], pods: Sequence[PodState], now: float, *, is_ordered: bool) -> Record:
    """Order replicas; ids that were ordered before are not ordered again. They may have pods that are there already."""
    known = record.orders.keys() | record.ending.keys() | record.gone.keys()
    orders = record.orders | {id_: Order(now) for id_ in ids if id_ not in known}
    record = bound(msgspec.structs.replace(record, orders=orders), pods, now)
    return _sized(record, pods, is_ordered=is_ordered)


def stopped(
    record: Record,
    ids: Collection[str],
    grace_seconds: float,
    pods: Sequence[PodState],
    now: float,
    *,
    is_ordered: bool,
) -> Record:
    """Order replicas to end; ids that are unknown are passed over."""
    orders, ending, gone = dict(record.orders), dict(record.ending), dict(record.gone)
    here, kill_at = {pod.uid: pod for pod in pods}, now + grace_seconds
    for id_ in ids:
        if (order := orders.pop(id_, None)) is not None:
            if order.uid in here:
                ending[id_] = Ending(order, now, None if here[order.uid].is_terminating else kill_at)
            else:
                gone[id_] = now
        elif (told := ending.get(id_)) is not None and told.kill_at is not None:
            ending[id_] = Ending(told.order, told.at, min(told.kill_at, kill_at))
    if orders == record.orders and ending == record.ending:
        return record
    return _sized(Record(record.replicas, orders, ending, gone), pods, is_ordered=is_ordered)


def _living(record: Record, pods: Iterable[PodState]) -> list[Order]:
    """The orders that wait for a pod, or whose pod has not ended or been told to."""
    active = {pod.uid for pod in pods if pod.is_active}
    return [order for order in record.orders.values() if not order.uid or order.uid in active]


def _sized(record: Record, pods: Sequence[PodState], *, is_ordered: bool) -> Record:
    """Have one replica for each order that has not lost its pod.

    Of what is ordered those with the highest indexes go. So it reaches up to the last that stays, and what is begun
    anew below that is taken over.
    """
    living = _living(record, pods)
    size = len(living)
    if is_ordered:
        uids = {order.uid for order in living}
        size = max([size, *(pod.index + 1 for pod in pods if pod.uid in uids)])
    return msgspec.structs.replace(record, replicas=size)
