"""Stream an answer that guards check: nothing is sent before their verdict."""

from collections.abc import Sequence

from gateway.api.writers.parsed_encoder import StreamEncoder, parsed_answers, take
from gateway.filtering.filters.answer_filter import AnswerFilter, GuardedAnswer
from gateway.inference.generation import Generation
from gateway.inference.screened_deltas import Channel, channel_of, delta_of
from gateway.text.parsing.delta import CallStart, Delta, Text
from protos.types import FinishReason
from routing.contracts.transport import Event


class GuardedDeltas:
    """The deltas of one answer that guards let pass: text, reasoning and each call's arguments are checked separately.

    Gathered text of one channel is settled before the answer goes on in another. `blocked`: nothing more is shown.
    """

    def __init__(self, filter_: AnswerFilter, index: int, *, patient: bool) -> None:
        """`index` is the answer's; `patient`: each text is checked as a whole."""
        self._filter = filter_
        self._index = index
        self._patient = patient
        self._at: Channel | None = None
        self._texts: dict[Channel, GuardedAnswer] = {}
        self.blocked = False

    async def feed(self, deltas: Sequence[Delta], *, last: bool) -> list[Delta]:
        """Take the next deltas; return what may be shown now, with `last` all that may be. Raises FilterFailed."""
        given: list[Delta] = []
        for delta in deltas:
            channel = channel_of(delta)
            if channel != self._at:
                given += await self._settled(last=True)
                self._at = channel
            if self.blocked:
                return given
            if isinstance(delta, CallStart):
                given.append(delta)
                continue
            text = self._texts.get(channel)
            if text is None:
                text = self._texts[channel] = self._filter.answer(self._index)
            if text.add(delta.text) and not self._patient:
                given += await self._settled(last=False)
        return given + await self._settled(last=True) if last else given

    async def _settled(self, *, last: bool) -> list[Delta]:
        text = None if self._at is None else self._texts.get(self._at)
        if text is None or self._at is None or self.blocked:
            return []
        shown = await text.settle(last=last)
        self.blocked = text.blocked is not None
        return [delta_of(self._at, shown)] if shown else []


class GuardedStream:
    """The guarded sequences of a generation, shown in pieces of the guards' windows, without logprobs."""

    def __init__(self, generation: Generation, encoder: StreamEncoder, filter_: AnswerFilter) -> None:
        self._generation = generation
        self._encoder = encoder
        self._answers = parsed_answers(generation)
        self._guarded = [GuardedDeltas(filter_, index, patient=False) for index in range(len(self._answers))]

    async def take(self, events: list[Event]) -> bytes:
        """Take events; return the bytes that may be sent. Raises FilterFailed."""
        return b"".join([await self._event(event) for event in events])

    async def _event(self, event: Event) -> bytes:
        generation, index = self._generation, event[0]
        sequence, guarded = generation.sequences[index], self._guarded[index]
        if sequence.is_over():
            return b""
        deltas, over = take(generation, self._answers[index], event)
        shown = await guarded.feed(deltas, last=over is not None)
        generation.note_shown(index, shown)
        body = self._encoder.render(index, shown) if shown else b""
        if guarded.blocked:
            if over is None:
                generation.cut_off(index)
            over = sequence.finish_reason = FinishReason.CONTENT_FILTER
        return body if over is None else body + self._encoder.finish(index, over)


async def guarded_whole(
    generation: Generation, filter_: AnswerFilter, index: int, deltas: Sequence[Delta]
) -> tuple[list[Delta], FinishReason | None]:
    """Pass a whole answer through guards; return what may be shown and the finish reason. Raises FilterFailed."""
    guarded = GuardedDeltas(filter_, index, patient=True)
    shown = await guarded.feed(deltas, last=True)
    generation.note_shown(index, shown)
    sequence = generation.sequences[index]
    if guarded.blocked:
        sequence.finish_reason = FinishReason.CONTENT_FILTER
    return shown, sequence.finish_reason


def text_of(deltas: Sequence[Delta]) -> str:
    """Join the deltas' text for the user."""
    return "".join([delta.text for delta in deltas if isinstance(delta, Text)])
