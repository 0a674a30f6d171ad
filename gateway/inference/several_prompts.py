"""A request with several prompts: a generation for each, joined into one stream."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from gateway.inference.detailed_generation import DetailedGeneration
from gateway.inference.generate import generate
from gateway.inference.generate_request import GenerateRequest, TokenizedText, scratch_record
from gateway.inference.generation import Generation
from gateway.inference.prepare import prepare
from gateway.inference.prompt_encoding import EncodedPrompt
from gateway.inference.request_context import RequestContext
from gateway.inference.shared_reservation import Parts, SharedLease
from observability.logs import RateLimit
from protos.errors import ClientGone, InternalError, PenstockError
from protos.types import Finish
from routing.contracts.policy import Decision, RouteRequest
from routing.contracts.transport import Relay
from routing.dispatch.dispatch import Dispatched, RequestHandle
from routing.transports.inbox import Inbox

log = logging.getLogger(__name__)
log.addFilter(RateLimit(per_second=20))

#: Prompts of one request that run concurrently.
AT_ONCE: Final = 16


async def generate_several(request: GenerateRequest, context: RequestContext) -> Generation:
    """Start a generation for a request with `prompts`, as `generate` does; it has begun when its first prompt has.

    One reservation covers all prompts. The first prompt that fails ends the others. An upstream gets such a request
    in one piece, so no payload is sent.
    """
    record = request.record
    prepared = await prepare(request, context, scratch_record())
    shared = SharedLease(prepared.lease)
    stream = PromptStreams(prepared.route, request.sampling.n, len(request.prompts))

    def part(index: int) -> Callable[[RequestHandle], Awaitable[Generation]]:
        own = _part(request, index, prepared.prompts[index], prepared.bounds[index])
        explained = context.explained if index == 0 else None
        replace = msgspec.structs.replace
        return lambda tried: generate(own, replace(context, limiter=shared, handle=tried, explained=explained))

    try:
        stream.start([part(index) for index in range(len(request.prompts))])
        context.handle.follow(stream)
        began = await stream.began
        first = await stream.receive()
    except BaseException as error:
        stream.close()
        try:
            await stream.over()
        finally:
            shared.end(error)
            record.prompt_tokens = shared.prompt
            record.cost_nano_usd = request.model.price.nano(shared.prompt, 0, 0)
        raise
    record.reserved_tokens = prepared.reserved_tokens
    dispatched = Dispatched(stream, first, began.fingerprint)
    parts = prepared.request, prepared.prompt, dispatched, prepared.lease, began.admission, prepared.subscription.origin
    if request.details is None:
        return Generation(*parts)
    return DetailedGeneration(prepared.prompts, *parts)


def _part(request: GenerateRequest, index: int, prompt: EncodedPrompt, bound: int) -> GenerateRequest:
    """Make the request of one prompt; the first one's record stands for the whole request."""
    given = type(request.prompts[index]) is list
    return msgspec.structs.replace(
        request,
        id=request.id if index == 0 else f"{request.id}-{index}",
        prompt=prompt.ids if given else TokenizedText(prompt.ids),
        prompts=(),
        size=0,
        max_tokens=bound,
        parser=None,
        filter=None,
        record=request.record if index == 0 else scratch_record(),
    )


class PromptStreams:
    """The streams of all prompts as one `AnswerStream`: the second prompt's sequences follow those of the first."""

    relay: Relay | None = None
    counts: Finish | None = None
    begin_again: Callable[[int], None] | None = None

    def __init__(self, route: RouteRequest, each: int, prompts: int) -> None:
        """Each prompt has `each` sequences; `route` holds for all prompts until the first one is routed."""
        self.route = route
        self.decision: Decision | None = None
        self.cached_tokens = self.retries = self.migrations = self.hedges = 0
        self.inbox = Inbox(each * prompts, self.fail, asyncio.get_running_loop())
        self.receive = self.inbox.receive
        self._each = each
        #: Sequences of each prompt that still run, and the handle that ends the prompt.
        self._open = [set(range(each)) for _ in range(prompts)]
        self._attempts: dict[int, RequestHandle] = {}
        #: The first prompt's generation, once it begins to answer.
        self.began: asyncio.Future[Generation] = asyncio.get_running_loop().create_future()

    @property
    def tokens(self) -> list[list[int]]:
        """All tokens so far, by sequence."""
        return self.inbox.tokens

    @property
    def replica_id(self) -> str:
        """The replica of the first prompt."""
        return self.decision.replica.id if self.decision is not None else ""

    @property
    def failed(self) -> bool:
        """Whether `receive` raises from now on."""
        return self.inbox.failed

    def check(self) -> None:
        """Raise the error that has ended the stream, if one has."""
        self.inbox.check()

    def start(self, starts: Sequence[Callable[[RequestHandle], Awaitable[Generation]]]) -> None:
        """Start the prompts, in order."""
        self._parts = Parts([partial(self._run, index, start) for index, start in enumerate(starts)], AT_ONCE)
        self._task = asyncio.ensure_future(self._parts.run(RequestHandle()))
        self._task.add_done_callback(self._ended)

    def dismiss(self, index: int) -> None:
        """Drop a sequence that nobody reads any more, and its prompt with the last one."""
        prompt, sequence = divmod(index, self._each)
        self._open[prompt].discard(sequence)
        if not self._open[prompt] and prompt in self._attempts:
            self._attempts[prompt].fail(ClientGone("Nobody waits for it any more."))

    def fail(self, error: PenstockError) -> None:
        """End all prompts; `receive` raises `error`. The first error counts."""
        if not self.inbox.failed:
            self.inbox.fail(error)
            self._parts.fail(error)

    def close(self) -> None:
        """Cancel upstream what has not finished. Idempotent, never waits."""
        self.inbox.close()
        if not self._task.done():
            self._parts.fail(ClientGone("Nobody waits for it any more."))

    async def over(self) -> None:
        """Return once no prompt runs any more: only then is it known what they have used."""
        await asyncio.wait([self._task])

    async def _run(
        self, index: int, start: Callable[[RequestHandle], Awaitable[Generation]], handle: RequestHandle
    ) -> None:
        self._attempts[index] = handle
        generation = await start(handle)
        stream, still, put = generation.stream, self._open[index], self.inbox.put
        tokens, base = 0, index * self._each
        generation.on_begin_again = lambda sequence: self._begin_again(base + sequence)
        if index == 0:
            self.decision, self.route = stream.decision, stream.route
            # Cancelled where nobody waits any more; then what has begun is ended as soon as that is said.
            if not self.began.done():
                self.began.set_result(generation)
        try:
            events = generation.first
            while True:
                for sequence, ids, logprobs, finish in events:
                    tokens += len(ids)
                    put((base + sequence, ids, logprobs, finish))
                    if finish is not None:
                        still.discard(sequence)
                if not still:
                    break
                events = await stream.receive()
        except PenstockError:
            if still:
                raise
        finally:
            del self._attempts[index]
            generation.on_begin_again = None
            self.cached_tokens += stream.cached_tokens
            self.retries += stream.retries
            self.migrations += stream.migrations
            self.hedges += stream.hedges
            stream.close()
            generation.admission.release(tokens)

    def _begin_again(self, index: int) -> None:
        self.inbox.forget(index)
        if self.begin_again is not None:
            self.begin_again(index)

    def _ended(self, task: "asyncio.Task[list[None]]") -> None:
        error = ClientGone("The request was cancelled.") if task.cancelled() else task.exception()
        if error is None:
            return
        if not isinstance(error, PenstockError):
            log.error("request %s failed", self.route.request_id, exc_info=error)
            error = InternalError("The gateway failed on this request.")
        self.inbox.fail(error)
        if not self.began.done():
            self.began.set_exception(error)
            # Mark the exception as retrieved: the waiter may be gone.
            self.began.exception()
