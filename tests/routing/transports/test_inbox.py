"""An answer's events, and its end as one of them."""

import asyncio

import pytest

from protos.types import Finish, FinishReason
from routing.transports.inbox import Inbox

END = Finish(FinishReason.STOP)


def inbox_of(sequences: int = 1) -> Inbox:
    return Inbox(sequences, lambda error: None, asyncio.get_running_loop())


@pytest.mark.parametrize("join", [False, True])
async def test_an_end_joins_the_last_event_only_where_that_is_asked_for(join: bool) -> None:
    inbox = inbox_of()
    inbox.put((0, (1, 2), None, None))
    inbox.end(0, END, join=join)
    together, apart = [(0, (1, 2), None, END)], [(0, (1, 2), None, None), (0, (), None, END)]
    assert await inbox.receive() == (together if join else apart)
    assert inbox.tokens == [[1, 2]]


async def test_an_end_joins_no_event_of_another_sequence_nor_one_that_was_read() -> None:
    inbox = inbox_of(2)
    inbox.put((1, (7,), None, None))
    inbox.end(0, END, join=True)
    assert await inbox.receive() == [(1, (7,), None, None), (0, (), None, END)]
    inbox.end(1, END, join=True)
    assert await inbox.receive() == [(1, (), None, END)]
