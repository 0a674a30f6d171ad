"""Shadows of one worker: copies of clients' requests that a candidate answers, and what their comparison says."""

import asyncio
import contextlib
import logging
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from gateway.api.candidates.candidate_requests import CandidateAnswer, CandidateRequests
from gateway.api.candidates.copied_request import CopiedRequest
from gateway.api.candidates.redacted_texts import RedactedTexts
from gateway.inference.generate_request import GenerateRequest
from gateway.models.served_model import ServedModel
from gateway.rollouts.comparison.answer import Answer, Expected, expected_of
from gateway.rollouts.comparison.difference import AnswerDifference, compare
from gateway.rollouts.comparison.difference_sums import counts_of
from gateway.rollouts.comparison.read_answer import NotAnAnswer, read_answer
from gateway.rollouts.comparison.similarity import cosine
from gateway.rollouts.regular_reports import report_every
from gateway.rollouts.shadow.shadow_room import Taken, refusal
from gateway.rollouts.shadow.shadow_sums import LEFT_OUT, MOST_EXAMPLES, Example, add_sums
from gateway.rollouts.shadow.shadow_turns import ShadowTurns
from gateway.store.store_client import Store
from protos.errors import FilterFailed, Overloaded, StoreUnavailable
from routing.rollouts.settings import ShadowSettings
from routing.rollouts.split import Split

log = logging.getLogger(__name__)

#: Seconds between two times that sums are handed in.
REPORT_SECONDS: Final = 1.0
#: A copy may take so many times as long as the client's request did, and at least so many seconds.
_LONGER, _LEAST_SECONDS = 4.0, 10.0
#: Seconds that the copies under way have at the worker's end.
END_SECONDS: Final = 1.0
_BODY: Final = msgspec.json.Decoder(dict[str, Any])


class ShadowRuns:
    """Copies begin when `begin` hears of a request; they are tasks that end with `aclose`."""

    def __init__(
        self,
        store: Store,
        requests: CandidateRequests,
        redacted: RedactedTexts,
        active: Collection[object],
        most_active: Callable[[], int],
        models: Callable[[], Mapping[str, ServedModel]],
        turns: ShadowTurns,
    ) -> None:
        """`active` are the requests of the worker, of which it takes `most_active`; `models` gives those served."""
        self._store = store
        self._requests = requests
        self._redacted = redacted
        self._active = active
        self._most_active = most_active
        self._models = models
        self._turns = turns
        self._taken: defaultdict[str, Taken] = defaultdict(Taken)
        self._running: set[asyncio.Task[None]] = set()
        self._sums: defaultdict[tuple[str, int], Counter[str]] = defaultdict(Counter)
        self._examples: defaultdict[tuple[str, int], deque[Example]] = defaultdict(lambda: deque(maxlen=MOST_EXAMPLES))
        self._closed = False
        self._failing = False

    def share_of(self, request: GenerateRequest) -> float:
        """Return which part of requests like this one is copied."""
        versions = request.model.versions
        if versions is None:
            return 0.0
        split = versions.split
        settings, caller = split.shadow, request.caller
        if settings is None or not caller.tenant.data.shadow or request.record.version != split.stable:
            return 0.0
        if split.tenants and caller.tenant.name not in split.tenants:
            return 0.0
        if split.tiers and caller.tier.name not in split.tiers:
            return 0.0
        return settings.share

    def begin(self, copied: CopiedRequest) -> None:
        """Copy a request to the candidate, if that has room."""
        versions = copied.model.versions
        if self._closed or versions is None or versions.split.shadow is None:
            return
        split, settings = versions.split, versions.split.shadow
        record = copied.record
        taken, sequences = self._taken[copied.model.name], record.sequences
        tokens = (record.prompt_tokens or len(copied.body) // 4) + (record.completion_tokens or len(copied.answer) // 4)
        refused: str | None = refusal(
            versions.candidates(split.candidate),
            settings.room,
            self._turns.workers,
            taken,
            sequences=sequences,
            tokens=tokens,
            is_due=self._turns.is_due,
        )
        if refused is None and 2 * len(self._active) >= self._most_active():
            refused = "busy"
        if refused is not None:
            self._sums[copied.model.name, split.epoch][f"{LEFT_OUT}{refused}"] += 1
            return
        taken.sequences += sequences
        taken.tokens += tokens
        task = asyncio.get_running_loop().create_task(self._run(copied, split, settings))
        self._running.add(task)

        def ended(task: "asyncio.Task[None]") -> None:
            self._running.discard(task)
            taken.sequences -= sequences
            taken.tokens -= tokens

        task.add_done_callback(ended)

    async def run(self) -> None:
        """Hand the sums in once a second, and keep this worker's turn, until cancelled."""
        await report_every(REPORT_SECONDS, self._exchange, "handing in what shadows have shown")

    async def _exchange(self) -> None:
        versions = [model.versions for model in self._models().values()]
        if any(one is not None and one.split.shadow is not None for one in versions):
            with contextlib.suppress(StoreUnavailable):
                await self._turns.enrol()
        await self.report()

    async def report(self) -> None:
        """Hand in what has come up since. What the store does not take stays for the next time."""
        for (model, epoch), sums in list(self._sums.items()):
            examples = self._examples.pop((model, epoch), deque())
            del self._sums[model, epoch]
            try:
                await add_sums(self._store, model, epoch, sums, list(examples))
                self._failing = False
            except StoreUnavailable as error:
                if not self._failing:
                    log.warning("what shadows have shown waits: %s", error.__cause__ or error)
                self._failing = True
                self._sums[model, epoch].update(sums)
                self._examples[model, epoch].extendleft(reversed(examples))

    async def aclose(self) -> None:
        """End all copies, and hand in what is known. Idempotent."""
        self._closed = True
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        try:
            async with asyncio.timeout(END_SECONDS):
                await self.report()
        except TimeoutError:
            log.warning("what shadows have shown last is lost: the store takes too long")

    async def _run(self, copied: CopiedRequest, split: Split, settings: ShadowSettings) -> None:
        try:
            seconds = max(_LEAST_SECONDS, _LONGER * copied.seconds)
            told = await self._requests.ask(
                copied.caller,
                split.candidate,
                copied.path,
                copied.body,
                seconds=seconds,
                shadow_of=copied.record.id,
            )
            await self._compare(copied, told, split, settings)
        except Exception:
            # Any error: a shadow is nobody's request, and must not be seen but here.
            log.exception("the shadow of request %s", copied.record.id)

    async def _compare(
        self, copied: CopiedRequest, told: CandidateAnswer, split: Split, settings: ShadowSettings
    ) -> None:
        sums = self._sums[copied.model.name, split.epoch]
        if told.code == Overloaded.code:
            # It had no room after all, which says nothing of its answers.
            sums[f"{LEFT_OUT}full"] += 1
            return
        # Away from the event loop, as long answers take milliseconds.
        baseline, candidate, expected = await asyncio.to_thread(_read, copied, told)
        if baseline is None:
            return
        embedded = await self._embedded(copied, baseline, candidate, settings)
        found = await asyncio.to_thread(compare, baseline, candidate, expected, embedded)
        example = None
        if not found.alike(settings.similar):
            example = await self._example(copied, told, found, baseline, candidate)
        # Nothing is awaited from here on: what is counted is handed in together with its example.
        sums = self._sums[copied.model.name, split.epoch]
        sums.update(counts_of(found, settings.similar))
        if not found.failed:
            sums["baseline_us"] += round(copied.seconds * 1e6)
            sums["candidate_us"] += round(told.seconds * 1e6)
        if example is not None:
            self._examples[copied.model.name, split.epoch].append(example)

    async def _embedded(
        self, copied: CopiedRequest, baseline: Answer, candidate: Answer | None, settings: ShadowSettings
    ) -> float | None:
        """Return the cosine of the texts' embeddings; None where there are none, or they are not needed."""
        if settings.embeddings is None or candidate is None:
            return None
        one, other = baseline.text, candidate.text
        if not one or not other or one == other:
            return None
        answer = await self._requests.embeddings(copied.caller, settings.embeddings, [one, other])
        try:
            first, second = msgspec.json.decode(answer, type=_Embeddings).data
            return cosine(first.embedding, second.embedding)
        except (msgspec.DecodeError, ValueError):
            # Its words are compared instead, as the difference says.
            return None

    async def _example(
        self,
        copied: CopiedRequest,
        told: CandidateAnswer,
        found: AnswerDifference,
        baseline: Answer,
        candidate: Answer | None,
    ) -> Example:
        record, texts = copied.record, None
        if copied.caller.tenant.data.text:
            try:
                texts = await self._redacted.answers(baseline, candidate)
            except FilterFailed as error:
                log.warning("the answers to %s are not kept: %s", record.id, error)
        return Example(
            request=record.id,
            request_hash=record.request_hash,
            baseline_hash=record.answer_hash,
            candidate_hash=told.answer_hash,
            difference=found,
            baseline=None if texts is None else texts[0],
            candidate=None if texts is None else texts[1],
        )


class _Embedding(msgspec.Struct):
    embedding: list[float]


class _Embeddings(msgspec.Struct):
    data: tuple[_Embedding, _Embedding]


def _read(copied: CopiedRequest, told: CandidateAnswer) -> tuple[Answer | None, Answer | None, Expected]:
    candidate: Answer | None = None
    try:
        baseline = copied.read_answer()
        expected = expected_of(_BODY.decode(copied.body))
    except (NotAnAnswer, msgspec.DecodeError):
        return None, None, Expected()
    if told.status == 200:
        try:
            candidate = read_answer(told.body)
            if copied.endpoint == "messages" and candidate.text.isspace():
                # A message has no text of white space alone.
                candidate = msgspec.structs.replace(candidate, text="")
        except NotAnAnswer:
            candidate = None
    return baseline, candidate, expected
