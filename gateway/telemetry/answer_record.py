"""Fill in a request's record after its answer."""

import logging
import time
from typing import Final

from gateway.inference.generation import Generation
from gateway.text.tokens.detokenizer import written_text
from observability.digests import Digests
from observability.outcome import Outcome
from observability.record import RequestRecord
from protos.types import FinishReason
from routing.dispatch.routed import note_route
from safety.action import Action

log = logging.getLogger(__name__)

_BLOCK: Final = Action.BLOCK.name.lower()


def digest_shown(generation: Generation, digests: Digests | None) -> None:
    """Have what is shown hashed as it goes out, except for streams of the tokens' text.

    Those are hashed at their end: their screens, if any, can tell what was shown. Called before the first event.
    """
    if digests is None:
        return
    filter_, answers = generation.request.filter, generation.answers
    screened = [] if answers is None else [answer.screened for answer in answers if answer.screened is not None]
    if screened or (filter_ is not None and filter_.guards):
        generation.digests = [digests.begin() for _ in generation.sequences]
        if filter_ is None or not filter_.guards:
            for digest, each in zip(generation.digests, screened, strict=True):
                each.shown = digest
        return
    for sequence in generation.sequences:
        if not (generation.request.stream and sequence.streams):
            sequence.shown = digests.begin()


def describe(generation: Generation, digests: Digests | None) -> None:
    """Fill in the record from an answer that has ended in any way and is closed. Raises nothing."""
    try:
        if generation.request.filter is not None:
            generation.record_findings()
        _describe(generation, digests)
    except Exception:
        log.exception("request %s cannot be described", generation.request.id)


def note_version(record: RequestRecord, version: str) -> None:
    """Note the version that answered. Where the request was another one's, that has failed, and nothing is compared."""
    if record.rollout_epoch and version not in ("", record.version):
        record.failed_version, record.failed_epoch, record.rollout_epoch = record.version, record.rollout_epoch, 0
    record.version = version


def _describe(generation: Generation, digests: Digests | None) -> None:
    request, stream, timing = generation.request, generation.stream, generation.timing
    record, model, usage = request.record, request.model, generation.usage
    record.model = model.name
    record.stream, record.sequences = request.stream, len(generation.sequences)
    record.prompt_tokens, record.completion_tokens, record.cached_tokens = usage.prompt, usage.completion, usage.cached
    if generation.answers is not None or stream.relay is not None:
        record.reasoning_tokens = generation.reasoning_tokens
    record.cost_nano_usd = model.price.nano(usage.prompt, usage.cached, usage.completion) + usage.extra
    # Set by an earlier model that refused the request.
    record.rejected_tokens = 0
    note_route(record, stream)
    note_version(record, model.fleet.version(record.replica))
    record.engine_queue_us, record.engine_prefill_us = timing.queue_us, timing.prefill_us
    record.engine_decode_us = timing.decode_us
    if not record.last_token:
        record.last_token = time.monotonic()
    reason = generation.sequences[0].finish_reason
    if stream.counts is not None:
        reason = stream.counts.reason
    if reason is not None:
        record.finish = reason.value
    if request.filter is not None and record.outcome is Outcome.OK and _is_cut(generation):
        record.outcome = Outcome.CUT
    if digests is not None and stream.relay is None:
        _digest(generation, record, digests)
    if model.drifts:
        # Imported here: each worker pays for what it imports.
        from gateway.telemetry.content_notes import note_content

        note_content(generation)


def _is_cut(generation: Generation) -> bool:
    """Whether a filter has cut an answer off."""
    for verdict in generation.request.record.verdicts:
        if verdict.where == "answer" and verdict.action == _BLOCK:
            return True
    if generation.stream.relay is None:
        # A redaction may also end a text that continues after another one.
        for sequence in generation.sequences:
            if sequence.finish_reason is FinishReason.CONTENT_FILTER:
                return True
    return False


def _digest(generation: Generation, record: RequestRecord, digests: Digests) -> None:
    hashes = []
    for index, sequence in enumerate(generation.sequences):
        shown = sequence.shown if generation.digests is None else generation.digests[index]
        if shown is not None:
            record.answer_characters += shown.characters
            hashes.append(shown.hexdigest())
        else:
            # Tokens that came but were not read have not been shown.
            tokens = generation.stream.tokens[index][: sequence.completion_tokens]
            text = written_text(generation.table, tokens)
            if sequence.screen is not None:
                text = sequence.screen.shown_of(text)
            record.answer_characters += len(text)
            hashes.append(digests.of(text.encode()))
    record.answer_hash = hashes[0] if len(hashes) == 1 else digests.of("".join(hashes).encode())
