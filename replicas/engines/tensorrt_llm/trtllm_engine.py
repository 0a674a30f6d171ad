"""The `Engine` around one LLM: submits requests and merges its iterators' output into one step per loop iteration."""

import asyncio
import logging
import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from protos.launch_step import LaunchStep
from protos.types import Failure, Finish, FinishReason, KvCreated, KvEvent, ReplicaInfo, Submit
from replicas.engine import Delta, EngineStep, Tell
from replicas.engines.tensorrt_llm import polling
from replicas.engines.tensorrt_llm.accounts import Accounts
from replicas.engines.tensorrt_llm.arguments import llm_arguments
from replicas.engines.tensorrt_llm.cache_events import CacheEvents
from replicas.engines.tensorrt_llm.engine_description import describe
from replicas.engines.tensorrt_llm.failures import failure_of
from replicas.engines.tensorrt_llm.handoff import pack
from replicas.engines.tensorrt_llm.library import Library
from replicas.engines.tensorrt_llm.liveness import EngineLost, watch
from replicas.engines.tensorrt_llm.lora_adapters import Adapters
from replicas.engines.tensorrt_llm.options import Options
from replicas.engines.tensorrt_llm.prompt_logprobs import kept_apart, wants_logits
from replicas.engines.tensorrt_llm.trtllm_requests import Requests
from replicas.engines.tensorrt_llm.trtllm_sequence import Sequence, with_handoff
from replicas.engines.tensorrt_llm.waiting_workers import WaitingWorkers

log = logging.getLogger(__name__)

#: The library has no argument for it, and passes variables with such names to its processes. Versions that do not know
#: it profile all the same.
SKIP_PROFILING: Final = "TRTLLM_SKIP_KV_CACHE_ESTIMATION"


class _Group:
    """A request's sequences, and the finishes of those to be handed over once all of them are prefilled."""

    __slots__ = ("handed_over", "sequences")

    def __init__(self, sequences: list[Sequence]) -> None:
        self.sequences = sequences
        self.handed_over: list[tuple[Sequence, Finish]] = []


class TensorRtLlmEngine:
    """Between `start` and `stop` it owns an LLM, which fills the GPUs of `options.shape`.

    The request decides what runs (all of it, its prefill only, or its decoding after a handoff). An error of one
    request fails that request; when the library's executor is gone, `run` raises EngineLost.
    """

    def __init__(
        self,
        options: Options,
        library: Library,
        *,
        workers: WaitingWorkers | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        """Load nothing yet. `workers` are used where they are as many as the GPUs, and are ended in any case.

        `clock` counts seconds and `sleep` waits for some between checks of the engine.
        """
        self._options, self._library, self._workers = options, library, workers
        self._clock, self._sleep = clock, sleep
        self._llm: Any = None
        lora = options.lora
        self._adapters = Adapters(lora.paths if lora else {}, lora.in_memory if lora else 0)
        self._requests = Requests(options, library, self._adapters, rng or random.Random())
        self._accounts = Accounts(options.kv.tokens_per_block)
        self._cache_events = CacheEvents(options.kv.tokens_per_block)
        self._groups: dict[int, _Group] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._deltas: list[Delta] = []
        self._finishes: list[tuple[int, int, Finish]] = []
        self._started: list[tuple[int, int]] = []
        self._events: list[KvEvent] = []
        self._lost: Exception | None = None
        self._heard_at = clock()
        self._wake = asyncio.Event()
        self._submitted = asyncio.Event(), asyncio.Event()  # for the readers of statistics and of KV events
        self.info: ReplicaInfo = describe(options, library.version, 0)

    async def start(self, tell: Tell) -> None:
        """Load the model, answer a request, and read the size of the KV cache. Raises what the library raises.

        Loading blocks the event loop for minutes: the library sets up signals and processes from the main thread.
        """
        tell(LaunchStep.LOAD)
        self._llm = self._library.llm(**self._processes(), **llm_arguments(self._options, self._library))
        tell(LaunchStep.WARM_UP)
        async with asyncio.timeout(self._options.warmup_seconds):
            await self._one_token()
        await polling.drain(self._llm.get_stats_async, self._statistics, self._options.look_seconds)
        if self._options.kv.events:
            await polling.drain(self._llm.get_kv_cache_events_async, self._cache_event, self._options.look_seconds)
        if not self._accounts.blocks_total:
            log.warning("the engine does not say how large its KV cache is")
        elif self._options.kv.profiled:
            # For the starts of others like it.
            tokens = self._accounts.blocks_total * self._options.kv.tokens_per_block
            log.info("the KV cache has %d tokens: --kv-tokens %d --kv-no-profiling", tokens, tokens)
        self.info = describe(self._options, self._library.version, self._accounts.blocks_total)

    async def stop(self) -> None:
        """Shut the LLM down and free its GPUs, after all requests have ended."""
        try:
            if self._llm is not None:
                llm, self._llm = self._llm, None
                llm.shutdown()
        finally:
            self._end_workers()

    def _processes(self) -> dict[str, Any]:
        """Prepare the processes that the library takes or starts; return its argument for those that it takes."""
        shape, workers = self._options.shape, self._workers
        gpus = shape.gpus * self._options.context_parallel
        if workers is not None and workers.count != gpus:
            log.warning("%d processes wait for as many GPUs, and the model has %d: they end", workers.count, gpus)
            self._end_workers()
        if not self._options.kv.profiled:
            os.environ[SKIP_PROFILING] = "1"
            if self._workers is not None:
                self._workers.set_variable(SKIP_PROFILING, "1")
        return {} if self._workers is None else {"_mpi_session": self._workers.session}

    def _end_workers(self) -> None:
        if self._workers is not None:
            workers, self._workers = self._workers, None
            workers.end()

    def submit(self, handle: int, request: Submit) -> None:
        """Submit the request to the library, or refuse it with a failed finish in the next step."""
        failure = self._refusal(handle, request)
        if failure is not None:
            for k in range(max(1, request.sampling.n)):
                finish = Finish(FinishReason.ERROR, prompt_tokens=len(request.prompt_ids), failure=failure)
                self._finishes.append((handle, k, finish))
        self._wake.set()

    def cancel(self, handle: int) -> None:
        """Cancel the request; the library is told once a decode replica's KV cache has arrived."""
        group = self._groups.pop(handle, None)
        if group is None:
            return
        for sequence, _ in group.handed_over:
            self._finishes.append((handle, sequence.index, sequence.cancelled()))
        for sequence in group.sequences:
            if sequence.open:
                self._close(sequence, sequence.cancelled())
                self._abort(sequence)
        self._wake.set()

    async def run(self, emit: Callable[[EngineStep], None]) -> None:
        """Emit steps until cancelled. Raises EngineLost."""
        readers = [asyncio.ensure_future(reader) for reader in self._readers()]
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                if self._lost is not None:
                    raise EngineLost("TensorRT-LLM's executor is gone") from self._lost
                emit(self._step())
        finally:
            await polling.end({*readers, *self._tasks})

    def _readers(self) -> list[Awaitable[None]]:
        llm = self._llm
        statistics, cache_events = self._submitted
        readers: list[Awaitable[None]] = [
            self._watch(),
            self._read(llm.get_stats_async, self._statistics, statistics),
        ]
        if self._options.kv.events:
            readers.append(self._read(llm.get_kv_cache_events_async, self._cache_event, cache_events))
        return readers

    async def _read(self, queue: polling.Open, take: polling.Take, submitted: asyncio.Event) -> None:
        """Read forever: an unread queue grows, and a loss of KV events must be noticed."""
        while True:
            try:
                await polling.follow(queue, take, busy=self._is_busy, submitted=submitted)
            except Exception:
                log.exception("what the engine reports cannot be read; going on with our own counts meanwhile")
            await self._sleep(polling.PATIENCE)

    async def _watch(self) -> None:
        options = self._options
        try:
            await watch(
                probe=self._one_token,
                heard_at=lambda: self._heard_at,
                shut_down=self._is_shut_down,
                quiet_seconds=options.probe_seconds,
                timeout_seconds=options.probe_timeout_seconds,
                clock=self._clock,
                sleep=self._sleep,
            )
        except EngineLost as error:
            self._lose(error)

    async def _one_token(self) -> None:
        try:
            async for _ in self._llm.generate_async(**self._requests.one_token()):
                pass
        except self._library.request_error:
            log.warning("the engine refused a request of one token", exc_info=True)
        self._heard_at = self._clock()
        for event in self._submitted:
            event.set()

    def _is_busy(self) -> bool:
        return bool(self._groups)

    def _is_shut_down(self) -> bool:
        executor = getattr(self._llm, "_executor", None)
        return executor is None or bool(executor.is_shutdown())

    def _refusal(self, handle: int, request: Submit) -> Failure | None:
        """Submit the request; return the failure if that did not work."""
        failure = self._requests.refusal(request, self.info)
        if failure is not None:
            return failure
        if wants_logits(request):
            request = kept_apart(request, handle)
        begun: list[Sequence] = []
        try:
            for sequence, keywords in self._requests.sequences(handle, request):
                sequence.result = self._llm.generate_async(**keywords)
                begun.append(sequence)
        except Exception as error:
            for sequence in begun:
                sequence.open = False
                self._abort(sequence)
                self._follow(sequence)
            if self._concerns_all(error):
                self._lose(error)
                return Failure("engine_error", "the engine is lost")
            return failure_of(error, request)
        self._cache_events.submitted(request.prompt_ids, request.cache_salt)
        self._groups[handle] = _Group(begun)
        for sequence in begun:
            self._accounts.opened(sequence.holding)
            self._follow(sequence)
        for event in self._submitted:
            event.set()
        return None

    def _follow(self, sequence: Sequence) -> None:
        task = asyncio.get_running_loop().create_task(self._listen(sequence))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _listen(self, sequence: Sequence) -> None:
        """Read the library's iterator, also after a cancel, until the library has ended the request."""
        try:
            async for _ in sequence.result:
                if sequence.prompt_logprobs is None and sequence.result.finished:
                    await asyncio.to_thread(sequence.score)
                self._updated(sequence)
            if sequence.open:
                self._end(sequence, sequence.failed(Failure("engine_error", "the engine's answer has no end")))
        except Exception as error:
            if self._concerns_all(error):
                self._lose(error)
            elif sequence.open:
                log.warning("request %s failed in the engine", sequence.submit.request_id, exc_info=True)
                self._end(sequence, sequence.failed(failure_of(error, sequence.submit)))
                if not isinstance(error, self._library.request_error):
                    self._abort(sequence)  # its output cannot be read, but it still runs
        self._wake.set()

    def _updated(self, sequence: Sequence) -> None:
        self._heard_at = self._clock()
        produced = sequence.produced()
        if not sequence.open:
            sequence.holding.started |= produced > 0
            if sequence.aborting:
                self._abort(sequence)
            return
        starts = produced > 0 and not sequence.holding.started
        if produced:
            self._accounts.advanced(sequence.holding, produced)
        delta = sequence.delta()
        if delta is not None:
            self._deltas.append(delta)
        if starts:
            if sequence.gathers:
                self._started.append((sequence.handle, sequence.cached))
            if sequence.submit.adapter is not None:
                self._adapters.used(sequence.submit.adapter.name)
        if sequence.result.finished:
            self._end(sequence, sequence.finish())
        self._wake.set()

    def _end(self, sequence: Sequence, finish: Finish) -> None:
        group = self._groups[sequence.handle]
        if sequence.hands_over(finish):
            sequence.open = False
            self._accounts.closed(sequence.holding)
            group.handed_over.append((sequence, finish))
        else:
            self._close(sequence, finish)
        if not any(each.open for each in group.sequences):
            del self._groups[sequence.handle]
            self._hand_over(group)

    def _hand_over(self, group: _Group) -> None:
        """Emit the finishes of a prefill; a decode replica gets all sequences at once."""
        parameters = [each.result.outputs[0].disaggregated_params for each, _ in group.handed_over]
        try:
            handoff = pack(parameters) if parameters else None
        except (AttributeError, TypeError, IndexError):
            log.exception("the engine gave no state to hand over")
            handoff = None
        for sequence, finish in group.handed_over:
            ending = sequence.failed(Failure("engine_error", "nothing to hand over"))
            if handoff is not None:
                ending = with_handoff(finish, handoff)
            self._finishes.append((sequence.handle, sequence.index, ending))

    def _close(self, sequence: Sequence, finish: Finish) -> None:
        sequence.open = False
        self._accounts.closed(sequence.holding)
        self._finishes.append((sequence.handle, sequence.index, finish))

    def _abort(self, sequence: Sequence) -> None:
        """Abort at the library once it is safe; until then the iterator goes on and calls this again."""
        sequence.aborting = not sequence.arrived
        if sequence.aborting or sequence.result.finished:
            return
        try:
            sequence.result.abort()
        except Exception:
            log.warning("request %s could not be aborted", sequence.submit.request_id, exc_info=True)

    def _concerns_all(self, error: Exception) -> bool:
        """Whether an exception of one request means that the executor is gone.

        The executor shuts itself down and raises the cause from whichever request is read next.
        """
        if self._is_shut_down():
            return True
        # Python's own errors, as for a guide that is nested too deeply, are such subclasses too.
        mine = (self._library.request_error, RecursionError, NotImplementedError)
        return isinstance(error, RuntimeError) and not isinstance(error, mine)

    def _lose(self, error: Exception) -> None:
        self._lost = self._lost or error
        self._wake.set()

    def _statistics(self, item: Mapping[str, Any]) -> None:
        self._accounts.correct(item, self._clock())
        self._wake.set()

    def _cache_event(self, item: Mapping[str, Any]) -> None:
        event = self._cache_events.take(item)
        if event is None:
            return
        if isinstance(event.data, KvCreated) and not self._accounts.blocks_total and event.data.blocks_per_cache_level:
            self._accounts.blocks_total = event.data.blocks_per_cache_level[0]
        self._events.append(event)
        self._wake.set()

    def _step(self) -> EngineStep:
        deltas, self._deltas = self._deltas, []
        finishes, self._finishes = self._finishes, []
        started, self._started = self._started, []
        events, self._events = self._events, []
        load = self._accounts.load(self._clock())
        work = self._accounts.work()
        return EngineStep(deltas, finishes, load, events, started, work, self._adapters.changes())
