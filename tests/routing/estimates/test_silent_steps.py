"""What answers of engines that tell nothing let guess of their steps."""

import pytest

from protos.types import Load, Role, Shape, Timing, Work
from routing.contracts.policy import Decision, Ended, ReplicaView, RouteRequest
from routing.contracts.policy_settings import PolicySettings
from routing.estimates.silent_steps import is_silent, steps_of
from routing.policies.auto import Auto


def view(pool: str, running: int = 3) -> ReplicaView:
    return ReplicaView(f"{pool}/0", pool, Shape(), Role.BOTH, Load(running=running, tokens_in_flight=900), sent=1)


def ended(pool: str, *, ttft: float | None, seconds: float, output: int = 11, prompt: int = 500) -> Ended:
    request = RouteRequest("r", prompt, 100, expected_output=output)
    return Ended(request, Decision(view(pool)), 100, output, ttft, Timing(), seconds)


def test_a_streamed_answer_is_a_step_of_its_prompt_and_one_of_its_tokens() -> None:
    assert is_silent(view("a"))
    assert list(steps_of(ended("a", ttft=0.4, seconds=0.9))) == [
        Work(400_000, prefill_tokens=400),
        Work(50_000, sequences=4, context=900),
    ]


@pytest.mark.parametrize(
    ("ttft", "seconds", "output"),
    [(None, 3.0, 11), (2.0, 2.0, 11), (0.5, 0.5, 1)],
    ids=["no token", "came whole", "one token"],
)
def test_of_others_nothing_is_known(ttft: float | None, seconds: float, output: int) -> None:
    assert not list(steps_of(ended("a", ttft=ttft, seconds=seconds, output=output)))


def test_auto_prefers_the_upstream_that_has_answered_sooner() -> None:
    policy = Auto(PolicySettings())
    for _ in range(100):
        policy.observe(ended("slow", ttft=2.0, seconds=5.0))
        policy.observe(ended("quick", ttft=0.2, seconds=0.5))
    request = RouteRequest("r", 500, 100, expected_output=50.0)
    assert policy.pick(request, [view("slow"), view("quick")]).replica.pool == "quick"
    assert policy.pick(request, [view("slow", running=0), view("quick", running=0)]).replica.pool == "quick"
