"""No policy keeps anything of a replica that is gone for good, however many come and go."""

import gc
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import pytest

from loadtest.simulation.baselines import POLICIES
from protos.types import Timing, Work
from routing.contracts.policy import Ended, Left, Routed, Stepped
from tests.contract.test_policy import SETTINGS
from tests.views import ask, view


def strings_in(root: object) -> Iterator[str]:
    """Every string that is held, in fields, slots and containers alike."""
    seen: set[int] = set()
    waiting: list[Any] = [root]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type | ModuleType | FunctionType):
            continue
        seen.add(id(one))
        if isinstance(one, str):
            yield one
        # Of dictionaries with strings alone as keys it gives the values alone.
        waiting += one if isinstance(one, dict) else ()
        waiting += gc.get_referents(one)


@pytest.mark.parametrize("name", sorted(POLICIES))
@pytest.mark.parametrize("chosen", sorted(SETTINGS))
def test_what_is_gone_is_forgotten(name: str, chosen: str) -> None:
    policy = POLICIES[name](SETTINGS[chosen])
    for number in range(5):
        request = ask(40_000, now=1.0, chain=(1, 2, 3), request_id=f"r{number}")
        there = view(f"gone/{number}", steps=5)
        decision = policy.pick(request, [there])
        policy.observe(Routed(request, decision))
        policy.observe(Stepped(there, Work(us=1000, sequences=1)))
        # The last one never ends.
        if number < 4:
            policy.observe(Ended(request, decision, 0, 5, 0.1, Timing(1, 1, 1)))
        policy.observe(Left(there.id))
    here = view("here/0")
    for _ in range(2):
        policy.observe(Routed(ask(1), policy.pick(ask(1, now=1000.0), [here])))
    assert [text for text in strings_in(policy) if text.startswith("gone/")] == []
