"""One running sequence: extracts new tokens and the finish from the library's cumulative output."""

import logging
from datetime import timedelta
from typing import Any

from protos.types import Failure, Finish, FinishReason, Handoff, Submit, Timing, TokenLogprobs
from replicas.engine import Delta
from replicas.engines.tensorrt_llm.accounts import Holding
from replicas.engines.tensorrt_llm.prompt_logprobs import prompt_logprobs, wants_logits

log = logging.getLogger(__name__)

#: Stands for a missing or minus infinite log probability, as in OpenAI's API.
NO_LOGPROB = -9999.0


class Sequence:
    """One sequence. The library updates one `result` object in place; it is read when the library signals an update.

    Tokens that end the answer are no part of it. The library removes them with the last update, maybe after an earlier
    one had them: the last token is held back while it is one of those.
    """

    __slots__ = (
        "_held_back",
        "_interval",
        "_sent",
        "aborting",
        "handle",
        "holding",
        "index",
        "open",
        "prompt_logprobs",
        "result",
        "submit",
    )

    def __init__(self, handle: int, index: int, submit: Submit, most: int, held_back: frozenset[int]) -> None:
        """`held_back`: tokens that may be the end. `most`: bound on its tokens."""
        self.handle, self.index, self.submit = handle, index, submit
        self.holding = Holding(len(submit.prompt_ids), most, transferred=submit.handoff is not None)
        self.result: Any = None
        #: Of the prompt, where this sequence has to tell them; None: not known yet.
        self.prompt_logprobs: tuple[TokenLogprobs, ...] | None = None if index == 0 and wants_logits(submit) else ()
        self.open = True
        #: It was cancelled and must be aborted as soon as that is safe.
        self.aborting = False
        self._held_back = held_back
        self._interval = submit.delta_interval
        # A decode replica's output begins with the prefill replica's token.
        self._sent = 0 if submit.handoff is None else 1

    @property
    def arrived(self) -> bool:
        """Whether the KV cache has arrived: before, an abort would strand its transfer."""
        return self.submit.handoff is None or self.holding.started

    def produced(self) -> int:
        """Number of tokens so far, the first of a handoff included."""
        return len(self.result.outputs[0].token_ids)

    def delta(self) -> Delta | None:
        """Return the new tokens if there are enough for a delta; all of them once the sequence has ended."""
        output, finished = self.result.outputs[0], self.result.finished
        tokens = output.token_ids
        end = len(tokens)
        if end and tokens[end - 1] in self._held_back and (not finished or output.finish_reason == "stop"):
            end -= 1
        logprobs, shift = output.logprobs or [], 0
        wants = self.submit.sampling.logprobs is not None
        if wants:
            # The decode replica may lack logprobs of the prefill replica's token.
            shift = int(self.submit.handoff is not None and len(logprobs) == len(tokens) - 1)
            if not finished:
                end = min(end, len(logprobs) + shift)
        start = self._sent
        count = end - start
        if count <= 0 or (not finished and (self._interval == 0 or count < self._interval)):
            return None
        self._sent = end
        entries = None
        if wants:
            most = self.submit.sampling.logprobs or 0
            entries = [_logprobs(logprobs, i - shift, tokens[i], most) for i in range(start, end)]
        first = start == int(self.submit.handoff is not None)
        return Delta(self.handle, self.index, list(tokens[start:end]), entries, self.cached if first else None)

    @property
    def cached(self) -> int:
        """Prompt tokens that were found in the KV cache."""
        return int(getattr(self.result, "cached_tokens", 0) or 0)

    @property
    def gathers(self) -> bool:
        """Whether it has first tokens but has emitted nothing yet."""
        return self._sent == int(self.submit.handoff is not None)

    def finish(self) -> Finish:
        """Return its natural end, without the handoff, which covers all sequences of a request."""
        output = self.result.outputs[0]
        reason, failure = _reason(output, self.holding.most, prefill=self.submit.prefill_only)
        return Finish(
            reason,
            prompt_tokens=self.holding.prompt,
            cached_tokens=self.cached,
            completion_tokens=self._sent,
            timing=timing_of(output),
            failure=failure,
            prompt_logprobs=self.prompt_logprobs or (),
        )

    def score(self) -> None:
        """Work out the logprobs of the prompt; for a thread of its own. Without them the answer goes on."""
        self.prompt_logprobs = ()
        most = self.submit.sampling.logprobs or 0
        try:
            self.prompt_logprobs = prompt_logprobs(self.result.context_logits, self.submit.prompt_ids, most)
        except Exception:
            log.exception("the logits of request %s cannot be read", self.submit.request_id)

    def cancelled(self) -> Finish:
        """Return the finish of a cancelled sequence."""
        produced = self.holding.produced
        return Finish(
            FinishReason.CANCELLED,
            prompt_tokens=self.holding.prompt,
            cached_tokens=self.cached if produced else 0,
            completion_tokens=produced,
        )

    def failed(self, failure: Failure) -> Finish:
        """Return the finish of a failed sequence."""
        return Finish(FinishReason.ERROR, prompt_tokens=self.holding.prompt, failure=failure)

    def hands_over(self, finish: Finish) -> bool:
        """Whether a prefill with this finish continues on a decode replica."""
        return self.submit.prefill_only and finish.reason is FinishReason.LENGTH


def with_handoff(finish: Finish, handoff: Handoff) -> Finish:
    """Return the finish with the handoff for a decode replica."""
    return Finish(
        finish.reason,
        finish.prompt_tokens,
        finish.cached_tokens,
        finish.completion_tokens,
        finish.timing,
        None,
        handoff,
        finish.prompt_logprobs,
    )


def _reason(output: Any, most: int, *, prefill: bool) -> tuple[FinishReason, Failure | None]:
    reason = output.finish_reason
    if reason == "stop":
        return FinishReason.STOP, None
    if reason == "length" or (prefill and reason == "not_finished"):
        return FinishReason.LENGTH, None
    if reason is None:
        return (FinishReason.LENGTH if len(output.token_ids) >= most else FinishReason.STOP), None
    return FinishReason.ERROR, Failure("engine_error", f"the engine ended the request by itself: {reason}")


def timing_of(output: Any) -> Timing:
    """Return the times by the library's own clock; 0 for unknown ones. The library has 0 for times yet to come."""
    metrics = getattr(getattr(output, "request_perf_metrics", None), "timing_metrics", None)
    if metrics is None:
        return Timing()
    names = ("arrival_time", "first_scheduled_time", "first_token_time", "last_token_time")
    arrival, scheduled, first, last = (getattr(metrics, name, timedelta()) for name in names)
    return Timing(_micros(arrival, scheduled), _micros(scheduled, first), _micros(first, last))


def _micros(start: timedelta, end: timedelta) -> int:
    if not start or not end:
        return 0
    return max(0, round((end - start) / timedelta(microseconds=1)))


def _logprobs(entries: Any, at: int, token: int, most: int) -> TokenLogprobs:
    """Return the logprobs at a position. An entry is a number, or maps ids (alternatives and the token) to values."""
    if not 0 <= at < len(entries):
        return TokenLogprobs(NO_LOGPROB)
    entry = entries[at]
    if not isinstance(entry, dict):
        return TokenLogprobs(max(NO_LOGPROB, float(entry)))
    values = {each: max(NO_LOGPROB, float(value.logprob)) for each, value in entry.items()}
    best = sorted(values.items(), key=lambda item: -item[1])[:most]
    return TokenLogprobs(values.get(token, NO_LOGPROB), tuple(best))
