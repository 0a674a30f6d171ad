import asyncio
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.errors import ClientGone, PenstockError, ReplicaUnavailable, SlowClient
from protos.types import Finish, FinishReason, TokenLogprobs
from routing.contracts.transport import Event
from routing.transports.inbox import MAX_WAITING, MAX_WAITING_PER_SEQUENCE, Inbox
from routing.transports.mailbox import Mailbox
from tests.harness import bounded, until

DONE = Finish(FinishReason.STOP)


class Detached:
    """Notes what a mailbox asks of its session."""

    def __init__(self) -> None:
        self.calls: list[bool] = []

    def __call__(self, mailbox: Mailbox, cancel: bool) -> None:
        self.calls.append(cancel)


def with_mailbox(body: Callable[[Mailbox, Detached], object], sequences: int = 1) -> None:
    async def main() -> None:
        detached = Detached()
        result = body(Mailbox(5, sequences, detached, asyncio.get_running_loop()), detached)
        if asyncio.iscoroutine(result):
            await result

    bounded(main)


def inbox_of(mailbox: Mailbox) -> Inbox:
    assert isinstance(mailbox.sink, Inbox)
    return mailbox.sink


def token(number: int, index: int = 0) -> Event:
    return (index, (number,), None, None)


@given(st.lists(st.sampled_from(["put", "read"]), max_size=40))
def test_what_is_put_comes_out_once_and_in_order(moves: list[str]) -> None:
    async def body(mailbox: Mailbox, _: Detached) -> None:
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

    with_mailbox(body)


def test_a_batch_wakes_its_reader_once() -> None:
    async def body(mailbox: Mailbox, _: Detached) -> None:
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

    with_mailbox(body)


@pytest.mark.parametrize("sequences", [1, 3])
@pytest.mark.parametrize("run", [1, 7])
def test_a_reader_that_does_not_read_loses_the_stream_and_no_memory(sequences: int, run: int) -> None:
    async def body(mailbox: Mailbox, detached: Detached) -> None:
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

    with_mailbox(body, sequences)


def test_logprobs_weigh_more_than_tokens() -> None:
    async def body(mailbox: Mailbox, detached: Detached) -> None:
        entry = TokenLogprobs(-0.1, ((1, -0.1), (2, -2.5)))
        for _number in range(2 + MAX_WAITING // 4):
            mailbox.sink.put((0, (1,), [entry], None))
        assert not mailbox.failed
        mailbox.sink.put((0, (1,), [entry], None))
        assert mailbox.failed

    with_mailbox(body)


def test_a_reader_that_catches_up_starts_anew() -> None:
    async def body(mailbox: Mailbox, _: Detached) -> None:
        for _number in range(3):
            for number in range(MAX_WAITING):
                mailbox.sink.put(token(number))
            assert len(await mailbox.receive()) == MAX_WAITING
        assert not mailbox.failed

    with_mailbox(body)


@pytest.mark.parametrize(("run", "alternatives", "cost"), [(7, None, 7), (5, 0, 10), (5, 20, 110)])
def test_what_waits_is_weighed_by_its_memory(run: int, alternatives: int | None, cost: int) -> None:
    async def body(mailbox: Mailbox, _: Detached) -> None:
        entry = None if alternatives is None else TokenLogprobs(-1.0, ((1, -1.0),) * alternatives)
        event: Event = (0, (1,) * run, None if entry is None else [entry] * run, None)
        limit = MAX_WAITING + MAX_WAITING_PER_SEQUENCE
        for _number in range(2 * 2 + limit // cost):
            mailbox.sink.put(event)
        before = mailbox.failed
        mailbox.sink.put(event)
        assert (before, mailbox.failed) == (False, True)

    with_mailbox(body, sequences=2)


def test_a_whole_answer_at_once_is_never_too_much() -> None:
    async def body(mailbox: Mailbox, _: Detached) -> None:
        event: Event = (0, (1,) * 100_000, None, None)
        for _number in range(3):
            mailbox.sink.put(event)
            assert await mailbox.receive() == [event]

    with_mailbox(body)


def test_the_first_error_wins_and_drops_what_waited() -> None:
    async def body(mailbox: Mailbox, detached: Detached) -> None:
        mailbox.sink.put(token(1))
        mailbox.fail(ClientGone("first"))
        mailbox.fail(ReplicaUnavailable("second"))
        assert mailbox.failed
        for _ in range(2):
            with pytest.raises(ClientGone, match="first"):
                await mailbox.receive()
        assert detached.calls == [True]

    with_mailbox(body)


def test_an_error_reaches_a_reader_that_waits() -> None:
    async def body(mailbox: Mailbox, _: Detached) -> None:
        reader = asyncio.create_task(mailbox.receive())
        await asyncio.sleep(0)
        mailbox.fail(ReplicaUnavailable("lost"))
        with pytest.raises(ReplicaUnavailable, match="lost"):
            await reader

    with_mailbox(body)


def test_an_error_after_the_wake_and_before_the_read_still_wins() -> None:
    async def body(mailbox: Mailbox, _: Detached) -> None:
        reader = asyncio.create_task(mailbox.receive())
        await asyncio.sleep(0)
        mailbox.sink.put(token(1))
        mailbox.fail(ReplicaUnavailable("lost"))
        with pytest.raises(ReplicaUnavailable, match="lost"):
            await reader

    with_mailbox(body)


@pytest.mark.parametrize(("ended", "cancels"), [(0, True), (1, True), (2, False)])
def test_closing_cancels_only_what_is_open_and_only_once(ended: int, cancels: bool) -> None:
    def body(mailbox: Mailbox, detached: Detached) -> None:
        for index in range(ended):
            mailbox.finish(index, DONE)
        for _ in range(3):
            mailbox.close()
        assert detached.calls == [cancels]

    with_mailbox(body, sequences=2)


def test_closing_after_an_error_asks_nothing_more() -> None:
    def body(mailbox: Mailbox, detached: Detached) -> None:
        mailbox.fail(PenstockError("x"))
        mailbox.close()
        assert detached.calls == [True]

    with_mailbox(body)


def test_a_reader_may_be_cancelled_and_another_read_after_it() -> None:
    async def body(mailbox: Mailbox, _: Detached) -> None:
        reader = asyncio.create_task(mailbox.receive())
        await asyncio.sleep(0)
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        mailbox.sink.put(token(3))
        assert await mailbox.receive() == [token(3)]

    with_mailbox(body)
