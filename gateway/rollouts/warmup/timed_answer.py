"""One request to one replica, and when its answer came."""

import asyncio
from collections.abc import Callable

import msgspec

from protos.errors import PenstockError
from protos.failures import from_failure
from protos.types import Failure, Finish, Submit
from routing.contracts.transport import Event, Relay, Sink, Transport


class AnswerTimes(msgspec.Struct, frozen=True):
    """Seconds until the first token, and for each one after it; 0 where there is no other."""

    ttft: float
    tpot: float


class TimedAnswer:
    """The receiver of a request's answer, whose content is dropped."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begun = clock()
        self._first = self._last = 0.0
        self._tokens = 0
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._relay: Relay | None = None
        self._readable = asyncio.Event()

    @property
    def sequence(self) -> int:
        return 0

    @property
    def most_tokens(self) -> int:
        """None: no replica is widened for it."""
        return 0

    @property
    def sink(self) -> Sink:
        return self

    def put(self, event: Event) -> None:
        _, tokens, _, finish = event
        if finish is not None:
            self.finished(0, finish)
        else:
            self._note(len(tokens))

    def started(self, cached_tokens: int) -> None:
        """The prompt has been computed: the first token comes with it or after it."""

    def relayed(self, relay: Relay) -> None:
        self._relay = relay
        self._readable.set()

    def finished(self, index: int, finish: Finish) -> None:
        failure = finish.failure
        self._end(None if failure is None else from_failure(failure))

    def lost(self, error: PenstockError) -> None:
        self._end(error)

    async def times(self) -> AnswerTimes:
        """Wait for the end of the answer. Raises PenstockError when it failed, or had no token."""
        # The end of an answer that is relayed comes when its bytes have been read.
        await self._readable.wait()
        relay = self._relay
        while relay is not None and await relay.read():
            self._note(relay.seen - self._tokens)
        await self._over
        if not self._tokens:
            raise from_failure(Failure("server_error", "it ended without a token"))
        after = self._tokens - 1
        return AnswerTimes(self._first - self._begun, (self._last - self._first) / after if after else 0.0)

    def _note(self, tokens: int) -> None:
        if tokens > 0:
            self._last = self._clock()
            if not self._tokens:
                self._first = self._last
            self._tokens += tokens

    def _end(self, error: PenstockError | None) -> None:
        self._readable.set()
        if self._over.done():
            return
        if error is None:
            self._over.set_result(None)
        else:
            self._over.set_exception(error)


async def timed_answer(transport: Transport, submit: Submit, clock: Callable[[], float]) -> AnswerTimes:
    """Send a request, and drop its answer. It may be cancelled.

    Raises:
        PenstockError: The replica could not be asked, or did not answer.
    """
    answer = TimedAnswer(clock)
    leg = transport.open(submit, receiver=answer)
    try:
        return await answer.times()
    finally:
        leg.close()
