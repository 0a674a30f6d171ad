"""Collect whole parsed answers, for clients that do not stream."""

from gateway.api.writers.api_adapter import Choice, joined
from gateway.api.writers.guarded_stream import guarded_whole
from gateway.api.writers.parsed_encoder import parsed_answers, take
from gateway.inference.generation import Generation
from gateway.inference.parsed_answer import ParsedAnswer
from gateway.text.parsing.delta import Delta, Reasoning, Text
from gateway.text.parsing.plain import PlainParser
from protos.types import FinishReason


async def collect_choices(generation: Generation) -> list[Choice]:
    """Collect every choice, once all are over and filters and guards have let them pass.

    Answers that guards check have no logprobs. Raises the error that ended the stream, and FilterFailed.
    """
    filter_ = generation.request.filter
    answers = parsed_answers(generation)
    parsed = generation.answers
    deltas: list[list[Delta]] = [[] for _ in answers]

    def begin_again(index: int) -> None:
        deltas[index].clear()
        # Parsers of the generation's own have begun again with it.
        answers[index] = ParsedAnswer(PlainParser()) if parsed is None else parsed[index]

    generation.on_begin_again = begin_again
    events = generation.first
    while True:
        for event in events:
            more, _ = take(generation, answers[event[0]], event)
            deltas[event[0]] += more
        if not generation.open_sequences:
            break
        events = await generation.stream.receive()
    choices = []
    for index, (found, sequence) in enumerate(zip(deltas, generation.sequences, strict=True)):
        shown, reason = retold(found), sequence.finish_reason
        if filter_ is not None and filter_.guards:
            shown, reason = await guarded_whole(generation, filter_, index, shown)
        choices.append(joined(shown, reason or FinishReason.STOP))
    return choices


def retold(deltas: list[Delta]) -> list[Delta]:
    """Make reasoning of the text before an empty `Reasoning`."""
    end = next((at for at, delta in enumerate(deltas) if isinstance(delta, Reasoning) and not delta.text), -1)
    thoughts = [Reasoning(delta.text) if isinstance(delta, Text) else delta for delta in deltas[: max(end, 0)]]
    return [*thoughts, *deltas[end + 1 :]]
