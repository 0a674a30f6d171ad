import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.errors import ClientGone, PenstockError, ReplicaUnavailable, SlowClient
from protos.types import Finish, FinishReason, TokenLogprobs
from routing.contracts.transport import Event
from routing.transports.inbox import MAX_WAITING, MAX_WAITING_PER_SEQUENCE, Inbox
from routing.transports.mailbox import Mailbox
from tests.loops import until

DONE = Finish(FinishReason.STOP)


class Detached:
    """Notes what a mailbox asks of its session."""

    def __init__(self) -> None:
        self.calls: list[bool] = []

    def __call__(self, mailbox: Mailbox, cancel: bool) -> None:
        self.calls.append(cancel)


@contextlib.asynccontextmanager
async def mailbox_of(sequences: int = 1) -> AsyncIterator[tuple[Mailbox, Detached]]:
    detached = Detached()
    yield Mailbox(5, sequences, detached, asyncio.get_running_loop()), detached


def inbox_of(mailbox: Mailbox) -> Inbox:
    assert isinstance(mailbox.sink, Inbox)
    return mailbox.sink


def token(number: int, index: int = 0) -> Event:
    return (index, (number,), None, None)


@given(st.lists(st.sampled_from(["put", "read"]), max_size=40))
async def test_what_is_put_comes_out_once_and_in_order(moves: list[str]) -> None:
    async with mailbox_of() as (mailbox, _):
        put, got, waiting = 0, [], 0
        for move in moves:
            if move == "put":
                mailbox.sink.put(token(put))
                put, waiting = put + 1, waiting + 1
            elif waiting:
                got += [event[1][0] for event in await mailbox.receive()]
                waiting = 0
        if waiting:
            got += [event[1][0] for event in await mailbox.receive()]
        assert got == list(range(put))


async def test_a_batch_wakes_its_reader_once() -> None:
    async with mailbox_of() as (mailbox, _):
        batches: list[list[Event]] = []

        async def read() -> None:
            while len(batches) < 2:
                batches.append(await mailbox.receive())

        reader = asyncio.create_task(read())
        await asyncio.sleep(0)
        for number in range(10):
            mailbox.sink.put(token(number))
        await until(lambda: batches)
        mailbox.sink.put(token(10))
        await reader
        assert [len(batch) for batch in batches] == [10, 1]


@pytest.mark.parametrize("sequences", [1, 3])
@pytest.mark.parametrize("run", [1, 7])
async def test_a_reader_that_does_not_read_loses_the_stream_and_no_memory(sequences: int, run: int) -> None:
    async with mailbox_of(sequences) as (mailbox, detached):
        for _number in range(2 * sequences):  # what one step may bring is never too much
            mailbox.sink.put((0, range(100_000), None, None))
        limit = MAX_WAITING + MAX_WAITING_PER_SEQUENCE * (sequences - 1)
        for _ in range(limit // run):
            mailbox.sink.put((0, (5,) * run, None, None))
        assert detached.calls == []
        mailbox.sink.put((0, (5,) * run, None, None))
        assert mailbox.failed
        assert detached.calls == [True]
        assert sys.getsizeof(inbox_of(mailbox)._events) < 100
        with pytest.raises(SlowClient):
            await mailbox.receive()


async def test_logprobs_weigh_more_than_tokens() -> None:
    async with mailbox_of() as (mailbox, _):
        entry = TokenLogprobs(-0.1, ((1, -0.1), (2, -2.5)))
        for _number in range(2 + MAX_WAITING // 4):
            mailbox.sink.put((0, (1,), [entry], None))
        assert not mailbox.failed
        mailbox.sink.put((0, (1,), [entry], None))
        assert mailbox.failed


async def test_a_reader_that_catches_up_starts_anew() -> None:
    async with mailbox_of() as (mailbox, _):
        for _number in range(3):
            for number in range(MAX_WAITING):
                mailbox.sink.put(token(number))
            assert len(await mailbox.receive()) == MAX_WAITING
        assert not mailbox.failed


@pytest.mark.parametrize(("run", "alternatives", "cost"), [(7, None, 7), (5, 0, 10), (5, 20, 110)])
async def test_what_waits_is_weighed_by_its_memory(run: int, alternatives: int | None, cost: int) -> None:
    async with mailbox_of(sequences=2) as (mailbox, _):
        entry = None if alternatives is None else TokenLogprobs(-1.0, ((1, -1.0),) * alternatives)
        event: Event = (0, (1,) * run, None if entry is None else [entry] * run, None)
        limit = MAX_WAITING + MAX_WAITING_PER_SEQUENCE
        for _number in range(2 * 2 + limit // cost):
            mailbox.sink.put(event)
        before = mailbox.failed
        mailbox.sink.put(event)
        assert (before, mailbox.failed) == (False, True)


async def test_a_whole_answer_at_once_is_never_too_much() -> None:
    async with mailbox_of() as (mailbox, _):
        event: Event = (0, (1,) * 100_000, None, None)
        for _number in range(3):
            mailbox.sink.put(event)
            assert await mailbox.receive() == [event]


async def test_the_first_error_wins_and_drops_what_waited() -> None:
    async with mailbox_of() as (mailbox, detached):
        mailbox.sink.put(token(1))
        mailbox.fail(ClientGone("first"))
        mailbox.fail(ReplicaUnavailable("second"))
        assert mailbox.failed
        for _ in range(2):
            with pytest.raises(ClientGone, match="first"):
                await mailbox.receive()
        assert detached.calls == [True]


async def test_an_error_reaches_a_reader_that_waits() -> None:
    async with mailbox_of() as (mailbox, _):
        reader = asyncio.create_task(mailbox.receive())
        await asyncio.sleep(0)
        mailbox.fail(ReplicaUnavailable("lost"))
        with pytest.raises(ReplicaUnavailable, match="lost"):
            await reader


async def test_an_error_after_the_wake_and_before_the_read_still_wins() -> None:
    async with mailbox_of() as (mailbox, _):
        reader = asyncio.create_task(mailbox.receive())
        await asyncio.sleep(0)
        mailbox.sink.put(token(1))
        mailbox.fail(ReplicaUnavailable("lost"))
        with pytest.raises(ReplicaUnavailable, match="lost"):
            await reader


@pytest.mark.parametrize(("ended", "cancels"), [(0, True), (1, True), (2, False)])
async def test_closing_cancels_only_what_is_open_and_only_once(ended: int, cancels: bool) -> None:
    async with mailbox_of(sequences=2) as (mailbox, detached):
        for index in range(ended):
            mailbox.finish(index, DONE)
        for _ in range(3):
            mailbox.close()
        assert detached.calls == [cancels]


async def test_closing_after_an_error_asks_nothing_more() -> None:
    async with mailbox_of() as (mailbox, detached):
        mailbox.fail(PenstockError("x"))
        mailbox.close()
        assert detached.calls == [True]


async def test_a_reader_may_be_cancelled_and_another_read_after_it() -> None:
    async with mailbox_of() as (mailbox, _):
        reader = asyncio.create_task(mailbox.receive())
        await asyncio.sleep(0)
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        mailbox.sink.put(token(3))
        assert await mailbox.receive() == [token(3)]
