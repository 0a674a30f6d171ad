"""Scenarios: the ways in which a candidate is worse than the stable version."""

from typing import Final

import msgspec


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate beside the stable version.

    Its times are `slower` times as long, those of prompts of 4,096 tokens or more another `long_prompts` times, and
    they grow by the part `leak` each minute. `errors` and `broken_calls` are shares of its requests, and of its answers
    with tool calls, that fail more often. `sized`: it has replicas for its share alone, else as many as the stable
    version from the start. `good`: it is as good, so that a rollback is a false one.
    """

    name: str
    slower: float = 1.0
    long_prompts: float = 1.0
    leak: float = 0.0
    errors: float = 0.0
    broken_calls: float = 0.0
    sized: bool = True

    @property
    def good(self) -> bool:
        """Whether it is as good."""
        return (self.slower, self.long_prompts, self.leak, self.errors, self.broken_calls) == (1.0, 1.0, 0.0, 0.0, 0.0)


SCENARIOS: Final = (
    Scenario(name="as good, replicas by share"),
    Scenario(name="as good, all replicas at once", sized=False),
    Scenario(name="30 % slower", slower=1.3),
    Scenario(name="30 % slower, all replicas at once", slower=1.3, sized=False),
    Scenario(name="fails 2 %", errors=0.02),
    Scenario(name="breaks 3 % of tool calls", broken_calls=0.03),
    Scenario(name="twice as slow for long prompts", long_prompts=2.0),
    Scenario(name="leaks 10 % a minute", leak=0.1),
)
