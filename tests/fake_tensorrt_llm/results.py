"""What a call gives back: iterators over one object each, which the executor's responses change."""

import asyncio
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tests.fake_tensorrt_llm.parameters import DisaggregatedParams, SamplingParams


class RequestError(RuntimeError):
    """The error of one request."""


class Queue:
    """The real one's AsyncQueue: `get` without waiting raises what IterationResult does not expect."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._event = asyncio.Event()

    def put(self, item: Any) -> None:
        self._items.append(item)
        self._event.set()

    async def get(self, timeout: float | None = None) -> Any:
        if timeout is not None and timeout <= 0 and not self._items:
            raise asyncio.QueueEmpty
        while not self._items:
            await asyncio.wait_for(self._event.wait(), timeout)
        item = self._items.popleft()
        if not self._items:
            self._event.clear()
        return item


@dataclass(slots=True)
class Logprob:
    logprob: float
    rank: int | None = None


@dataclass
class TimingMetrics:
    arrival_time: timedelta
    first_scheduled_time: timedelta = timedelta()
    first_token_time: timedelta = timedelta()
    last_token_time: timedelta = timedelta()


@dataclass
class PerfMetrics:
    timing_metrics: TimingMetrics


@dataclass(slots=True)
class CompletionOutput:
    index: int
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    cumulative_logprob: float | None = None
    logprobs: list[Any] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: Any = None
    disaggregated_params: DisaggregatedParams | None = None
    request_perf_metrics: PerfMetrics | None = None
    _last_token_ids_len: int = 0

    @property
    def token_ids_diff(self) -> list[int]:
        return self.token_ids[self._last_token_ids_len :]


@dataclass
class Response:
    """What the executor says of one sequence: new tokens, and whether the whole request has ended with them."""

    sequence: int
    tokens: list[int]
    reason: str | None = None
    final: bool = False
    cached: int = 0
    logprobs: list[Any] = field(default_factory=list)
    handoff: DisaggregatedParams | None = None
    metrics: PerfMetrics | None = None
    error: str | None = None


class RequestOutput:
    """Iterating yields itself again and again."""

    def __init__(self, request_id: int, prompt: list[int], sampling: SamplingParams, handle_error: Any) -> None:
        self.request_id = request_id
        self.prompt_token_ids = prompt
        self.cached_tokens = 0
        self.context_logits: Any = None
        self.disaggregated_params: DisaggregatedParams | None = None
        self.abort_request: Callable[[int], None] | None = None
        self._sampling = sampling
        self._handle_error = handle_error
        self._done = self._aborted = False
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self.queue = None
        else:
            self.queue = Queue()
        self._outputs = [CompletionOutput(k) for k in range(sampling.best_of or 1)]

    @property
    def outputs(self) -> list[CompletionOutput]:
        n, best_of = self._sampling.n, self._sampling.best_of
        if n == best_of:
            return self._outputs[:n]
        best = sorted(self._outputs, key=lambda output: output.cumulative_logprob or float("-inf"), reverse=True)
        for k, output in enumerate(best):
            output.index = k
        return best[:n]

    @property
    def finished(self) -> bool:
        return self._done

    def abort(self) -> None:
        assert self.abort_request is not None
        self.abort_request(self.request_id)
        self._aborted = True

    def aborted(self) -> bool:
        return self._aborted

    def __aiter__(self) -> "RequestOutput":
        return self

    async def __anext__(self) -> "RequestOutput":
        if self._done:
            raise StopAsyncIteration
        assert self.queue is not None, "The asyncio event loop was not present during initialization"
        self._handle(await self.queue.get())
        return self

    def _handle(self, response: Response) -> None:
        if response.error is not None:
            self._handle_error(response.error)
        self._done = response.final
        self.cached_tokens = response.cached
        if response.handoff is not None:
            self.disaggregated_params = response.handoff
        output = self._outputs[response.sequence]
        output.disaggregated_params = self.disaggregated_params
        output._last_token_ids_len = len(output.token_ids)
        output.token_ids.extend(response.tokens)
        output.logprobs += response.logprobs
        if response.metrics is not None:
            output.request_perf_metrics = response.metrics
        if response.reason == "cancelled":
            output.finish_reason = "cancelled"
        if self._done:  # only whose response ends the whole request is told why
            self._end(output, response.reason)
        self._handle_error()

    def _end(self, output: CompletionOutput, reason: str | None) -> None:
        output.finish_reason = "stop" if reason == "stop_words" else reason
        if reason == "stop_words":
            for word in self._sampling.stops():
                if output.token_ids[-len(word) :] == word:
                    output.stop_reason = word[0]
                    if not self._sampling.include_stop_str_in_output:
                        output.token_ids = output.token_ids[: -len(word)]
                    break


class IterationResult:
    """A queue of one step's statistics or KV events each; ended by the first wait that is too long."""

    def __init__(self) -> None:
        self.queue = Queue()
        self._done = False
        self._timeout = 2.0

    def set_timeout(self, timeout: float) -> None:
        self._timeout = timeout

    def mark_undone(self) -> None:
        self._done = False

    def __aiter__(self) -> "IterationResult":
        return self

    async def __anext__(self) -> Any:
        if self._done:
            raise StopAsyncIteration
        try:
            return json.loads(await self.queue.get(timeout=self._timeout))
        except TimeoutError:
            self._done = True
            raise StopAsyncIteration from None


class EmptyIterable:
    """Statistics before the first request."""

    def __aiter__(self) -> "EmptyIterable":
        return self

    async def __anext__(self) -> Any:
        raise StopAsyncIteration
