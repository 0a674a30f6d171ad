"""Whatever becomes of a request: its lease, its admission and its stream have one ending each."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gateway.inference.generate import generate
from gateway.inference.generate_request import GenerateRequest
from gateway.inference.generation import Generation
from gateway.tenancy.limits.limiter import Usage
from observability.record import RequestRecord
from protos.errors import (
    ClientGone,
    ContextLengthExceeded,
    DeadlineExceeded,
    Overloaded,
    PenstockError,
    QuotaExceeded,
    RateLimited,
    ReplicaFailed,
    ReplicaUnavailable,
    StoreUnavailable,
)
from protos.types import Failure
from tests.fakes import RefusesWith, SilentEngine
from tests.gateway.inference.counted import Bench, Limits, Queue, bench_of
from tests.harness import engine_of
from tests.loops import until
from tests.models import request_of

PROMPT = [5] * 40


def asked(bench: Bench, prompt: Any = PROMPT, **options: Any) -> GenerateRequest:
    fixed: dict[str, Any] = {"record": RequestRecord("r", "chat", 0.0, 0.0)}
    return request_of(bench.model, prompt, 7, **(fixed | options))


@pytest.mark.parametrize("error", [RateLimited("slowly"), QuotaExceeded("spent"), StoreUnavailable("away")])
async def test_limits_that_refuse_leave_nothing(error: PenstockError) -> None:
    engine = SilentEngine()
    async with bench_of(engine, limits=Limits(error)) as bench:
        request = asked(bench)
        with pytest.raises(type(error)):
            await generate(request, bench.context)
        assert (bench.queue.given, bench.queue.waiting, engine.submitted) == ([], [], {})
        record = request.record
        assert (record.rejected_tokens, record.reserved_tokens, record.reserved, record.sent) == (40, 0, 0.0, 0.0)
        assert record.encoded > 0.0


def leaves(bench: Bench, task: "asyncio.Task[Generation]") -> None:
    bench.handle.fail(ClientGone("left"))


def is_late(bench: Bench, task: "asyncio.Task[Generation]") -> None:
    bench.handle.fail(DeadlineExceeded("late"))


def is_cancelled(bench: Bench, task: "asyncio.Task[Generation]") -> None:
    task.cancel()


ENDS = pytest.mark.parametrize(
    ("end", "error"), [(leaves, ClientGone), (is_late, DeadlineExceeded), (is_cancelled, asyncio.CancelledError)]
)
End = Callable[[Bench, "asyncio.Task[Generation]"], None]


@ENDS
async def test_an_end_while_it_waits_costs_nothing(end: End, error: type[BaseException]) -> None:
    engine = SilentEngine()
    async with bench_of(engine, queue=Queue(waits=True)) as bench:
        request = asked(bench)
        task = asyncio.ensure_future(generate(request, bench.context))
        await until(lambda: bench.queue.waiting)
        end(bench, task)
        with pytest.raises(error):
            await task
        assert bench.limits.endings == [[False]]
        assert (bench.queue.given, bench.queue.waiting, engine.submitted) == ([], [], {})
        record = request.record
        assert (record.reserved_tokens, record.rejected_tokens, record.prompt_tokens) == (47, 0, 0)
        assert record.reserved > 0.0
        assert (record.admitted, record.sent, record.policy) == (0.0, 0.0, "")


async def test_a_queue_that_turns_it_away_rejects_the_lease() -> None:
    async with bench_of(SilentEngine(), queue=Queue(waits=True)) as bench:
        request = asked(bench)
        task = asyncio.ensure_future(generate(request, bench.context))
        await until(lambda: bench.queue.waiting)
        bench.queue.waiting[0].fail(Overloaded("full"))
        with pytest.raises(Overloaded):
            await task
        assert bench.limits.endings == [[True]]
        assert request.record.rejected_tokens == 40


async def test_a_fleet_without_replicas_gives_everything_back() -> None:
    bench = Bench()
    request = asked(bench, "Hello")
    with pytest.raises(ReplicaUnavailable):
        await generate(request, bench.context)
    assert (bench.limits.endings, bench.queue.endings) == ([[False]], [[0]])
    assert request.record.policy == "least_load"
    assert request.record.prompt_tokens == 0


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        ("engine_error", ReplicaFailed),
        ("context_length_exceeded", ContextLengthExceeded),
        ("draining", ReplicaUnavailable),
    ],
)
async def test_a_replica_that_fails_or_refuses_is_not_the_tenants_to_pay_for(
    failure: str, error: type[PenstockError]
) -> None:
    async with bench_of(RefusesWith(Failure(failure, "no"))) as bench:
        request = asked(bench)
        with pytest.raises(error):
            await generate(request, bench.context)
        assert (bench.limits.endings, bench.queue.endings) == ([[False]], [[0]])
        assert (request.record.rejected_tokens, request.record.prompt_tokens) == (0, 0)


@ENDS
async def test_a_prefill_that_was_asked_for_is_paid(end: End, error: type[BaseException]) -> None:
    engine = SilentEngine()
    async with bench_of(engine) as bench:
        request = asked(bench)
        task = asyncio.ensure_future(generate(request, bench.context))
        await until(lambda: engine.submitted)
        end(bench, task)
        with pytest.raises(error):
            await task
        assert (bench.limits.endings, bench.queue.endings) == ([[Usage(40, 0, 0)]], [[0]])
        assert (request.record.prompt_tokens, request.record.rejected_tokens) == (40, 0)
        await until(lambda: engine.cancelled)
        assert engine.cancelled == list(engine.submitted)


async def test_one_that_had_ended_before_is_not_sent() -> None:
    engine = SilentEngine()
    async with bench_of(engine) as bench:
        bench.handle.fail(ClientGone("left"))
        with pytest.raises(ClientGone):
            await generate(asked(bench), bench.context)
        assert (bench.limits.endings, bench.queue.endings, engine.submitted) == ([[False]], [[0]], {})


async def test_an_answer_has_its_stages_and_is_settled_once() -> None:
    async with bench_of(engine_of()) as bench:
        request = asked(bench)
        generation = await generate(request, bench.context)
        record = request.record
        stages = [record.encoded, record.reserved, record.admitted, record.sent, record.first_token]
        assert stages == sorted(stages)
        assert stages[0] > 0.0
        assert (record.reserved_tokens, record.policy) == (47, "least_load")
        assert (bench.limits.endings, bench.queue.endings) == ([[]], [[]])
        for event in generation.first:
            generation.advance(event)
        for _ in range(2):
            generation.close()
        (settled,), (released,) = bench.limits.endings[0], bench.queue.endings[0]
        assert isinstance(settled, Usage)
        assert (settled.prompt, settled.completion) == (40, released)
        assert 1 <= released <= 7


async def test_the_stages_are_those_of_the_first_model_that_asked_a_replica() -> None:
    first = Bench()
    request = asked(first, "Hello")
    with pytest.raises(ReplicaUnavailable):
        await generate(request, first.context)
    record = request.record
    seen = (record.encoded, record.reserved, record.admitted, record.sent)
    assert all(seen)
    async with bench_of(engine_of()) as second:
        generation = await generate(asked(second, record=record), second.context)
        generation.close()
        assert (record.encoded, record.reserved, record.admitted, record.sent) == seen
        assert record.first_token > record.sent
