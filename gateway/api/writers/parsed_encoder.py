"""The stream of answers that are taken apart: from a generation's events to a renderer's."""

from collections.abc import Sequence
from typing import Protocol

from gateway.api.writers.api_adapter import Counts, Renderer
from gateway.inference.generation import Generation
from gateway.inference.parsed_answer import ParsedAnswer
from gateway.text.parsing.delta import Delta
from gateway.text.parsing.plain import PlainParser
from gateway.text.sequence_text import SequenceText
from protos.errors import PenstockError
from protos.types import FinishReason
from routing.contracts.transport import Event


class StreamEncoder(Protocol):
    """Writes the stream of a generation: its events in, bytes out."""

    def opening(self) -> bytes:
        """How the stream begins."""
        ...

    def encode(self, events: list[Event]) -> bytes:
        """What arrived. Raises the error that a finish reports."""
        ...

    def render(self, index: int, deltas: Sequence[Delta]) -> bytes:
        """Pieces of a sequence that others have taken in, and let pass."""
        ...

    def finish(self, index: int, reason: FinishReason) -> bytes:
        """The end of such a sequence."""
        ...

    def closing(self) -> bytes:
        """How the stream ends well."""
        ...

    def broken(self, error: PenstockError) -> bytes:
        """How it ends in an error."""
        ...


def parsed_answers(generation: Generation) -> list[ParsedAnswer]:
    """What takes the generation's sequences apart, plain text too."""
    return generation.answers or [ParsedAnswer(PlainParser()) for _ in generation.sequences]


def counts_of(generation: Generation) -> Counts:
    """The counts so far."""
    usage = generation.usage
    stopped_by = generation.sequences[0].stopped_by
    return Counts(usage.prompt, usage.completion, usage.cached, generation.reasoning_tokens, stopped_by)


class ParsedEncoder:
    """The `StreamEncoder` of answers that are taken apart, or of an API that wants them so."""

    def __init__(self, generation: Generation, renderer: Renderer) -> None:
        """Before the first event."""
        self._generation = generation
        self._renderer = renderer
        self._sequences = generation.sequences
        self._answers = parsed_answers(generation)
        self._texts = generation.table.texts
        self._calm = generation.table.calm
        #: How a calm token of a sequence is written, as long as it goes on as it does, and whether it is a thought.
        self._lanes: list[tuple[bytes, bytes, bool] | None] = [None] * len(self._sequences)

    def opening(self) -> bytes:
        """As StreamEncoder has it."""
        return self._renderer.opening()

    def encode(self, events: list[Event]) -> bytes:
        """As StreamEncoder has it."""
        if len(events) == 1:
            return self._event(events[0])
        return b"".join([self._event(event) for event in events])

    def _event(self, event: Event) -> bytes:
        index, token_ids, logprobs, _ = event
        lane = self._lanes[index]
        # The common event is one token within a text, thought or argument. Nothing of it needs to be looked at.
        if lane is not None and len(token_ids) == 1 and logprobs is None:
            text = self._calm[token_ids[0]]
            if text is not None:
                before, after, thought = lane
                self._sequences[index].completion_tokens += 1
                if thought:
                    self._answers[index].reasoning_tokens += 1
                return b"".join((before, text, after))
        body = self._parsed(event)
        self._lanes[index] = self._lane(index)
        return body

    def _lane(self, index: int) -> tuple[bytes, bytes, bool] | None:
        answer = self._answers[index]
        flow = flow_of(self._sequences[index], answer)
        frame = None if flow is None else self._renderer.frame(index, flow)
        return None if frame is None else (*frame, answer.parser.thinking)

    def _parsed(self, event: Event) -> bytes:
        index, token_ids, logprobs, _ = event
        sequence = self._sequences[index]
        if (
            len(token_ids) == 1
            and logprobs is None
            and sequence.streams
            and not sequence.detokenizer.pending
            and sequence.finish_reason is None
        ):
            text = self._texts[token_ids[0]]
            if text is not None:
                return self._token(index, sequence, text)
        deltas, over = take(self._generation, self._answers[index], event)
        if deltas or over is not None:
            return self._renderer.render(index, deltas, over)
        return b""

    def _token(self, index: int, sequence: SequenceText, text: str) -> bytes:
        """One token of a sequence that goes on."""
        answer = self._answers[index]
        sequence.completion_tokens += 1
        if answer.parser.thinking:
            answer.reasoning_tokens += 1
        if not sequence.plain:
            text = sequence.show(text)
        deltas = answer.feed(text)
        if sequence.finish_reason is not None or answer.blocked:
            self._generation.cut_off(index)
            deltas = deltas + _ended(sequence, answer)
        elif not deltas:
            return b""
        return self._renderer.render(index, deltas, sequence.finish_reason)

    def render(self, index: int, deltas: Sequence[Delta]) -> bytes:
        """As StreamEncoder has it."""
        return self._renderer.render(index, deltas, None)

    def finish(self, index: int, reason: FinishReason) -> bytes:
        """As StreamEncoder has it."""
        return self._renderer.render(index, (), reason)

    def closing(self) -> bytes:
        """As StreamEncoder has it."""
        return self._renderer.closing(counts_of(self._generation))

    def broken(self, error: PenstockError) -> bytes:
        """As StreamEncoder has it."""
        return self._renderer.broken(error)


def flow_of(sequence: SequenceText, answer: ParsedAnswer) -> Delta | None:
    """What comes of calm tokens from here on, as `OutputParser.flow` has it of the sequence's text."""
    if not sequence.plain or sequence.finish_reason is not None or sequence.detokenizer.pending:
        return None
    if answer.screened is not None:
        return None
    return answer.parser.flow()


def take(generation: Generation, answer: ParsedAnswer, event: Event) -> tuple[list[Delta], FinishReason | None]:
    """What comes of an event of that answer's sequence, and its end if that is the event that brought it."""
    index, token_ids, logprobs, _ = event
    sequence = generation.sequences[index]
    if len(token_ids) > 1 and (answer.thinking or not answer.begun or logprobs is not None):
        return _take_singly(generation, answer, event)
    was_over = sequence.is_over()
    if not was_over and answer.thinking:
        answer.reasoning_tokens += len(token_ids)
    text, entries = generation.advance(event)
    deltas = answer.take(text, entries) if text or entries else []
    if not was_over and sequence.finish_reason is None and answer.blocked:
        generation.cut_off(index)
    elif was_over or sequence.finish_reason is None:
        return deltas, None
    return deltas + _ended(sequence, answer), sequence.finish_reason


def _ended(sequence: SequenceText, answer: ParsedAnswer) -> list[Delta]:
    """What comes last of an answer that is over, which filters may cut off still."""
    deltas = answer.finish()
    if answer.blocked:
        sequence.finish_reason = FinishReason.CONTENT_FILTER
    return deltas


def _take_singly(generation: Generation, answer: ParsedAnswer, event: Event) -> tuple[list[Delta], FinishReason | None]:
    """`take` that sees at which of the tokens a thought or a call begins and ends. Where none can, many go at once."""
    index, token_ids, logprobs, _ = event
    sequence = generation.sequences[index]
    texts, calm = generation.table.texts, generation.table.calm
    deltas: list[Delta] = []
    at, end = 0, len(token_ids)
    while at < end:
        after = at
        flow = None if logprobs is not None else flow_of(sequence, answer)
        if flow is not None:
            while after < end and calm[token_ids[after]] is not None:
                after += 1
        if flow is None or after == at:
            entry = None if logprobs is None else logprobs[at : at + 1]
            more, over = take(generation, answer, (index, token_ids[at : at + 1], entry, None))
            deltas += more
            if over is not None:
                return deltas, over
            at += 1
            continue
        text = "".join([texts[token_id] or "" for token_id in token_ids[at:after]])
        sequence.pass_by(text, after - at)
        deltas.append(answer.pass_by(flow, text, after - at))
        at = after
    return deltas, None
