import asyncio
import math

from msgspec.structs import replace

from gateway.config.admission import AdmissionSettings
from gateway.scheduling.admission import Admission
from gateway.scheduling.queue_at_zero import QueueAtZero
from routing.contracts.policy import RouteRequest
from routing.contracts.versions import NAMED, VersionBits
from routing.dispatch.dispatch import RequestHandle
from routing.policies.least_load import LeastLoad
from tests.gateway.scheduling.bench import LIMIT, Bench, settle

BITS = VersionBits()
V1, V2 = BITS.bit("v1"), BITS.bit("v2")


def bench_of_two() -> Bench:
    """A replica of each version."""
    bench = Bench("old", "new")
    for name, version in (("old", "v1"), ("new", "v2")):
        view = bench.fleet.views[name]
        bench.fleet.views[name] = replace(view, features=view.features | BITS.marks(version))
    return bench


def wait(bench: Bench, tenant: str, needs: int) -> "asyncio.Task[Admission]":
    request = replace(bench.request(tenant), route=RouteRequest("r", 10, 10, needs=needs))
    assert bench.admission_queue.try_enter(request) is None
    return asyncio.create_task(bench.admission_queue.enter(request, RequestHandle()))


async def test_waiting_requests_leave_a_version_that_serves_no_more() -> None:
    """But those that named it."""
    bench = bench_of_two()
    bench.fleet.running("new", LIMIT)
    moved, other, named = (wait(bench, tenant, needs) for tenant, needs in [("a", V2), ("b", V2), ("a", V2 | NAMED)])
    await settle()
    assert not moved.done() and not other.done()
    bench.admission_queue.move_waiting(V2, V1)
    bench.fleet.on_load()
    await settle()
    for task in (moved, other):
        admission = task.result()
        assert admission.replica_id == "old"
        assert admission.route.needs == V1
        admission.release(0)
    assert not named.done()
    bench.fleet.running("new", -LIMIT)
    await settle()
    assert named.result().replica_id == "new"
    named.result().release(0)
    bench.check_empty()


async def test_a_version_without_room_holds_up_no_request_of_another() -> None:
    bench = bench_of_two()
    bench.fleet.running("old", LIMIT)
    bench.fleet.running("new", LIMIT)
    waiting = [wait(bench, "a", V2) for _ in range(12)]
    behind = wait(bench, "a", V1)
    await settle()
    bench.fleet.running("old", -1)
    await settle()
    assert behind.result().replica_id == "old"
    assert not any(task.done() for task in waiting)
    behind.result().release(0)
    for task in waiting:
        task.cancel()
    await settle()
    bench.check_empty()


async def test_a_version_whose_first_replica_is_being_started_is_waited_for() -> None:
    """Whatever is there of another one."""
    bench = bench_of_two()
    queue = QueueAtZero(bench.fleet, LeastLoad(), AdmissionSettings(), 60.0, lambda: bench.now)
    bench.admission_queue = queue
    old = bench.fleet.views.pop("old")
    waiting = wait(bench, "a", V1)
    await settle()
    bench.fleet.on_load()
    await settle()
    assert not waiting.done()
    bench.fleet.views["old"] = old
    bench.fleet.on_load()
    await settle()
    assert waiting.result().replica_id == "old"
    waiting.result().release(0)
    queue.first_replica_in = lambda: math.inf
    del bench.fleet.views["old"]
    missing = queue.try_enter(replace(bench.request(), route=RouteRequest("r", 10, 10, needs=V1)))
    assert missing is not None and missing.decision is None
    missing.release(0)
