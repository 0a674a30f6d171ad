"""Collect a generation's whole text answer, for clients that do not stream."""

from typing import Any

import orjson

from gateway.api.openai.completion_api import CompletionApi
from gateway.api.writers.best_of import best_choices
from gateway.api.writers.chunk_encoder import usage_fields
from gateway.api.writers.guarded_stream import guarded_whole, text_of
from gateway.inference.generation import Generation
from gateway.text.parsing.delta import Text
from gateway.text.sequence_text import TokenEntry


async def collect(api: CompletionApi, generation: Generation, answer_id: str, created: int) -> bytes:
    """Encode the API's answer body, once every sequence is over and filters and guards have let it pass.

    The generation is closed as soon as it is over. Answers that guards check have no logprobs. Raises the error that
    ended the stream, and FilterFailed.
    """
    sequences, request = generation.sequences, generation.request
    texts: list[list[str]] = [[] for _ in sequences]
    entries: list[list[TokenEntry]] = [[] for _ in sequences]
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
    model, sampling, best, echo = request.model, request.sampling, request.best, request.echo
    guards = request.filter
    if guards is not None and not guards.guards:
        guards = None
    wants_logprobs = sampling.logprobs is not None and guards is None and (best is None or best.logprobs)
    choices = []
    for index, sequence in enumerate(sequences):
        text, reason = "".join(texts[index]), sequence.finish_reason
        if guards is not None:
            passed, reason = await guarded_whole(generation, guards, index, [Text(text)])
            text = text_of(passed)
        choice = {"index": index, **api.message(echo[index] + text if echo else text)}
        choice["logprobs"] = None
        if wants_logprobs:
            choice["logprobs"] = api.logprobs(entries[index], model, len(echo[index]) if echo else 0)
        choice["finish_reason"] = reason
        choices.append(choice)
    if best is not None:
        choices = best_choices(choices, entries, sampling.n // max(1, len(request.prompts)), best.keep)
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
