"""Encode parsed answers as a stream: a generation's events become deltas, a renderer writes them."""

from collections.abc import Sequence
from typing import Protocol

from gateway.api.writers.api_adapter import Counts, Frame, Renderer
from gateway.inference.generation import Generation
from gateway.inference.parsed_answer import ParsedAnswer
from gateway.text.parsing.delta import Delta
from gateway.text.parsing.plain import PlainParser
from gateway.text.sequence_text import SequenceText
from protos.errors import PenstockError
from protos.types import FinishReason
from routing.contracts.transport import Event


class StreamEncoder(Protocol):
    """Encodes the stream of a generation: events in, bytes out."""

    def opening(self) -> bytes:
        """Encode the beginning of the stream."""
        ...

    def encode(self, events: list[Event]) -> bytes:
        """Encode events. Raises the error that a finish reports."""
        ...

    def render(self, index: int, deltas: Sequence[Delta]) -> bytes:
        """Encode deltas of a sequence whose events somebody else has taken in."""
        ...

    def finish(self, index: int, reason: FinishReason) -> bytes:
        """Encode the end of such a sequence."""
        ...

    def closing(self) -> bytes:
        """Encode the end of a successful stream."""
        ...

    def broken(self, error: PenstockError) -> bytes:
        """Encode the end of a failed stream."""
        ...


def parsed_answers(generation: Generation) -> list[ParsedAnswer]:
    """Return the parsers of the generation's sequences; plain text has one, too."""
    return generation.answers or [ParsedAnswer(PlainParser()) for _ in generation.sequences]


def counts_of(generation: Generation) -> Counts:
    """Count the generation's tokens so far."""
    usage = generation.usage
    stopped_by = generation.sequences[0].stopped_by
    relay = generation.stream.relay
    told = None if relay is None else relay.counts
    written = 0 if told is None else told.written + told.written_long
    return Counts(usage.prompt, usage.completion, usage.cached, generation.reasoning_tokens, stopped_by, written)


class ParsedEncoder:
    """The `StreamEncoder` of parsed answers, and of APIs that take deltas."""

    def __init__(self, generation: Generation, renderer: Renderer) -> None:
        self._generation = generation
        self._renderer = renderer
        self._sequences = generation.sequences
        self._answers = parsed_answers(generation)
        self._texts = generation.table.texts
        self._calm = generation.table.calm
        #: The frame of a calm token of each sequence while its flow lasts, and whether it is reasoning.
        self._calm_frames: list[tuple[Frame, bool] | None] = [None] * len(self._sequences)

    def opening(self) -> bytes:
        return self._renderer.opening()

    def encode(self, events: list[Event]) -> bytes:
        if len(events) == 1:
            return self._event(events[0])
        return b"".join([self._event(event) for event in events])

    def _event(self, event: Event) -> bytes:
        index, token_ids, logprobs, _ = event
        calm_frame = self._calm_frames[index]
        # The common event is one token within a text, reasoning or argument: nothing of it needs parsing.
        if calm_frame is not None and len(token_ids) == 1 and logprobs is None:
            text = self._calm[token_ids[0]]
            if text is not None:
                frame, thought = calm_frame
                self._sequences[index].completion_tokens += 1
                if thought:
                    self._answers[index].reasoning_tokens += 1
                return text.join(frame)
        body = self._parsed(event)
        self._calm_frames[index] = self._calm_frame(index)
        return body

    def _calm_frame(self, index: int) -> tuple[Frame, bool] | None:
        answer = self._answers[index]
        flow = flow_of(self._sequences[index], answer)
        frame = None if flow is None else self._renderer.frame(index, flow)
        return None if frame is None else (frame, answer.parser.thinking)

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
        """Render one token of a running sequence."""
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
        return self._renderer.render(index, deltas, None)

    def finish(self, index: int, reason: FinishReason) -> bytes:
        return self._renderer.render(index, (), reason)

    def closing(self) -> bytes:
        return self._renderer.closing(counts_of(self._generation))

    def broken(self, error: PenstockError) -> bytes:
        return self._renderer.broken(error)


def flow_of(sequence: SequenceText, answer: ParsedAnswer) -> Delta | None:
    """Give the kind of delta that calm tokens yield from here on (`OutputParser.flow`); None: they must be parsed."""
    if not sequence.plain or sequence.finish_reason is not None or sequence.detokenizer.pending:
        return None
    if answer.screened is not None:
        return None
    return answer.parser.flow()


def take(generation: Generation, answer: ParsedAnswer, event: Event) -> tuple[list[Delta], FinishReason | None]:
    """Parse an event of the answer's sequence; return its deltas, and the finish reason if this event ended it."""
    index, token_ids, logprobs, finish = event
    if finish is not None and token_ids:
        deltas, reason = take(generation, answer, (index, token_ids, logprobs, None))
        rest, at_end = take(generation, answer, (index, (), None, finish))
        return deltas + rest, reason or at_end
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
    """Parse the end of an answer, which filters may still cut off."""
    deltas = answer.finish()
    if answer.blocked:
        sequence.finish_reason = FinishReason.CONTENT_FILTER
    return deltas


def _take_singly(generation: Generation, answer: ParsedAnswer, event: Event) -> tuple[list[Delta], FinishReason | None]:
    """Take tokens one by one to see where reasoning or a call begins and ends; take calm runs at once."""
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
