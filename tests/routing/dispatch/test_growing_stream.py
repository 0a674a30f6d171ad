"""Answers that become longer than their narrow replica holds go on where more fits, token for token."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from protos.types import FinishReason
from replicas.engine_limits import CapacityPolicy
from routing.contracts.hedging_settings import Hedging
from routing.contracts.policy import Decision, ReplicaView, RouteRequest
from routing.dispatch.dispatch_context import DispatchContext
from routing.fleet.fleet import Fleet
from routing.policies.round_robin import RoundRobin
from tests.harness import answers_of, engine_of, serving, submit_of
from tests.routing.fleets import fleet_at
from tests.routing.mortal import Answer, begin, read

#: KV blocks of 32 tokens.
NARROW, WIDE = {"kv_blocks_total": 4}, {"kv_blocks_total": 64}
HELD = 4 * 32
#: Tokens of an answer to the usual prompt that a narrow replica holds.
SHORT = HELD - 3


class First(RoundRobin):
    """Chooses the first candidate."""

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        return Decision(candidates[0], None, "the first")


@contextlib.asynccontextmanager
async def fleet_of(*sizes: dict[str, Any], wide_tokens: int = 64 * 32) -> AsyncIterator[Fleet]:
    """Replicas of these sizes, of a model whose shapes change where there are `wide_tokens`."""
    async with contextlib.AsyncExitStack() as stack:
        engines = [engine_of(policy=CapacityPolicy.MAX_UTILIZATION, **size) for size in sizes]
        found = [await stack.enter_async_context(serving(engine)) for engine in engines]
        fleet = await stack.enter_async_context(fleet_at(*(address for _, address in found)))
        fleet.launch(HELD if wide_tokens else 0, wide_tokens)
        yield fleet


async def answer_at(fleet: Fleet, hedging: Hedging | None = None, **options: Any) -> tuple[Answer, int]:
    """An answer of up to 300 tokens to each sequence, and how often they went on elsewhere."""
    submit = submit_of(300, **options)
    context = DispatchContext(fleet, First(), hedging=hedging)
    begun = await begin(fleet, submit, dispatch_context=context)
    answer = await read(begun, submit.sampling.n)
    begun.stream.close()
    return answer, begun.stream.migrations


@pytest.mark.parametrize("hedging", [None, Hedging(after_ms=60_000, max_prompt_tokens=100)])
@pytest.mark.parametrize("n", [1, 3])
async def test_an_answer_goes_on_at_a_wider_replica(n: int, hedging: Hedging | None) -> None:
    whole = await answers_of(submit_of(300, n=n))
    async with fleet_of(NARROW, NARROW, WIDE) as fleet:
        answer, migrations = await answer_at(fleet, hedging, n=n)
        assert answer.tokens == whole
        assert [finish.reason for finish in answer.finishes] == [FinishReason.LENGTH] * n
        assert migrations == n
        assert [status.faults for status in fleet.statuses()] == [0, 0, 0]


async def test_it_may_go_on_several_times() -> None:
    async with fleet_of(NARROW, {"kv_blocks_total": 6}, WIDE) as fleet:
        answer, migrations = await answer_at(fleet)
        assert [answer.tokens, migrations] == [await answers_of(submit_of(300)), 2]


@pytest.mark.parametrize(
    ("sizes", "wide_tokens"),
    [
        # Nothing is wider; what is wider takes no more of one sequence; it is for want of something else; no groups.
        ((NARROW, NARROW), 64 * 32),
        ((NARROW, {**WIDE, "max_sequence_tokens": HELD}), 64 * 32),
        (({**WIDE, "max_sequence_tokens": HELD}, WIDE), 64 * 32),
        ((NARROW, WIDE), 0),
    ],
)
async def test_else_it_ends_with_length(sizes: tuple[dict[str, Any], ...], wide_tokens: int) -> None:
    (whole,) = await answers_of(submit_of(300))
    async with fleet_of(*sizes, wide_tokens=wide_tokens) as fleet:
        answer, _ = await answer_at(fleet)
        assert answer.tokens == [whole[:SHORT]]
        assert [finish.reason for finish in answer.finishes] == [FinishReason.LENGTH]
        assert {status.faults for status in fleet.statuses()} == {0}


async def test_what_has_all_that_it_asked_for_does_not_go_on() -> None:
    async with fleet_of(NARROW, WIDE) as fleet:
        submit = submit_of(SHORT)
        begun = await begin(fleet, submit, dispatch_context=DispatchContext(fleet, First()))
        answer = await read(begun)
        assert (answer.tokens, begun.stream.migrations) == (await answers_of(submit), 0)
        begun.stream.close()
