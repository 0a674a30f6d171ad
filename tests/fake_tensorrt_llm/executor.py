"""The fake's executor: a step per turn of the event loop, or one at a time when a test holds it."""

import asyncio
import json
import random
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from zlib import crc32

from tests.fake_tensorrt_llm.cache import Cache
from tests.fake_tensorrt_llm.logits import VOCABULARY, Logits
from tests.fake_tensorrt_llm.parameters import DisaggregatedParams, LoRARequest, SamplingParams
from tests.fake_tensorrt_llm.results import (
    IterationResult,
    Logprob,
    PerfMetrics,
    RequestError,
    RequestOutput,
    Response,
    TimingMetrics,
)


def next_token(tokens: list[int], seed: int, end_id: int) -> int:
    """What follows; never the end, which a test asks for by `ends_after`."""
    token = crc32(f"{seed}:{tokens}".encode()) % VOCABULARY
    return token if token != end_id else token + 1


@dataclass
class Sequence:
    """One of a request's; several are children with seeds of their own."""

    index: int
    seed: int
    tokens: list[int]
    produced: list[int] = field(default_factory=list)
    done: bool = False


@dataclass
class Request:
    result: RequestOutput
    prompt: list[int]
    sampling: SamplingParams
    streaming: bool
    salt: str | None
    adapter: LoRARequest | None
    handoff: DisaggregatedParams | None
    sequences: list[Sequence]
    arrived: int
    scheduled: int = 0
    cached: int = 0
    waited: int = 0
    cancelled: bool = False

    @property
    def kind(self) -> str:
        return (self.handoff and self.handoff.request_type) or "context_and_generation"


class Executor:
    """Dies on demand: `die` like the real one, whose error only the next response of some request brings to light."""

    def __init__(self, llm: Any) -> None:
        kv = llm.arguments["kv_cache_config"]
        self.llm = llm
        self.active: list[Request] = []
        self.waiting: list[Request] = []
        self.stranded: list[int] = []
        self.loaded: list[int] = []
        self.stats: IterationResult | None = None
        self.events: IterationResult | None = None
        self._pending_events: list[str] = []
        self._event_id = 0
        self._with_events = kv.event_buffer_max_size > 0 and kv.enable_block_reuse
        self._reuse = kv.enable_block_reuse
        self.cache = Cache((kv.max_tokens or 65536) // kv.tokens_per_block, kv.tokens_per_block, self._tell)
        self.errors: list[Exception] = []
        self.doing_shutdown = False
        self.steps = 0
        self._ids = 1
        self._ticking = False
        self._slot = asyncio.get_running_loop()

    def is_shutdown(self) -> bool:
        return self.doing_shutdown

    def shutdown(self) -> None:
        self.doing_shutdown = True
        self.active.clear()
        self.waiting.clear()

    def submit(self, **given: Any) -> RequestOutput:
        if self.stats is None or self.events is None:
            self.stats, self.events = IterationResult(), IterationResult()
            for event in self._pending_events:
                self.events.queue.put(event)
        else:
            self.stats.mark_undone()
            self.events.mark_undone()
        self._check(given)
        self._ids += 1
        sampling, prompt = given["sampling"], given["prompt"]
        result = RequestOutput(self._ids, prompt, sampling, self._background_error)
        result.disaggregated_params = given["handoff"]
        result.abort_request = self.abort
        first = list(given["handoff"].first_gen_tokens or ()) if given["handoff"] else []
        seed = 0 if sampling.greedy or sampling.seed is None else sampling.seed
        sequences = [Sequence(k, seed + k, [*prompt], []) for k in range(sampling.best_of or 1)]
        request = Request(result=result, sequences=sequences, arrived=self.steps, **given)
        if request.kind == "generation_only":
            for sequence in sequences:
                sequence.tokens += first
                sequence.produced += first
        self.waiting.append(request)
        self.kick()
        return result

    def _check(self, given: dict[str, Any]) -> None:
        """Errors of one request, which the real one's worker raises."""
        if self.llm.refusals:
            raise RequestError(self.llm.refusals.pop(0))
        arguments, handoff = self.llm.arguments, given["handoff"]
        if handoff is not None and handoff.request_type != "context_and_generation":
            assert "cache_transceiver_config" in arguments, "kv_cache_transceiver is disabled"
            if handoff.request_type == "context_only" and not arguments.get("disable_overlap_scheduler"):
                raise RequestError(
                    "Context only requests are not supported in pytorch backend when overlap is enabled."
                )
        if given["sampling"].guided_decoding is not None and not arguments.get("guided_decoding_backend"):
            raise RequestError("guided decoding is not enabled")
        if given["adapter"] is not None:
            if not arguments.get("enable_lora"):
                raise RequestError("lora is not enabled")
            self.loaded.append(given["adapter"].lora_int_id)

    def abort(self, request_id: int) -> None:
        for request in [*self.active, *self.waiting]:
            if request.result.request_id == request_id:
                request.cancelled = True
                if request.kind == "generation_only" and len(request.sequences[0].produced) < 2:
                    self.stranded.append(request_id)
        self.kick()

    def kick(self) -> None:
        """Step soon, unless a test holds the steps."""
        if not self._ticking and not self.llm.held and (self.active or self.waiting):
            self._ticking = True
            self._slot.call_soon(self._tick)

    def _tick(self) -> None:
        self._ticking = False
        if not self.llm.held:
            self.step()
            self.kick()

    def step(self) -> None:
        """One iteration: admit, compute prompts or a token each, answer."""
        if self.doing_shutdown or self.llm.wedged:
            return
        self.steps += 1
        while self.waiting and len(self.active) < self.llm.arguments["max_batch_size"]:
            request = self.waiting.pop(0)
            request.scheduled = self.steps
            if self._reuse and request.kind != "generation_only":
                request.cached = self.cache.find(request.salt, _number(request), request.prompt)
            self.active.append(request)
        prompts = [r for r in self.active if not r.sequences[0].produced and not r.cancelled]
        batch = {
            "numScheduledRequests": len(self.active),
            "numContextRequests": len(prompts),
            "numGenRequests": len(self.active) - len(prompts),
            "numPausedRequests": 0,
            "numCtxTokens": sum(len(r.prompt) - r.cached for r in prompts),
        }
        for request in list(self.active):
            self._advance(request)
        self._report(batch)

    def _advance(self, request: Request) -> None:
        if request.cancelled:
            for sequence in request.sequences:
                sequence.done = True
                self._answer(request, sequence, [], "cancelled", final=sequence is request.sequences[-1])
            self._leave(request)
            return
        if request.waited < self.llm.prefill_steps and not request.sequences[0].produced:
            request.waited += 1
            return
        if request.kind == "generation_only" and request.waited < self.llm.transfer_steps:
            request.waited += 1
            return
        if request.sampling.return_context_logits and request.result.context_logits is None:
            # Of what the cache had there are none.
            request.result.context_logits = Logits.after(request.prompt[request.cached :])
        for sequence in request.sequences:
            if not sequence.done:
                self._generate(request, sequence)
        if all(sequence.done for sequence in request.sequences):
            self._leave(request)

    def _generate(self, request: Request, sequence: Sequence) -> None:
        sampling = request.sampling
        end_id = sampling.end_id if sampling.end_id is not None else -1
        scripted = self.llm.script.get(len(sequence.produced))
        token = next_token(sequence.tokens, sequence.seed, end_id) if scripted is None else scripted
        sequence.tokens.append(token)
        sequence.produced.append(token)
        reason = None
        minimum = sampling.min_tokens or 0
        if token == end_id and not sampling.ignore_eos and len(sequence.produced) > minimum:
            reason = "stop"
        elif [token] in sampling.stops() and len(sequence.produced) > minimum:
            reason = "stop_words"
        elif len(sequence.produced) >= sampling.max_tokens:
            reason = "not_finished" if request.kind == "context_only" and self.llm.says_not_finished else "length"
        sequence.done = reason is not None
        final = all(each.done for each in request.sequences)
        new = [token]
        if request.kind == "generation_only" and len(sequence.produced) == 2:
            new = list(sequence.produced)  # the prefill's token comes again, with the first of its own
        handoff = None
        if request.kind == "context_only" and reason in ("length", "not_finished"):
            handoff = DisaggregatedParams(
                request_type="context_only",
                first_gen_tokens=[token],
                ctx_request_id=request.result.request_id,
                opaque_state=b"kv:%d" % request.result.request_id,
            )
        if request.streaming or final:
            tokens = new if request.streaming else list(sequence.produced)
            self._answer(request, sequence, tokens, reason, final=final, handoff=handoff)
        if len(sequence.produced) == 1 and self._reuse:
            self.cache.store(request.salt, _number(request), request.prompt)

    def _answer(
        self,
        request: Request,
        sequence: Sequence,
        tokens: list[int],
        reason: str | None,
        *,
        final: bool,
        handoff: DisaggregatedParams | None = None,
    ) -> None:
        logprobs = []
        if request.sampling.logprobs:  # 0 is as good as none
            logprobs = [self._alternatives(token, request.sampling.logprobs) for token in tokens]
        error = self.llm.response_errors.pop(0) if self.llm.response_errors else None
        at = [timedelta(milliseconds=each) for each in (request.arrived + 1, request.scheduled + 1, self.steps + 1)]
        last = timedelta(milliseconds=self.steps + 2) if final else timedelta()
        assert request.result.queue is not None
        request.result.queue.put(
            Response(
                sequence=sequence.index,
                tokens=tokens,
                reason=reason,
                final=final or error is not None,
                cached=request.cached,
                logprobs=logprobs,
                handoff=handoff,
                metrics=PerfMetrics(TimingMetrics(at[0], at[1], at[2], last)),
                error=error,
            )
        )
        if error is not None:
            request.cancelled = True

    @staticmethod
    def _alternatives(token: int, count: int) -> dict[int, Logprob]:
        """The best so many, and the token itself behind them if it is none of those."""
        others = random.Random(token).sample(range(VOCABULARY + 1, VOCABULARY + 50), count)
        found = {other: Logprob(-1.0 - k, k + 1) for k, other in enumerate(others)}
        return found | {token: Logprob(float("-inf") if token == 666 else -50.0, count + 1)}

    def _leave(self, request: Request) -> None:
        self.active.remove(request)

    def _report(self, batch: dict[str, int]) -> None:
        if self.stats is None or not self.llm.arguments.get("enable_iter_perf_stats"):
            return
        used = sum(self.cache.need(len(s.tokens)) for r in self.active for s in r.sequences)
        figures = {
            "iter": self.steps,
            "iterLatencyMS": 5.0,
            "numActiveRequests": len(self.active),
            "numQueuedRequests": len(self.waiting),
            "maxNumActiveRequests": self.llm.arguments["max_batch_size"],
            "kvCacheStats": {
                "maxNumBlocks": self.cache.blocks,
                "freeNumBlocks": self.cache.blocks - used,
                "usedNumBlocks": used,
                "tokensPerBlock": self.cache.size,
            },
            "inflightBatchingStats": batch,
        }
        self.stats.queue.put(json.dumps(figures))

    def _tell(self, data: dict[str, Any]) -> None:
        if not self._with_events:
            return
        event = json.dumps({"event_id": self._event_id, "data": data, "window_size": 4096})
        self._event_id += 1
        if self._event_id - 1 in self.llm.lost_events:
            return
        if self.events is None:
            self._pending_events.append(event)
        else:
            self.events.queue.put(event)

    def _background_error(self, error: str | None = None) -> None:
        if error is not None:
            raise RequestError(error)
        if self.errors:
            self.shutdown()
            raise self.errors.pop(0)


def _number(request: Request) -> int:
    return request.adapter.lora_int_id if request.adapter else 0
