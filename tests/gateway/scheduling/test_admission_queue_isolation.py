"""What a flood of long prompts does to a light tenant's time to first token, with the queue and without it."""

from functools import cache

import pytest

from tests.gateway.scheduling.simulation import Clients, Outcome, closed_loop, poisson, simulate

pytestmark = pytest.mark.slow

SECONDS = 130.0
#: A light tenant: small chat requests, five a second.
CHAT = poisson("chat", 5.0, 200, 100)
FLOOD_START = 10.0
#: What isolation is measured by: the light tenant's p99 beside a flood over its p99 alone.
BOUND = 1.5


def flood(prompt: int) -> Clients:
    return closed_loop("flood", 64, prompt, 200, start=FLOOD_START)


@cache
def alone(workers: int) -> float:
    """The light tenant's p99 without any other."""
    return p99(simulate(CHAT, seconds=SECONDS, workers=workers))


def p99(outcome: Outcome) -> float:
    return outcome.percentile("chat", 0.99)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("prompt", [30_000, 100_000])
def test_a_flood_of_long_prompts_does_not_hold_up_a_light_tenant(prompt: int, workers: int) -> None:
    beside = simulate(CHAT, flood(prompt), seconds=SECONDS, workers=workers)
    unguarded = simulate(CHAT, flood(prompt), seconds=SECONDS, workers=workers, admission=False)
    assert p99(beside) <= BOUND * alone(workers)
    assert p99(unguarded) > 20 * BOUND * alone(workers)
    # The flood is served all the while, on half of the fleet at least.
    assert len(beside.ttft["flood"]) > 0.4 * len(unguarded.ttft["flood"])
    assert not beside.shed


def test_a_flood_that_was_there_first_costs_no_more_than_the_prompts_that_are_already_running() -> None:
    early = simulate(CHAT, closed_loop("flood", 64, 30_000, 200), seconds=60.0)
    slow = [seconds for seconds in early.ttft["chat"] if seconds > 0.1]
    assert len(slow) <= 3
    assert max(early.ttft["chat"]) < 1.0


def test_a_flood_of_long_answers_leaves_room_in_the_cache() -> None:
    answers = closed_loop("flood", 256, 1500, 2000, start=FLOOD_START)
    small = {"seconds": 60.0, "kv_part": 0.03}
    beside = simulate(CHAT, answers, **small)  # type: ignore[arg-type]
    unguarded = simulate(CHAT, answers, admission=False, **small)  # type: ignore[arg-type]
    assert p99(beside) < 0.05
    assert p99(unguarded) > 5.0


def test_two_floods_and_many_light_tenants_share_the_fleet() -> None:
    floods = [closed_loop(name, 64, 30_000, 200, start=FLOOD_START) for name in ("one", "two")]
    light = [poisson(f"light{number}", 5.0, 300, 100) for number in range(10)]
    outcome = simulate(CHAT, *light, *floods, seconds=60.0)
    assert max(outcome.percentile(f"light{number}", 0.99) for number in range(10)) < 0.05
    one, two = len(outcome.ttft["one"]), len(outcome.ttft["two"])
    assert min(one, two) > 0.6 * max(one, two)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_tenant_that_is_alone_loses_nothing_by_waiting_at_the_gateway(workers: int) -> None:
    for clients in (closed_loop("only", 64, 30_000, 200), closed_loop("only", 512, 1500, 300)):
        waiting = simulate(clients, seconds=40.0, workers=workers)
        straight = simulate(clients, seconds=40.0, workers=workers, admission=False)
        assert len(waiting.ttft["only"]) >= 0.97 * len(straight.ttft["only"])
