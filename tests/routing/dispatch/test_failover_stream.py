import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import routing.transports.session_transport
from protos.errors import (
    ClientGone,
    InternalError,
    ReplicaDraining,
    ReplicaFailed,
    ReplicaUnavailable,
)
from protos.types import FinishReason, Submit
from routing.contracts.policy import Ended, Routed
from routing.dispatch.dispatch import RequestHandle
from routing.dispatch.dispatch_context import DispatchContext
from routing.dispatch.failover_stream import FailoverStream
from routing.dispatch.migration import MAX_ATTEMPTS, MAX_MOVES, History, after_loss
from routing.policies.round_robin import RoundRobin
from tests.harness import submit_of
from tests.loops import until
from tests.routing.mortal import DRAINED, FAILED, HUNG, LOST, Answer, Death, begin, mortals, read, whole_answer

WAYS = [LOST, FAILED, DRAINED]
LOST_ERROR = ReplicaUnavailable("lost")


@pytest.fixture(autouse=True)
def no_reconnects(monkeypatch: pytest.MonkeyPatch) -> None:
    # A replica that is lost stays lost for the test.
    monkeypatch.setattr(routing.transports.session_transport, "FIRST_RETRY_SECONDS", 60.0)


async def survived(submit: Submit, *deaths: Death, **options: Any) -> tuple[Answer, list[list[Submit]]]:
    """The answer of a fleet whose replicas die so, and what each was asked."""
    async with mortals(*deaths, **options) as (fleet, engines):
        answer = await read(await begin(fleet, submit), submit.sampling.n)
        await until(lambda: not any(engine.open for engine in engines if not engine.dead.is_set()))
        return answer, [engine.submitted for engine in engines]


def same(answer: Answer, expected: Answer) -> None:
    assert answer.tokens == expected.tokens
    assert answer.logprobs == expected.logprobs
    assert [finish.reason for finish in answer.finishes] == [finish.reason for finish in expected.finishes]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "fields",
    [
        {"n": 1},
        {"n": 3},
        {"n": 2, "logprobs": 3},
        {"n": 1, "delta_interval": 4},
        {"n": 3, "delta_interval": 0},
        {"n": 1, "delta_interval": 4, "hold_ms": 60_000},
        {"n": 3, "delta_interval": 2, "hold_ms": 60_000},
        {"n": 2, "ignore_eos": False, "min_tokens": 9},
        {"n": 2, "stop_token_ids": (31, 52, 83)},
    ],
    ids=str,
)
@pytest.mark.parametrize("steps", [1, 5])
async def test_an_answer_is_the_same_when_its_replica_goes_away(way: str, fields: dict[str, Any], steps: int) -> None:
    submit = submit_of(24, prompt=range(40), **fields)
    expected = await whole_answer(submit)
    answer, asked = await survived(submit, Death(steps, way), Death())
    same(answer, expected)
    assert len(asked[0]) == 1
    # What reached the gateway before is not asked for again: all of it where nothing did.
    if asked[1] and asked[1] != [submit]:
        assert {request.sampling.n for request in asked[1]} == {1}


async def test_finished_answers_are_not_asked_for_again() -> None:
    submit = submit_of(200, n=6, ignore_eos=False)
    expected = await whole_answer(submit)
    short = min(len(tokens) for tokens in expected.tokens)
    assert short < max(len(tokens) for tokens in expected.tokens)
    answer, asked = await survived(submit, Death(short + 3, FAILED), Death())
    same(answer, expected)
    assert 0 < len(asked[1]) < 6
    for request in asked[1]:
        own = expected.tokens[request.sequence]
        assert request.prompt_ids == [*submit.prompt_ids, *own[: request.generated]]
        assert (request.max_tokens, request.delta_interval) == (200 - request.generated, 1)


async def test_what_nobody_needs_any_more_is_not_asked_for_again() -> None:
    async with mortals(Death(3), Death()) as (fleet, engines):
        dispatched = await begin(fleet, submit_of(30, n=3))
        dispatched.stream.dismiss(1)
        over: set[int] = set()
        while len(over) < 2:
            over |= {event[0] for event in await dispatched.stream.receive() if event[3] is not None}
        assert over == {0, 2}
        assert sorted(request.sequence for request in engines[1].submitted) == [0, 2]
        dispatched.stream.close()


async def test_an_answer_survives_several_deaths_and_says_where_it_is_now() -> None:
    submit = submit_of(60, n=2)
    expected = await whole_answer(submit)
    deaths = [Death(4, LOST), Death(5, FAILED), Death(6, FAILED), Death()]
    async with mortals(*deaths) as (fleet, _):
        dispatched = await begin(fleet, submit)
        assert dispatched.stream.replica_id == "p/0"
        same(await read(dispatched, 2), expected)
        assert dispatched.stream.replica_id == "p/3"


async def test_moves_are_bounded_but_for_those_of_drained_replicas() -> None:
    submit = submit_of(80)
    with pytest.raises(ReplicaUnavailable):
        await survived(submit, *[Death(3)] * (MAX_MOVES + 1), Death())
    same((await survived(submit, *[Death(3, DRAINED)] * 6, Death()))[0], await whole_answer(submit))


def test_attempts_before_the_first_token_are_bounded_but_for_drained_replicas() -> None:
    history: History | None = History()
    for number in range(MAX_ATTEMPTS):
        assert history is not None
        drained = after_loss(history, f"d/{number}", ReplicaDraining("drained"), 0, progressed=False)
        assert drained is not None
        history = after_loss(drained, f"p/{number}", ReplicaUnavailable("lost"), 0, progressed=False)
    assert history is None


async def test_two_engines_that_fail_at_the_same_token_are_enough() -> None:
    async with mortals(Death(3, FAILED), Death(0, FAILED), Death()) as (fleet, engines):
        with pytest.raises(ReplicaFailed):
            await read(await begin(fleet, submit_of(20)))
        assert engines[2].submitted == []


async def test_without_another_replica_the_stream_ends_with_what_happened() -> None:
    for way, kind in ((LOST, ReplicaUnavailable), (FAILED, ReplicaFailed), (DRAINED, ReplicaDraining)):
        with pytest.raises(kind):
            await survived(submit_of(20), Death(3, way))


async def test_who_left_is_not_moved() -> None:
    async with mortals(Death(), Death()) as (fleet, engines):
        handle = RequestHandle()
        dispatched = await begin(fleet, submit_of(30_000), handle)
        handle.fail(ClientGone("left"))
        with pytest.raises(ClientGone):
            await dispatched.stream.receive()
        assert dispatched.stream.failed
        await until(lambda: not engines[0].open)
        assert engines[1].submitted == []
        dispatched.stream.close()


async def test_closing_after_a_move_stops_the_replica_that_has_it_now() -> None:
    async with mortals(Death(2), Death()) as (fleet, engines):
        dispatched = await begin(fleet, submit_of(30_000, n=2))
        while len(engines[1].open) < 2:
            await dispatched.stream.receive()
        dispatched.stream.close()
        dispatched.stream.close()
        await until(lambda: not engines[1].open)


async def test_a_policy_hears_of_each_attempt_once_and_of_its_end_once() -> None:
    class Listening(RoundRobin):
        def __init__(self) -> None:
            super().__init__()
            self.reports: list[Any] = []

        def observe(self, report: Any) -> None:
            self.reports.append(report)
            raise ValueError("a defect of the policy harms nobody")

    logging.getLogger("routing.dispatch.dispatch_context").disabled = True
    try:
        policy = Listening()
        async with mortals(Death(4), Death()) as (fleet, _):
            answer = await read(
                await begin(fleet, submit_of(20, n=2), dispatch_context=DispatchContext(fleet, policy)), 2
            )
        begun = [report for report in policy.reports if isinstance(report, Routed)]
        ended = [report for report in policy.reports if isinstance(report, Ended)]
        assert [report.decision.replica.id for report in begun] == ["p/0", "p/1", "p/1"]
        assert sorted(id(r.decision) for r in begun) == sorted(id(r.decision) for r in ended)
        assert sum(report.output_tokens for report in ended) == sum(len(tokens) for tokens in answer.tokens) == 40
        assert all(report.ttft is not None for report in ended)
    finally:
        logging.getLogger("routing.dispatch.dispatch_context").disabled = False


async def test_the_cached_tokens_are_those_of_the_first_attempt() -> None:
    async with mortals(Death(6), Death()) as (fleet, _):
        submit = submit_of(4, prompt=range(100))
        dispatch_context = DispatchContext(fleet, RoundRobin())
        await read(await begin(fleet, submit, dispatch_context=dispatch_context))  # p/0
        await read(await begin(fleet, submit, dispatch_context=dispatch_context))  # p/1
        dispatched = await begin(fleet, submit_of(30, prompt=range(200)), dispatch_context=dispatch_context)
        await read(dispatched)
        assert dispatched.stream.replica_id == "p/1"
        assert dispatched.stream.cached_tokens == 96


DEATHS = st.lists(
    st.builds(Death, st.one_of(st.none(), st.integers(0, 12)), st.sampled_from([LOST, DRAINED])), max_size=3
)


@settings(max_examples=40, deadline=None, suppress_health_check=[*HealthCheck])
@given(
    deaths=DEATHS,
    n=st.integers(1, 3),
    interval=st.integers(0, 3),
    logprobs=st.sampled_from([None, 2]),
    tokens=st.integers(1, 20),
)
async def test_whatever_dies_when_the_answer_is_that_of_a_fleet_where_nothing_does(
    deaths: list[Death], n: int, interval: int, logprobs: int | None, tokens: int
) -> None:
    submit = submit_of(tokens, n=n, delta_interval=interval, logprobs=logprobs, ignore_eos=False)
    # At most two attempts before the first token, and at most three moves: never more than may be.
    kept = deaths[: MAX_ATTEMPTS - 1]
    expected = await whole_answer(submit, output_tokens=11)
    same((await survived(submit, *kept, Death(), output_tokens=11))[0], expected)


async def test_an_answer_that_only_lacked_its_end_is_not_asked_for_again() -> None:
    async with mortals(Death(2, HUNG), Death()) as (fleet, engines):
        submit = submit_of(5, delta_interval=1)
        dispatched = await begin(fleet, submit)
        await engines[0].dead.wait()
        stream = dispatched.stream
        assert isinstance(stream, FailoverStream)
        attempt = stream._attempts[0]
        stream.put((0, range(5 - len(stream.tokens[0])), None, None))
        assert attempt.leg is not None
        attempt.leg.fail(LOST_ERROR)
        answer = await read(dispatched)
        assert (answer.finishes[0].reason, answer.finishes[0].completion_tokens) == (FinishReason.LENGTH, 5)
        assert engines[1].submitted == []


async def test_a_defect_on_the_way_ends_the_stream_and_not_the_session(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(RoundRobin):
        def pick(self, request: Any, candidates: Any) -> Any:
            if len(candidates) == 1:
                raise ValueError("a defect of the policy")
            return super().pick(request, candidates)

    async with mortals(Death(3), Death()) as (fleet, engines):
        with pytest.raises(InternalError):
            await read(await begin(fleet, submit_of(20), dispatch_context=DispatchContext(fleet, Broken())))
        assert "a defect of the policy" in caplog.text
        assert engines[1].submitted == []
