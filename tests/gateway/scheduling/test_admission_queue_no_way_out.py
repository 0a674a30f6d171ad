"""What waits is not left to wait for what cannot come: replicas that are gone, room that no replica has."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.scheduling.admission import AdmissionRequest
from gateway.scheduling.division import Divider, Division
from gateway.scheduling.hold import HOLD_SECONDS
from gateway.scheduling.shares import ActiveTenant
from protos.errors import InternalError, ReplicaUnavailable
from routing.contracts.policy import BetterWait, Decision, ReplicaView, RouteRequest
from routing.dispatch.dispatch import RequestHandle
from routing.policies.least_load import LeastLoad
from tests.gateway.scheduling.bench import LIMIT, Bench, settle
from tests.gateway.scheduling.test_admission_queue_pairs import bench_of


class Patient(LeastLoad):
    """Lets every request wait that may, as long as anything runs."""

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        if request.may_wait and all(view.load.running for view in candidates):
            raise BetterWait
        return super().pick(request, candidates)


class Broken(LeastLoad):
    """Cannot decide on long prompts."""

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        if request.prompt_tokens > 100:
            raise ZeroDivisionError("a bug")
        return super().pick(request, candidates)


def that_may_wait(request: AdmissionRequest) -> AdmissionRequest:
    return replace(request, route=replace(request.route, may_wait=True))


@pytest.mark.parametrize("names", [("b0", "b1"), ("p", "d")])
async def test_all_that_wait_are_turned_away_when_the_last_replica_goes(names: tuple[str, str]) -> None:
    bench = bench_of(*names)
    turns = [bench.admission_queue.try_enter(bench.request()) for _ in range(2 * LIMIT)]
    waiting = [bench.wait(tenant) for tenant in ("a", "a", "b")]
    gone = asyncio.create_task(bench.admission_queue.enter(bench.request("c"), RequestHandle()))
    await settle()
    gone.cancel()
    for name in names:
        del bench.fleet.views[name]
        bench.fleet.on_load()
    for task in waiting:
        with pytest.raises(ReplicaUnavailable) as caught:
            await task
        assert (caught.value.status, caught.value.retry_after) == (503, 1.0)
    with pytest.raises(asyncio.CancelledError):
        await gone
    for admission in turns:
        if admission is not None:
            admission.release(0)
    bench.check_empty()


@pytest.mark.parametrize("fields", [{"n": LIMIT + 1}, {"prompt": 320_001}])
async def test_what_no_replica_could_ever_hold_does_not_wait_for_a_better_moment(fields: dict[str, Any]) -> None:
    bench = Bench("p/0", "p/1")
    turns = [bench.enter() for _ in range(2)]
    bench.admission_queue._policy = Patient()
    assert bench.admission_queue.try_enter(that_may_wait(bench.request())) is None
    admission = bench.admission_queue.try_enter(that_may_wait(bench.request(**fields)))
    assert admission is not None
    for other in [admission, *turns]:
        assert other is not None
        other.release(0)
    bench.check_empty()


async def test_a_policy_that_fails_on_a_request_fails_that_one_alone() -> None:
    bench = Bench("p/0")
    turns = bench.fill()
    long, short = bench.wait(prompt=200), bench.wait("b")
    await settle()
    bench.admission_queue._policy = Broken()
    bench.end(turns.pop())
    with pytest.raises(InternalError):
        await long
    for admission in [await short, *turns]:
        admission.release(0)
    bench.check_empty()


async def test_another_replica_is_kept_when_the_kept_one_is_gone() -> None:
    bench = Bench("p/0", "p/1", kv_blocks=100)
    turns = [bench.enter() for _ in range(2)]
    large = bench.wait(prompt=3000)
    await settle()
    bench.admission_queue.pump()
    bench.now = HOLD_SECONDS
    bench.admission_queue.pump()
    (held,) = bench.admission_queue._hold.replicas
    view = bench.fleet.views.pop(held)
    bench.fleet.on_load()
    assert bench.admission_queue._hold.replicas == {"p/0", "p/1"} - {held}
    bench.fleet.views[held] = view
    for admission in turns:
        assert admission is not None
        bench.end(admission)
    (await large).release(0)
    bench.check_empty()


async def test_a_replica_that_comes_and_goes_does_not_divide_the_fleet_anew_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[int] = []
    divide = Divider._divide

    def noted(self: Divider, views: Sequence[ReplicaView], now: float) -> Division:
        made.append(len(views))
        return divide(self, views, now)

    monkeypatch.setattr(Divider, "_divide", noted)

    bench = Bench("p/0", "p/1", "p/2")
    bench.admission_queue.active_elsewhere = [ActiveTenant("b", 1, 1.0, 0.0)]
    returning = bench.fleet.views.pop("p/2")
    for number in range(6):
        if number % 2:
            bench.fleet.views["p/2"] = returning
        else:
            bench.fleet.views.pop("p/2", None)
        admission = bench.admission_queue.try_enter(bench.request())
        assert admission is not None
        admission.release(0)
    assert made == [2, 3]
    bench.check_empty()


async def test_only_where_a_prompt_is_computed_is_it_counted_as_such() -> None:
    bench = bench_of("p0", "p1", "d0", "d1")
    admission = bench.admission_queue.try_enter(bench.request())
    assert admission is not None
    assert admission.decision is not None
    # Its pair failed, and another one takes it.
    prefill, decode = ("p1", "d1") if admission.replica_id == "p0" else ("p0", "d0")
    admission.opened(admission.replica_id or "")
    admission.opened(prefill)
    assert admission.tenant.prefill == {prefill: 10}
    admission.started()
    admission.opened(decode, computes=False)
    assert admission.tenant.prefill == {}
    admission.release(0)
    bench.check_empty()
