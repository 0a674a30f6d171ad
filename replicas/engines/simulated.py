"""The simulated engine: the pure replica model paced by a clock, answering with sentences from a small corpus.

Its tokens depend only on (prompt, seed, sequence, position), so that a resumed or resubmitted request can be compared
token for token; its schedule, KV cache and step times are those of replicas/model.py and replicas/timing.py.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from protos.errors import GUIDE_PARAM
from protos.features import Feature
from protos.script import Line
from protos.types import (
    Failure,
    Finish,
    FinishReason,
    Handoff,
    KvEvent,
    ReplicaInfo,
    Role,
    Shape,
    Submit,
    Timing,
    TokenLogprobs,
)
from replicas.engine import Delta, EngineStep
from replicas.engine_limits import CapacityPolicy, Limits
from replicas.engines.answer_lengths import Corpus, Walk, logprobs_of
from replicas.engines.answer_scripts import Script
from replicas.engines.pending_guides import PendingGuides
from replicas.engines.sequence_plans import SequencePlanner, seed_of
from replicas.engines.vocabulary import Vocabulary
from replicas.engines.waiting_adapters import WaitingAdapters
from replicas.model import ReplicaModel
from replicas.profiles import PROFILES, ModelProfile
from replicas.sequence import Sequence
from replicas.timing import FixedTimer, RooflineTimer, StepTimer, kv_blocks

if TYPE_CHECKING:
    from replicas.engines.guided.composition import Composed

MAX_LOGPROBS = 20
DEFAULT_PROFILE = "mixtral-8x7b"
ONE_GPU = Shape()
_NEVER = 1 << 62
# Lag beyond which the schedule is moved: shorter lags are caught up, so that the average pace holds although every
# sleep overshoots a little.
_CATCH_UP_SECONDS = 0.1


@dataclass(slots=True, eq=False, kw_only=True)
class Answer(Sequence):
    """One sequence and what of it has been emitted. Counts are of this attempt's tokens, `offset` of earlier ones."""

    handle: int
    index: int
    walk: Walk
    logprobs: int | None
    interval: int  # tokens per delta
    offset: int  # position in the whole answer of this attempt's first token
    total: int  # tokens of this attempt
    reason: FinishReason
    handoff: Handoff | None
    scores: bool  # its finish has the logprobs of the prompt
    emitted: int
    finished: bool = False

    def content(self, count: int) -> list[int]:
        start = self.offset
        self.walk.extend(start + count)
        return self.walk.tokens[start : start + count]


class SimulatedEngine:
    """An `Engine` of one replica; see the constructor for its three paces (modelled, fixed, or instant).

    The request decides what runs (all of it, its prefill only, or its decoding after a handoff), like in the real
    engine; `role` is only reported. `max_tokens` and the counts of a finish include the first tokens of a handoff, but
    not the `generated` tail of a prompt.
    """

    def __init__(
        self,
        *,
        model: str,
        corpus: Corpus,
        profile: str | None = None,
        shape: Shape = ONE_GPU,
        role: Role = Role.BOTH,
        policy: CapacityPolicy = CapacityPolicy.GUARANTEED_NO_EVICT,
        speed: float = 1.0,
        instant: bool = False,
        pace_seconds: float | None = None,
        output_tokens: int | None = None,
        max_batch_size: int = 2048,
        max_num_tokens: int = 8192,
        max_sequence_tokens: int | None = None,
        kv_blocks_total: int | None = None,
        adapters: tuple[str, ...] = (),
        max_adapters: int = 0,
        adapter_load_seconds: float = 0.25,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
        version: str = "",
        tokenizer_hash: str = "",
        vocabulary: Vocabulary | None = None,
        script: tuple[Line, ...] = (),
    ) -> None:
        """Make an idle engine, which imitates the published model `profile`; unset, the one named by `model`.

        `speed` divides the modelled time; `pace_seconds` replaces it by a fixed step; `instant` steps as fast as the
        CPU allows. `output_tokens` fixes the natural length of every answer. The sizes default to what the model's
        profile gives on H100s. With `max_adapters` it has LoRA: that many are loaded at a time, each in
        `adapter_load_seconds` of modelled time, and `adapters` are found by their names alone. `clock` counts seconds
        and `sleep` waits for some; `rng` draws the seeds of requests without one. It reports `version` and
        `tokenizer_hash`. With a `vocabulary` it honours guides and gives the answers of `script`.
        """
        if speed <= 0 or (pace_seconds is not None and pace_seconds < 0):
            raise ValueError("speed must be positive, pace_seconds not negative")
        if script and vocabulary is None:
            raise ValueError("a script needs a vocabulary")
        self.profile = sizes = self.profile_of(model, profile)
        blocks = kv_blocks_total or kv_blocks(sizes, shape)
        limits = Limits(blocks, max_batch_size=max_batch_size, max_num_tokens=max_num_tokens, policy=policy)
        timer: StepTimer = RooflineTimer(sizes, shape, speed=speed)
        if instant or pace_seconds is not None:
            timer = FixedTimer(0.0 if instant else pace_seconds or 0.0)
        self._model = self._model_of(limits, timer)
        self._corpus = corpus
        self._vocabulary = vocabulary
        self._guided: PendingGuides[list[Composed] | Failure] = PendingGuides(self._composed)
        self._instant = instant
        self._clock, self._sleep = clock, sleep
        self._requests: dict[int, list[Answer]] = {}
        self._finishes: list[tuple[int, int, Finish]] = []
        self._events: list[KvEvent] = self._model.cache.drain_events()
        self._started: list[tuple[int, int]] = []
        self._wake = asyncio.Event()
        self._adapters: WaitingAdapters[Answer] = WaitingAdapters(
            adapters, max_adapters, 0.0 if instant else adapter_load_seconds / speed, self._model.submit
        )
        self.info = ReplicaInfo(
            model=model,
            engine="simulated",
            fingerprint=fingerprint_of(sizes, shape),
            shape=shape,
            role=role,
            max_batch_size=max_batch_size,
            max_sequence_tokens=min(max_sequence_tokens or sizes.context, limits.kv_tokens),
            kv_block_tokens=limits.tokens_per_block,
            kv_blocks_total=blocks,
            max_num_tokens=max_num_tokens,
            reserves_output=policy is CapacityPolicy.GUARANTEED_NO_EVICT,
            features=Feature.TOKENS
            | Feature.PROMPT_LOGPROBS
            | (Feature.LORA if max_adapters else Feature.NONE)
            | (Feature.NONE if vocabulary is None else Feature.GUIDED | Feature.GUIDE_RESUMES),
            adapters=adapters if max_adapters else (),
            version=version,
            tokenizer_hash=tokenizer_hash,
        )
        self._planner = SequencePlanner(
            corpus,
            rng or random.Random(),
            max_sequence_tokens=self.info.max_sequence_tokens,
            output_tokens=output_tokens,
            script=Script(script, vocabulary) if vocabulary is not None and script else None,
        )

    @staticmethod
    def profile_of(model: str, profile: str | None) -> ModelProfile:
        """Return the profile that an engine imitates. Raises ValueError for one that there is not."""
        imitated = profile or (model if model in PROFILES else DEFAULT_PROFILE)
        if imitated not in PROFILES:
            raise ValueError(f"no profile {imitated}; there are {', '.join(sorted(PROFILES))}")
        return PROFILES[imitated]

    def _model_of(self, limits: Limits, timer: StepTimer) -> ReplicaModel[Answer]:
        return ReplicaModel(limits, timer)

    def submit(self, handle: int, request: Submit) -> None:
        """Queue the request, or refuse it with a failed finish in the next step."""
        failure = self._refusal(request)
        if failure:
            self._end(handle, request, FinishReason.ERROR, failure)
        elif request.guide is not None:
            self._compose(handle, request)
        else:
            self._start(handle, request, self._answers(handle, request))
        self._wake.set()

    def cancel(self, handle: int) -> None:
        """End the request's open sequences; their finishes come with the next step."""
        group = self._requests.pop(handle, None)
        if group is None:
            request = self._guided.drop(handle)
            if request is not None:
                self._end(handle, request, FinishReason.CANCELLED)
                self._wake.set()
            return
        if not self._adapters.drop(handle):
            self._model.cancel(group, self._clock())
        self._adapters.ended(handle)
        for answer in group:
            if not answer.finished:
                answer.finished = True
                self._finishes.append((handle, answer.index, finish_of(answer, FinishReason.CANCELLED)))
        self._wake.set()

    async def run(self, emit: Callable[[EngineStep], None]) -> None:
        """Step until cancelled; wait on an event while idle."""
        try:
            await self._run(emit)
        finally:
            self._guided.close()

    async def _run(self, emit: Callable[[EngineStep], None]) -> None:
        model, clock = self._model, self._clock
        due = clock()
        while True:
            now = clock()
            start = now if self._instant else max(due, now - _CATCH_UP_SECONDS)
            loaded_at = self._adapters.advance(now)
            seconds = model.begin(start)
            if seconds is None:
                step = self._step([])
                if step.finishes or step.kv_events or step.adapters is not None:
                    emit(step)
                self._wake.clear()
                await self._idle(None if loaded_at is None else loaded_at - now)
                due = clock()
                continue
            due = start + seconds
            await self._sleep(0.0 if self._instant else max(0.0, due - now))
            emit(self._step(model.end(clock() if self._instant else due)))

    async def _idle(self, seconds: float | None) -> None:
        """Wait until a request comes, at most `seconds` (until an adapter is loaded)."""
        if seconds is None:
            await self._wake.wait()
            return
        waits = [asyncio.ensure_future(self._wake.wait()), asyncio.ensure_future(self._sleep(seconds))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    def _step(self, ended: list[Answer]) -> EngineStep:
        deltas = self._deltas()
        work = self._model.work
        finishes, self._finishes = self._finishes, []
        for answer in ended:
            if answer.finished:  # cancelled while its last step ran
                continue
            if answer.total > answer.emitted:
                deltas.append(self._delta(answer, answer.total))
            finish = finish_of(answer, answer.reason)
            if answer.scores:
                finish = msgspec.structs.replace(finish, prompt_logprobs=self._of_prompt(answer))
            finishes.append((answer.handle, answer.index, finish))
            answer.finished = True
            if all(other.finished for other in self._requests[answer.handle]):
                del self._requests[answer.handle]
                self._adapters.ended(answer.handle)
        events, self._events = self._events + self._model.cache.drain_events(), []
        started, self._started = self._started, []
        load, held = self._model.load, self._adapters.waiting + self._guided.waiting
        if held:
            load = msgspec.structs.replace(load, waiting=load.waiting + held)
        adapters = self._adapters.news(self._clock()) if self._adapters.enabled else None
        return EngineStep(deltas, finishes, load, events, started, work if work and work.us else None, adapters)

    def _deltas(self) -> list[Delta]:
        """Return a delta per decoding sequence with a full interval of tokens: the hot loop, once per token."""
        deltas = []
        clock = self._model.clock
        for answer in self._model.decoding.values():
            produced = clock - answer.base
            emitted = answer.emitted
            if produced - emitted < answer.interval:
                if produced - emitted == 1 and emitted <= 1 and answer.index == 0:
                    self._started.append((answer.handle, answer.cached or 0))
                continue
            if answer.logprobs is not None:
                deltas.append(self._delta(answer, produced))
                continue
            tokens = answer.walk.tokens
            first, last = answer.offset + emitted, answer.offset + produced
            if last > len(tokens):
                answer.walk.extend(last)
            delta = Delta(answer.handle, answer.index, tokens[first:last])
            if emitted == 0:
                delta.cached_tokens = answer.cached
            deltas.append(delta)
            answer.emitted = produced
        return deltas

    def _delta(self, answer: Answer, produced: int) -> Delta:
        """Return what the sequence has produced and not yet emitted."""
        first, last = answer.offset + answer.emitted, answer.offset + produced
        cached = answer.cached if answer.emitted == 0 else None
        answer.walk.extend(last)
        answer.emitted = produced
        tokens = answer.walk.tokens[first:last]
        alternatives = answer.logprobs
        logprobs: list[TokenLogprobs] | None = None
        if alternatives is not None:
            logprobs = [logprobs_of(t, first + i, alternatives, self._corpus) for i, t in enumerate(tokens)]
        return Delta(answer.handle, answer.index, tokens, logprobs, cached)

    def _of_prompt(self, answer: Answer) -> tuple[TokenLogprobs, ...]:
        alternatives, corpus = answer.logprobs or 0, self._corpus
        return tuple(logprobs_of(t, at, alternatives, corpus) for at, t in enumerate(answer.ids[1:], 1))

    def _refusal(self, request: Submit) -> Failure | None:
        """Return why this engine cannot run the request, if it cannot."""
        sampling, longest = request.sampling, self.info.max_sequence_tokens
        if len(request.prompt_ids) + 1 > longest:
            message = f"a prompt of {len(request.prompt_ids)} tokens leaves no room to answer within {longest} tokens"
            return Failure("context_length_exceeded", message)
        problems = (
            (not 1 <= sampling.n <= self.info.max_batch_size, "n", "is not between 1 and the largest batch"),
            (request.max_tokens < 1, "max_tokens", "must be at least 1"),
            (not request.prompt_ids, "prompt", "must not be empty"),
            (not 0 <= (sampling.logprobs or 0) <= MAX_LOGPROBS, "top_logprobs", f"must be at most {MAX_LOGPROBS}"),
            (not 0 <= request.sequence < 2**31, "sequence", "is not between 0 and 2**31"),
            (not 0 <= request.generated < max(1, len(request.prompt_ids)), "generated", "leaves no prompt"),
            (request.adapter is not None and not self._adapters.can(request.adapter), "model", "has no such adapter"),
            (request.guide is not None and self._vocabulary is None, GUIDE_PARAM, "is not honoured"),
            (request.handoff is not None and seed_of(request.handoff) is None, "handoff", "is not of this engine"),
        )
        for wrong, param, why in problems:
            if wrong:
                return Failure("unsupported_parameter", f"{param} {why}", param)
        return None

    def _compose(self, handle: int, request: Submit) -> None:
        """Queue a guided request for composing; it starts when its answers are ready."""
        vocabulary, corpus, courses = self._vocabulary, self._corpus, self._planner
        assert vocabulary is not None, "or it would have been refused"
        request = courses.seeded(request)
        keys, scripted = courses.keys(request), courses.scripted(request)
        most = request.generated + (1 if request.prefill_only else courses.room(request))

        def work(wanted: Callable[[], bool]) -> "list[Composed] | Failure":
            # Imported in the thread: the library takes a while to load.
            from replicas.engines.guided.guided_answers import guided_answers

            return guided_answers(vocabulary, corpus, request, keys, most, scripted, wanted)

        self._guided.add(handle, request, work)

    def _composed(self, handle: int, request: Submit, answers: "list[Composed] | Failure") -> None:
        if isinstance(answers, Failure):
            self._end(handle, request, FinishReason.ERROR, answers)
        else:
            self._start(handle, request, self._answers(handle, request, answers))
        self._wake.set()

    def _start(self, handle: int, request: Submit, group: list[Answer]) -> None:
        self._requests[handle] = group
        if request.adapter is None:
            self._model.submit(group, self._clock())
        else:
            self._adapters.add(handle, request.adapter, group)

    def _end(self, handle: int, request: Submit, reason: FinishReason, failure: Failure | None = None) -> None:
        """End all sequences of a request that has not started."""
        for k in range(max(1, request.sampling.n)):
            finish = Finish(reason, prompt_tokens=len(request.prompt_ids), failure=failure)
            self._finishes.append((handle, k, finish))

    def _answers(self, handle: int, request: Submit, composed: "list[Composed] | None" = None) -> list[Answer]:
        courses, handoff = self._planner.of(request, composed)
        limit = 1 if request.prefill_only else self._planner.room(request)
        return [
            Answer(
                prompt=len(request.prompt_ids),
                steps=course.total + (course.reason is FinishReason.STOP),
                limit=limit,
                ids=list(request.prompt_ids),
                salt=request.cache_salt,
                transferred=request.handoff is not None,
                handle=handle,
                index=k,
                walk=course.walk,
                logprobs=request.sampling.logprobs,
                interval=request.delta_interval or _NEVER,
                offset=request.generated,
                total=course.total,
                reason=course.reason,
                handoff=handoff,
                scores=k == 0 and request.sampling.prompt_logprobs and request.handoff is None,
                emitted=int(request.handoff is not None),
            )
            for k, course in enumerate(courses)
        ]


def fingerprint_of(profile: ModelProfile, shape: Shape) -> str:
    """Return what tells engines of this kind apart."""
    more = "".join(f"-{name}{degree}" for name, degree in (("ep", shape.ep), ("pp", shape.pp)) if degree > 1)
    return f"simulated-{profile.name}-tp{shape.tp}{more}"


def finish_of(answer: Answer, reason: FinishReason, failure: Failure | None = None) -> Finish:
    """Return a sequence's finish, as far as it has come."""

    def micros(start: float | None, end: float | None) -> int:
        return 0 if start is None or end is None else max(0, round((end - start) * 1e6))

    return Finish(
        reason,
        prompt_tokens=answer.prompt,
        cached_tokens=answer.cached or 0,
        completion_tokens=min(answer.produced, answer.total),
        timing=Timing(
            queue_us=micros(answer.arrived, answer.ended if answer.admitted is None else answer.admitted),
            prefill_us=micros(answer.admitted, answer.ended if answer.first_token is None else answer.first_token),
            decode_us=micros(answer.first_token, answer.ended),
        ),
        failure=failure,
        handoff=answer.handoff if reason is FinishReason.LENGTH else None,
    )
