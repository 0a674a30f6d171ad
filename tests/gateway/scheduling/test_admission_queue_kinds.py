"""Requests that only some replicas can serve, in one queue with those that all can."""

from typing import Any

import pytest
from msgspec.structs import replace

from gateway.scheduling.admission import Admission, AdmissionRequest
from gateway.scheduling.candidates import PLAIN, kind_of
from protos.errors import ReplicaUnavailable
from protos.features import Feature
from routing.contracts.policy import RouteRequest
from tests.gateway.scheduling.bench import Bench, settle
from tests.views import view

LOGPROBS = Feature.LOGPROBS.value


class Mixed(Bench):
    """Of its replicas, those named `able...` have logprobs."""

    def __init__(self, *names: str) -> None:
        super().__init__(*names)
        views = self.fleet.views
        for name, one in views.items():
            if not name.startswith("able"):
                views[name] = replace(one, features=one.features & ~LOGPROBS)

    def request(self, tenant: str = "a", **fields: Any) -> AdmissionRequest:
        needs = fields.pop("needs", 0)
        made = super().request(tenant, **fields)
        return replace(made, route=replace(made.route, needs=needs))


async def test_a_request_is_weighed_only_against_replicas_that_can_serve_it() -> None:
    bench = Mixed("able", "poor")
    turns: list[Admission] = []
    while (admission := bench.enter(needs=LOGPROBS)) is not None:
        turns.append(admission)
    assert {admission.replica_id for admission in turns} == {"able"}
    picky = bench.wait(needs=LOGPROBS)
    await settle()
    # The other replica has room, and who can go there passes by.
    plain = [bench.wait("b") for _ in range(3)]
    await settle()
    assert [task.result().replica_id for task in plain] == ["poor"] * 3
    assert not picky.done()
    bench.end(turns.pop())
    assert (await picky).replica_id == "able"
    for admission in [await picky, *turns, *(task.result() for task in plain)]:
        admission.release(0)
    bench.check_empty()


async def test_a_tenants_own_plain_requests_pass_any_number_that_cannot_be_served() -> None:
    bench = Mixed("able", "poor")
    turns = bench.fill("x")
    picky = [bench.wait("a", needs=LOGPROBS) for _ in range(30)]
    await settle()
    plain = bench.wait("a")
    await settle()
    free = next(admission for admission in turns if admission.replica_id == "poor")
    turns.remove(free)
    bench.now += 1.0  # a look at so many for nothing is followed by a rest
    bench.end(free)
    await settle()
    assert plain.result().replica_id == "poor"
    assert not any(task.done() for task in picky)
    for admission in [*turns, plain.result()]:
        bench.now += 1.0
        bench.fleet.running(admission.replica_id or "", -1)
        admission.release(0)
    for task in picky:
        admission = await task
        assert admission.replica_id == "able"
        bench.now += 1.0
        admission.release(0)
    bench.check_empty()


async def test_who_waits_for_a_replica_that_leaves_is_told_and_the_others_wait_on() -> None:
    bench = Mixed("able", "poor")
    turns = bench.fill("x")
    picky, plain = bench.wait("a", needs=LOGPROBS), bench.wait("b")
    await settle()
    assert not picky.done()
    del bench.fleet.views["able"]
    bench.admission_queue.pump()
    with pytest.raises(ReplicaUnavailable):
        await picky
    assert not plain.done()
    bench.end(next(admission for admission in turns if admission.replica_id == "poor"))
    (await plain).release(0)
    for admission in turns:
        admission.release(0)
    bench.check_empty()


async def test_without_any_that_can_there_is_nothing_to_wait_for() -> None:
    bench = Mixed("poor")
    admission = bench.enter(needs=LOGPROBS)
    assert admission is not None
    assert admission.decision is None
    admission.release(0)
    assert bench.admission_queue.consider(bench.request(needs=LOGPROBS)) is None
    assert bench.admission_queue.objections(bench.request(needs=LOGPROBS)) == {}
    bench.check_empty()


def test_what_all_replicas_have_makes_no_kind_of_its_own() -> None:
    everyone = [view("a"), view("b")]
    route = RouteRequest("r", 1, 1, needs=LOGPROBS)
    assert kind_of(route, everyone) == PLAIN
    poor = replace(everyone[0], features=0)
    assert kind_of(route, [*everyone, poor]) == (LOGPROBS, "")
    assert kind_of(replace(route, adapter="x"), everyone) == (0, "x")
