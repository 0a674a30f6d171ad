"""Concurrent generations of one request: one reservation, and the first failure ends all."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from gateway.tenancy.limits.limiter import Ask, Lease, Rate, Usage
from gateway.tenancy.tenants.caller import Caller
from protos.errors import ClientGone, DeadlineExceeded, Overloaded, PenstockError, SlowClient, TokenLimitExceeded
from routing.dispatch.dispatch import RequestHandle

T = TypeVar("T")


def check_input_tokens(caller: Caller, model: str, tokens: int, param: str) -> None:
    """Check the input tokens of all parts together. Raises TokenLimitExceeded."""
    most = caller.bounds(model).max_input
    if most is not None and tokens > most:
        raise TokenLimitExceeded(
            f"Your input has {tokens} tokens in all; with this API key and model it may have at most {most} "
            "(max_input_tokens).",
            param=param,
        )


class SharedLease:
    """A request's reservation as the `Limiter` of its parts; its owner ends it once all of them have ended."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        #: What the parts have used so far.
        self.prompt = self.completion = self.cached = self.extra = 0

    @property
    def used(self) -> Usage:
        """Usage of all parts together."""
        return Usage(self.prompt, self.completion, self.cached, self.extra)

    async def reserve(self, ask: Ask) -> Lease:
        """Give a part its share; nothing more is reserved."""
        return _Share(self, ask)

    def last_rate(self, key_id: str) -> Rate | None:
        """Return nothing: only the whole request has rate headers."""
        del key_id
        return None

    def end(self, error: BaseException | None = None) -> None:
        """End the reservation. With `error`, the request is charged only where its client ended it."""
        left = isinstance(error, ClientGone | DeadlineExceeded | SlowClient | asyncio.CancelledError)
        if error is None or (left and self.prompt + self.completion):
            self._lease.settle(self.used)
        else:
            self.prompt = self.completion = self.cached = self.extra = 0
            self._lease.release(rejected=isinstance(error, Overloaded))


class _Share:
    """A part's share of the lease; only its first ending counts."""

    __slots__ = ("_open", "_shared", "output")

    def __init__(self, shared: SharedLease, ask: Ask) -> None:
        self._shared = shared
        self._open = True
        self.output = ask.most

    def settle(self, usage: Usage) -> None:
        """Add the part's usage."""
        if self._open:
            self._open = False
            self._shared.prompt += usage.prompt
            self._shared.completion += usage.completion
            self._shared.cached += usage.cached
            self._shared.extra += usage.extra

    def release(self, *, rejected: bool = False) -> None:
        """End the share with no usage."""
        del rejected
        self._open = False


class Parts(Generic[T]):
    """Parts that run concurrently, at most `at_once` of them; the first error ends them all."""

    def __init__(self, parts: Sequence[Callable[[RequestHandle], Awaitable[T]]], at_once: int) -> None:
        self._waiting = list(enumerate(parts))[::-1]
        self._at_once = min(at_once, len(parts))
        self._results: dict[int, T] = {}
        self._attempts: set[RequestHandle] = set()
        self._error: BaseException | None = None

    @property
    def failed(self) -> bool:
        return self._error is not None

    def fail(self, error: PenstockError) -> None:
        self._fail(error)

    async def run(self, handle: RequestHandle) -> list[T]:
        """Run the parts and return their results. Raises the first error, or that of `handle`, once all have ended."""
        handle.follow(self)
        tasks = [asyncio.ensure_future(self._run()) for _ in range(self._at_once)]
        try:
            await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._error is not None:
            raise self._error
        return [self._results[index] for index in sorted(self._results)]

    def _fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error
            ending = error if isinstance(error, PenstockError) else ClientGone("Another part of the request failed.")
            for handle in self._attempts:
                handle.fail(ending)

    async def _run(self) -> None:
        while self._waiting and self._error is None:
            index, part = self._waiting.pop()
            handle = RequestHandle()
            self._attempts.add(handle)
            try:
                self._results[index] = await part(handle)
            except Exception as error:
                self._fail(error)
            finally:
                self._attempts.discard(handle)
