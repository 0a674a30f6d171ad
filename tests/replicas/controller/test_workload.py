import random

import pytest

from replicas.controller.workload import ENOUGH, Workload, learned_workload, workload_of
from tests.replicas.controller.samples import OUTPUT, PROMPT, demand

KNOWN = Workload(prompt=1000.0, cached=0.0, output=100.0)


def test_means_of_many_requests_hold_at_once() -> None:
    seen = demand(10.0)
    assert learned_workload(KNOWN, seen, 1.0) == workload_of(seen)
    assert learned_workload(None, demand(0.1), 1.0) == workload_of(demand(0.1))


def test_means_of_few_requests_are_followed_as_slowly_as_they_come() -> None:
    found: Workload | None = KNOWN
    for _ in range(round(ENOUGH / 0.5)):
        found = learned_workload(found, demand(0.5), 1.0)
    assert found is not None
    # After as many requests as are enough, all but a share of 1/e has gone over.
    assert found.prompt == pytest.approx(PROMPT + (KNOWN.prompt - PROMPT) * 0.368, rel=0.01)
    assert found.output == pytest.approx(OUTPUT + (KNOWN.output - OUTPUT) * 0.368, rel=0.01)


def test_without_requests_nor_for_a_clock_that_goes_back_nothing_is_learned() -> None:
    assert learned_workload(KNOWN, demand(0.5, prompt_tokens=0.0), 60.0) == KNOWN
    assert learned_workload(KNOWN, demand(0.5), -60.0) == KNOWN
    assert learned_workload(None, demand(0.5, prompt_tokens=0.0), 60.0) is None


def test_lengths_with_a_long_tail_change_what_is_known_of_them_by_little() -> None:
    rng = random.Random(1)
    found, spread = KNOWN, []
    for second in range(4000):
        # Means of 60 requests, of which each tenth is twenty times as long.
        mean = sum(10_000.0 if rng.random() < 0.1 else 500.0 for _ in range(60)) / 60
        learned = learned_workload(found, demand(0.5, prompt_tokens=mean), 1.0)
        assert learned is not None
        found = learned
        if second > 3000:
            spread.append(found.prompt)
    assert max(spread) < 1.2 * min(spread)
