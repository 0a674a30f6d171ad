"""Parts of one request: one reservation, and one fate."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.inference.shared_reservation import Parts, SharedLease
from gateway.tenancy.limits.limiter import Ask, Usage
from protos.errors import ClientGone, Overloaded, PenstockError, ReplicaFailed
from routing.dispatch.dispatch import RequestHandle


class Lease:
    output = 0

    def __init__(self) -> None:
        self.ended: list[Any] = []

    def settle(self, usage: Usage) -> None:
        self.ended.append(usage)

    def release(self, *, rejected: bool = False) -> None:
        self.ended.append(rejected)


ASK: Any = Ask(None, 1, 2, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (None, Usage(6, 3, 1)),
        (ClientGone("left"), Usage(6, 3, 1)),
        (asyncio.CancelledError(), Usage(6, 3, 1)),
        (ReplicaFailed("broken"), False),
        (Overloaded("full"), True),
    ],
)
async def test_one_ending_for_all_parts(error: BaseException | None, wanted: Any) -> None:
    lease = Lease()
    shared = SharedLease(lease)
    for usage in (Usage(4, 1, 1), Usage(2, 2, 0)):
        share = await shared.reserve(ASK)
        share.settle(usage)
        share.settle(usage)
        share.release()
    released = await shared.reserve(ASK)
    released.release()
    released.settle(Usage(100, 100, 0))
    assert not lease.ended
    shared.end(error)
    assert lease.ended == [wanted]
    assert shared.used == (wanted if isinstance(wanted, Usage) else Usage(0, 0, 0))


def test_a_client_that_left_before_anything_was_used_pays_nothing() -> None:
    lease = Lease()
    SharedLease(lease).end(ClientGone("left"))
    assert lease.ended == [False]


class Awaited:
    """What a part waits for."""

    def __init__(self) -> None:
        self.future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def failed(self) -> bool:
        return self.future.done()

    def fail(self, error: PenstockError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


@given(count=st.integers(1, 20), at_once=st.integers(1, 25), order=st.randoms(use_true_random=False))
async def test_results_are_in_the_parts_order_however_they_end(count: int, at_once: int, order: Any) -> None:
    waits: dict[int, Awaited] = {}
    most = 0

    def part(index: int) -> Any:
        async def run(handle: RequestHandle) -> int:
            waits[index] = Awaited()
            handle.follow(waits[index])
            return await waits[index].future

        return run

    task = asyncio.ensure_future(Parts([part(index) for index in range(count)], at_once).run(RequestHandle()))
    done = 0
    while done < count:
        await asyncio.sleep(0)
        open_ = [index for index, wait in waits.items() if not wait.future.done()]
        most = max(most, len(open_))
        if open_:
            index = order.choice(open_)
            waits[index].future.set_result(index * 10)
            done += 1
    assert await task == [index * 10 for index in range(count)]
    assert most <= at_once


@pytest.mark.parametrize("outside", [False, True])
async def test_the_first_error_ends_all(outside: bool) -> None:
    waits: list[Awaited] = []

    async def run(handle: RequestHandle) -> int:
        waits.append(Awaited())
        handle.follow(waits[-1])
        return await waits[-1].future

    handle = RequestHandle()
    task = asyncio.ensure_future(Parts([run] * 9, 3).run(handle))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    error = ReplicaFailed("broken")
    if outside:
        handle.fail(error)
    else:
        waits[1].future.set_exception(error)
    with pytest.raises(ReplicaFailed) as caught:
        await task
    assert caught.value is error
    # Those that had not begun never do.
    assert len(waits) == 3
    assert all(wait.future.done() for wait in waits)


async def test_cancelling_ends_every_part() -> None:
    ended = 0

    async def run(handle: RequestHandle) -> int:
        nonlocal ended
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended += 1
        return 0

    task = asyncio.ensure_future(Parts([run] * 5, 5).run(RequestHandle()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == 5


async def test_a_defect_is_not_taken_for_an_answer() -> None:
    async def run(handle: RequestHandle) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await Parts([run, run], 2).run(RequestHandle())
