"""When a replica gets a further prompt. Times are of an engine that takes 10 ms a step and 10 us a prompt token."""

import msgspec
import pytest

from protos.types import Load, Role, Shape, Work
from routing.contracts.policy import ReplicaView, RouteRequest
from routing.estimates.pacing import ENGINE_QUEUE, Pacing, has_room
from routing.estimates.replica_class import ReplicaClass, ReplicaClasses

TPOT = 0.05


def view(
    *, running: int = 10, waiting: int = 0, prefill: int = 0, used: int = 0, steps: int = 0, role: Role = Role.BOTH
) -> ReplicaView:
    load = Load(running, waiting, used, 1000, running * 100, False, prefill, 1, steps=steps)
    return ReplicaView("r", "p", Shape(tp=2), role, load, kv_block_tokens=32, max_num_tokens=8192)


def ask(prompt: int, output: float = 20.0) -> RouteRequest:
    return RouteRequest("r", prompt, 500, expected_output=output)


@pytest.fixture
def replicas() -> ReplicaClass:
    made = ReplicaClasses().of(view())
    for _ in range(400):
        made.learn(Work(10_000, sequences=10))
        made.learn(Work(20_480, prefill_tokens=2048))
        made.learn(Work(81_920, prefill_tokens=8192))
    return made


def at(mean: float) -> Pacing:
    pacing = Pacing(TPOT)
    pacing.stepped(view(steps=1), Work(round(mean * 1e6), sequences=10))
    return pacing


def test_a_step_that_stays_near_the_target_is_fine_and_a_longer_one_is_not(replicas: ReplicaClass) -> None:
    pacing = at(0.045)
    assert pacing.ready(view(), replicas, ask(5000))
    assert not pacing.ready(view(prefill=4000), replicas, ask(5000))
    assert pacing.ready(view(prefill=4000), replicas, ask(5000), strain=2.0)


def test_an_idle_replica_takes_anything(replicas: ReplicaClass) -> None:
    assert at(0.2).ready(view(running=0), replicas, ask(500_000))


def test_an_engine_that_says_nothing_of_its_steps_is_not_paced(replicas: ReplicaClass) -> None:
    # An upstream over HTTP: its own scheduler must keep the pace, and only its queue, where it tells, holds requests.
    silent = msgspec.structs.replace(view(running=500), max_num_tokens=0)
    assert at(0.2).ready(silent, replicas, ask(5000))
    queued = msgspec.structs.replace(view(waiting=ENGINE_QUEUE + 1), max_num_tokens=0)
    assert not at(0.2).ready(queued, replicas, ask(5000))


def test_a_long_prompt_comes_when_the_pace_was_kept(replicas: ReplicaClass) -> None:
    assert at(0.02).ready(view(), replicas, ask(50_000 // 2))
    assert not at(0.049).ready(view(), replicas, ask(50_000 // 2))


def test_long_answers_make_good_what_short_ones_cannot(replicas: ReplicaClass) -> None:
    pacing = at(0.03)
    assert not pacing.ready(view(prefill=8000), replicas, ask(2000, output=20))
    assert pacing.ready(view(prefill=8000), replicas, ask(2000, output=800))
    assert not pacing.ready(view(prefill=9000), replicas, ask(2000, output=8000))  # more than a step is there already


def test_a_prefill_replica_has_no_answers_to_keep_up(replicas: ReplicaClass) -> None:
    pacing = at(0.2)
    assert pacing.ready(view(prefill=8000, role=Role.PREFILL), replicas, ask(8000))
    # While a step is computed the next one is put together: else the engine would stand still in between.
    assert pacing.ready(view(prefill=16_000, waiting=20, role=Role.PREFILL), replicas, ask(8000))
    assert not pacing.ready(view(prefill=17_000, role=Role.PREFILL), replicas, ask(8000))


def test_a_target_that_no_two_requests_can_keep_together_does_not_have_prompts_wait(replicas: ReplicaClass) -> None:
    # A prompt of 20,000 tokens takes 0.2 s, and has ten answer tokens: beside another it cannot keep 50 ms.
    alone, prompt = view(running=1), ask(20_000, output=10.0)
    pacing = Pacing(TPOT)
    for steps in range(0, 220, 11):
        pacing.stepped(view(steps=steps), Work(200_000, prefill_tokens=20_000))
        for one in range(1, 11):
            pacing.stepped(view(steps=steps + one), Work(10_000, sequences=1))
    assert pacing.ready(alone, replicas, prompt)
    # Where prompts are usually short the same one waits.
    pacing = Pacing(TPOT)
    for steps in range(220):
        pacing.stepped(view(steps=steps), Work(45_000, prefill_tokens=100, sequences=10))
    assert not pacing.ready(alone, replicas, prompt)


def test_an_engine_that_is_slower_than_the_target_still_gets_work() -> None:
    slow = ReplicaClasses().of(view())
    for _ in range(400):
        slow.learn(Work(200_000, sequences=10))
        slow.learn(Work(200_000, sequences=1))
    assert at(0.2).ready(view(), slow, ask(100))


def test_room_is_what_the_scheduler_would_set_aside() -> None:
    assert has_room(view(used=900), ask(3000))
    assert not has_room(view(used=900), ask(3300))
    assert not has_room(view(waiting=ENGINE_QUEUE + 1), ask(1))
    assert has_room(ReplicaView("r", "p", Shape(), Role.BOTH, Load(running=9)), ask(10**6))  # nothing is known


def test_a_prefill_replica_needs_no_room_for_answers() -> None:
    full = view(used=900, role=Role.PREFILL)
    assert has_room(full, ask(3199))
    assert not has_room(view(used=900), ask(3199))
