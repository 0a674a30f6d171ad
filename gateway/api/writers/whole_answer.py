"""Collect a generation's whole text answer, for clients that do not stream."""

from typing import Any

import orjson

from gateway.api.openai.completion_api import CompletionApi
from gateway.api.openai.completions import with_prompt_logprobs
from gateway.api.writers.answer_details import details_of_choice, wanted_entries
from gateway.api.writers.best_of import best_choices
from gateway.api.writers.chunk_encoder import usage_fields
from gateway.api.writers.guarded_stream import guarded_whole, text_of
from gateway.inference.detailed_generation import DetailedGeneration
from gateway.inference.generate_request import AnswerDetails
from gateway.inference.generation import Generation
from gateway.text.parsing.delta import Text
from gateway.text.sequence_text import TokenEntry


async def collect(api: CompletionApi, generation: Generation, answer_id: str, created: int) -> bytes:
    """Encode the API's answer body, once every sequence is over and filters and guards have let it pass.

    The generation is closed as soon as it is over. Answers that guards check have no logprobs. Raises the error that
    ended the stream, and FilterFailed.
    """
    sequences, request = generation.sequences, generation.request
    texts: list[list[str]] = [[]]
    entries: list[list[TokenEntry]] = [[]]
    if len(sequences) > 1:
        texts, entries = [[] for _ in sequences], [[] for _ in sequences]

    def begin_again(index: int) -> None:
        texts[index], entries[index] = [], []

    generation.on_begin_again = begin_again
    events = generation.first
    while True:
        for event in events:
            text, shown = generation.advance(event)
            texts[event[0]].append(text)
            if shown:
                entries[event[0]] += shown
        if not generation.open_sequences:
            break
        events = await generation.stream.receive()
    generation.close()
    filter_, model = request.filter, request.model
    guards = filter_ is not None and filter_.guards
    if request.sampling.logprobs is None and request.details is None and not guards:
        choices = []
        for index, sequence in enumerate(sequences):
            choice = {"index": index, **api.message("".join(texts[index]))}
            choice["logprobs"], choice["finish_reason"] = None, sequence.finish_reason
            choices.append(choice)
    else:
        choices = await _detailed_choices(api, generation, texts, entries)
    answer: dict[str, Any] = {
        "id": answer_id,
        "object": api.object,
        "created": created,
        "model": model.name if model.adapter is None else model.shown,
        "choices": choices,
        "usage": usage_fields(generation.usage),
    }
    if generation.fingerprint:
        answer["system_fingerprint"] = generation.fingerprint
    # Finish reasons are written by their values.
    return orjson.dumps(answer)


async def _detailed_choices(
    api: CompletionApi, generation: Generation, texts: list[list[str]], entries: list[list[TokenEntry]]
) -> list[dict[str, Any]]:
    """Make choices with logprobs, with details, the best answers only, or what guards let pass."""
    request, filter_, model = generation.request, generation.request.filter, generation.request.model
    guards = filter_ if filter_ is not None and filter_.guards else None
    details = request.details or AnswerDetails(logprobs=request.sampling.logprobs)
    wants_logprobs, echo = details.logprobs is not None and guards is None, details.echo
    choices = []
    for index, sequence in enumerate(generation.sequences):
        text, reason = "".join(texts[index]), sequence.finish_reason
        if guards is not None:
            passed, reason = await guarded_whole(generation, guards, index, [Text(text)])
            text = text_of(passed)
        choice: dict[str, Any] = {"index": index, **api.message(echo[index] + text if echo else text)}
        before = len(echo[index]) if echo else 0
        choice["logprobs"] = None
        if wants_logprobs:
            choice["logprobs"] = logprobs = api.logprobs(wanted_entries(entries[index], details), model, before)
            if echo and isinstance(generation, DetailedGeneration):
                of_prompt = wanted_entries(generation.prompt_entries(index), details)
                choice["logprobs"] = with_prompt_logprobs(api.logprobs(of_prompt, model, 0), logprobs)
        choice["finish_reason"] = reason
        if isinstance(generation, DetailedGeneration):
            choice |= details_of_choice(generation, index)
        choices.append(choice)
    if not details.best:
        return choices
    return best_choices(choices, entries, request.sampling.n // max(1, len(request.prompts)), details.best)
