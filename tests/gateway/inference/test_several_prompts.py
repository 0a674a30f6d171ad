"""Several prompts of one request: one reservation, one stream, and an ending for each that has begun."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from gateway.inference.generate_request import GenerateRequest
from gateway.inference.generation import Generation
from gateway.inference.several_prompts import AT_ONCE, PromptStreams, generate_several
from gateway.tenancy.limits.limiter import Usage
from observability.record import RequestRecord
from protos.errors import ClientGone, InternalError, PenstockError, RateLimited, ReplicaFailed, SlowClient
from protos.types import Failure, Finish, FinishReason, Sampling
from routing.contracts.policy import RouteRequest
from routing.contracts.transport import Event
from routing.dispatch.dispatch import RequestHandle
from tests.fakes import RefusesWith, SilentEngine
from tests.gateway.inference.counted import Bench, Limits, bench_of
from tests.harness import engine_of
from tests.loops import until
from tests.models import request_of

END = Finish(FinishReason.STOP, 1, 0, 1)
ROUTE = RouteRequest("r", 3, 8)


class PartStream:
    """A prompt's stream in the hands of the test."""

    decision = None
    route = RouteRequest("r", 1, 8)
    cached_tokens, retries, migrations, hedges = 5, 1, 2, 3

    def __init__(self) -> None:
        self.events: asyncio.Queue[list[Event] | PenstockError] = asyncio.Queue()
        self.closed = 0

    @property
    def failed(self) -> bool:
        return False

    def fail(self, error: PenstockError) -> None:
        self.events.put_nowait(error)

    async def receive(self) -> list[Event]:
        events = await self.events.get()
        if isinstance(events, PenstockError):
            raise events
        return events

    def close(self) -> None:
        self.closed += 1


@dataclass
class PartAdmission:
    released: list[int] = field(default_factory=list)

    def release(self, tokens: int) -> None:
        self.released.append(tokens)


class Part:
    """A prompt: it begins once the test lets it, with these events."""

    def __init__(self, *first: Event) -> None:
        self.first = list(first)
        self.stream = PartStream()
        self.admission = PartAdmission()
        self.go = asyncio.Event()
        self.handle: RequestHandle | None = None

    async def start(self, handle: RequestHandle) -> Generation:
        self.handle = handle
        handle.follow(self.stream)
        await self.go.wait()
        return cast("Generation", self)

    @property
    def endings(self) -> tuple[int, list[int]]:
        return self.stream.closed, self.admission.released


def begun(each: int, *parts: Part) -> PromptStreams:
    stream = PromptStreams(ROUTE, each, len(parts))
    starts: list[Callable[[RequestHandle], Awaitable[Generation]]] = [part.start for part in parts]
    stream.start(starts)
    return stream


async def test_the_sequences_of_the_second_follow_those_of_the_first() -> None:
    one, two = Part((1, [7], None, None)), Part((0, [8, 9], None, END))
    stream = begun(2, one, two)
    two.go.set()
    assert await stream.receive() == [(2, [8, 9], None, END)]
    assert not stream.began.done(), "it begins with the first prompt"
    one.go.set()
    assert await stream.receive() == [(1, [7], None, None)]
    assert stream.began.result() is cast("Generation", one)
    assert stream.route is one.stream.route
    one.stream.events.put_nowait([(0, [1], None, END), (1, [], None, END)])
    two.stream.events.put_nowait([(1, [2], None, END)])
    events = await stream.receive()
    while len(events) < 3:
        events += await stream.receive()
    assert sorted(event[0] for event in events) == [0, 1, 3]
    await until(lambda: two.stream.closed and one.stream.closed)
    assert (one.endings, two.endings) == ((1, [2]), (1, [3]))
    assert stream.tokens == [[1], [7], [8, 9], [2]]
    assert (stream.cached_tokens, stream.retries, stream.migrations, stream.hedges) == (10, 2, 4, 6)
    stream.close()


async def test_no_more_than_some_run_beside_each_other() -> None:
    parts = [Part((0, [1], None, END)) for _ in range(AT_ONCE + 3)]
    stream = begun(1, *parts)
    await until(lambda: parts[AT_ONCE - 1].handle)
    assert [part.handle is not None for part in parts] == [True] * AT_ONCE + [False] * 3
    for part in parts:
        part.go.set()
    await until(lambda: all(part.stream.closed for part in parts))
    assert all(part.endings == (1, [1]) for part in parts)
    stream.close()


async def test_a_prompt_that_fails_ends_the_others() -> None:
    one, two = Part((0, [1], None, None)), Part((0, [1], None, None))
    stream = begun(1, one, two)
    one.go.set()
    two.go.set()
    while len(stream.tokens[0]) + len(stream.tokens[1]) < 2:
        await stream.receive()
    two.stream.fail(ReplicaFailed("broken"))
    with pytest.raises(ReplicaFailed):
        await stream.receive()
    assert (one.endings, two.endings) == ((1, [1]), (1, [1]))
    assert stream.failed
    with pytest.raises(ReplicaFailed):
        stream.check()
    stream.close()


async def test_a_defect_of_a_prompt_shows_nothing_of_itself(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(handle: RequestHandle) -> Generation:
        raise ValueError("a defect")

    stream = PromptStreams(ROUTE, 1, 1)
    stream.start([broken])
    with pytest.raises(InternalError):
        await stream.began
    with pytest.raises(InternalError):
        await stream.receive()
    assert "a defect" in caplog.text
    stream.close()


async def test_a_prompt_that_nobody_needs_ends_alone() -> None:
    one, two = Part((0, [1], None, None)), Part((0, [1], None, None))
    stream = begun(2, one, two)
    one.go.set()
    two.go.set()
    await until(lambda: stream.tokens[0] and stream.tokens[2])
    stream.dismiss(2)
    assert two.stream.events.empty(), "its other sequence goes on"
    stream.dismiss(3)
    await until(lambda: two.stream.closed)
    assert (one.endings, two.endings) == ((0, []), (1, [1]))
    assert not stream.failed
    one.stream.events.put_nowait([(0, [], None, END), (1, [], None, END)])
    await until(lambda: one.stream.closed)
    stream.close()


@pytest.mark.parametrize("ending", ["close", "fail"])
async def test_an_end_from_outside_ends_every_prompt(ending: str) -> None:
    one, two = Part((0, [1], None, None)), Part()
    stream = begun(1, one, two)
    one.go.set()
    await stream.began
    if ending == "close":
        for _ in range(2):
            stream.close()
    else:
        stream.fail(SlowClient("slow"))
        with pytest.raises(SlowClient):
            await stream.receive()
    two.go.set()
    await until(lambda: one.stream.closed and two.stream.closed)
    assert (one.endings, two.endings) == ((1, [1]), (1, [0]))
    stream.close()


async def test_a_first_prompt_that_begins_when_nobody_waits_any_more_has_its_ending() -> None:
    """Its waiter is cancelled in the same turn of the loop in which it begins."""
    one = Part((0, [1], None, None))
    stream = begun(1, one)
    await until(lambda: one.handle)
    one.go.set()
    stream.began.cancel()
    await until(lambda: one.stream.closed or stream.tokens[0] or stream.failed)
    stream.close()
    await until(lambda: one.stream.closed)
    assert one.endings == (1, [1])


def asked(bench: Bench, *prompts: Any, **options: Any) -> GenerateRequest:
    record = RequestRecord("r", "completions", 0.0, 0.0)
    return request_of(bench.model, "", 7, prompts=prompts, record=record, **options)


PROMPTS = ([1] * 10, [2] * 30, [3] * 5)


async def test_one_reservation_is_settled_once_with_the_use_of_all() -> None:
    async with bench_of(engine_of(), engine_of()) as bench:
        request = asked(bench, *PROMPTS, sampling=Sampling(n=2, ignore_eos=True))
        generation = await generate_several(request, bench.context)
        (ask,) = bench.limits.asked
        assert (ask.input, ask.most, ask.sequences) == (45, 42, 6)
        assert request.record.reserved_tokens == 87
        events = generation.first
        while True:
            for event in events:
                generation.advance(event)
            if not generation.open_sequences:
                break
            events = await generation.stream.receive()
        for _ in range(2):
            generation.close()
        ((settled,),) = bench.limits.endings
        assert isinstance(settled, Usage)
        assert (settled.prompt, settled.completion) == (45, 42)
        await until(lambda: all(bench.queue.endings))
        assert len(bench.queue.endings) == 3
        assert all(admission.released[0] == 14 for admission in bench.queue.given[1:])


async def test_limits_that_refuse_leave_nothing() -> None:
    async with bench_of(SilentEngine(), limits=Limits(RateLimited("slowly"))) as bench:
        request = asked(bench, *PROMPTS)
        with pytest.raises(RateLimited):
            await generate_several(request, bench.context)
        assert (bench.queue.given, request.record.rejected_tokens) == ([], 45)


async def test_a_replica_that_fails_on_them_gives_everything_back() -> None:
    async with bench_of(RefusesWith(Failure("engine_error", "no"))) as bench:
        with pytest.raises(ReplicaFailed):
            await generate_several(asked(bench, *PROMPTS), bench.context)
        assert bench.limits.endings == [[False]]
        assert len(bench.queue.endings) == 3
        assert all(released == [0] for released in bench.queue.endings)


@pytest.mark.parametrize("cancelled", [False, True])
async def test_who_leaves_before_the_first_token_pays_the_prompts_that_were_asked_for(cancelled: bool) -> None:
    engine = SilentEngine()
    async with bench_of(engine) as bench:
        request = asked(bench, *PROMPTS)
        task = asyncio.ensure_future(generate_several(request, bench.context))
        await until(lambda: len(engine.submitted) == 3)
        if cancelled:
            task.cancel()
        else:
            bench.handle.fail(ClientGone("left"))
        with pytest.raises(asyncio.CancelledError if cancelled else ClientGone):
            await task
        await until(lambda: len(engine.cancelled) == 3)
        await until(lambda: all(bench.queue.endings))
        assert bench.queue.endings == [[0]] * 3
        assert bench.limits.endings == [[Usage(45, 0, 0)]]
        assert request.record.prompt_tokens == 45
