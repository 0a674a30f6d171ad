"""Encode an answer's text as server-sent events. What does not change within a stream is encoded once."""

from collections.abc import Sequence

from orjson import dumps

from gateway.api.openai.completion_api import CompletionApi
from gateway.api.server.openai_errors import error_event
from gateway.api.writers.api_adapter import Counts
from gateway.inference.generation import Generation
from gateway.tenancy.limits.limiter import Usage
from gateway.text.parsing.delta import Delta, Text
from gateway.text.sequence_text import TokenEntry
from protos.errors import PenstockError
from protos.types import FinishReason
from routing.contracts.transport import Event

DONE = b"data: [DONE]\n\n"


def usage_fields(usage: Usage | Counts) -> dict[str, object]:
    """Make the API's `usage` object; with `Counts` it includes reasoning tokens."""
    fields: dict[str, object] = {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }
    if isinstance(usage, Counts):
        fields["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    return fields


class ChunkEncoder:
    """Encodes a generation's events as the chunks of its stream."""

    def __init__(
        self, api: CompletionApi, generation: Generation, answer_id: str, created: int, *, usage: bool
    ) -> None:
        self._api = api
        self._generation = generation
        self._with_usage = usage
        model = generation.request.model
        self._escaped = model.table.escaped
        self._texts = model.table.texts
        self._sequences = generation.sequences
        head = {"id": answer_id, "object": api.chunk_object, "created": created, "model": model.shown}
        if generation.fingerprint:
            head["system_fingerprint"] = generation.fingerprint
        self._head = b"data: " + dumps(head)[:-1]
        self._end = (b',"usage":null' if usage else b"") + b"}\n\n"
        self._choice_head = self._head + b',"choices":['
        indices = range(len(generation.sequences))
        self._text_heads = [self._choice_head + b'{"index":%d,' % i + api.text_head for i in indices]
        self._text_tail = api.text_tail + b',"logprobs":null,"finish_reason":null}]' + self._end
        #: The same around a JSON string with its quotes.
        self._json_heads = [head[:-1] for head in self._text_heads]
        self._json_tail = self._text_tail[1:]

    def opening(self) -> bytes:
        """Encode the first chunk of every choice: the role, or the prompt where it is echoed."""
        if self._api.opening is None:
            details = self._generation.request.details
            return b"" if details is None else b"".join([self.text(i, text) for i, text in enumerate(details.echo)])
        choices = (
            {"index": i, "delta": self._api.opening, "logprobs": None, "finish_reason": None}
            for i in range(len(self._text_heads))
        )
        return b"".join(self._choice_head + dumps(choice) + b"]" + self._end for choice in choices)

    def encode(self, events: list[Event]) -> bytes:
        """Encode the chunks of the events. Raises the error that a finish reports."""
        if len(events) > 1:
            return b"".join([self.encode([event]) for event in events])
        event = events[0]
        index, token_ids, logprobs, _ = event
        # The common event is one token of whole characters: its text is in the table, escaped, too.
        if len(token_ids) == 1 and logprobs is None:
            sequence = self._sequences[index]
            if not sequence.detokenizer.pending:
                if sequence.plain:
                    escaped = self._escaped[token_ids[0]]
                    if escaped is not None:
                        sequence.completion_tokens += 1
                        return self._text_heads[index] + escaped + self._text_tail if escaped else b""
                elif sequence.streams and sequence.finish_reason is None:
                    screen, text = sequence.screen, self._texts[token_ids[0]]
                    if screen is not None and text is not None:
                        sequence.completion_tokens += 1
                        text = screen.feed(text)
                        if screen.blocked is not None:
                            return self._cut_off(index, text)
                        return self._json_heads[index] + dumps(text) + self._json_tail if text else b""
        return self._encode_event(event)

    def _cut_off(self, index: int, text: str) -> bytes:
        """Encode the end of a sequence that a filter has cut off after this text."""
        self._sequences[index].finish_reason = FinishReason.CONTENT_FILTER
        self._generation.cut_off(index)
        return (self.text(index, text) if text else b"") + self.finish(index, FinishReason.CONTENT_FILTER)

    def _encode_event(self, event: Event) -> bytes:
        index, sequence = event[0], self._sequences[event[0]]
        was_over = sequence.is_over()
        text, entries = self._generation.advance(event)
        body = self._text_chunk(index, text, entries) if text or entries else b""
        if not was_over and sequence.finish_reason is not None:
            body += self.finish(index, sequence.finish_reason)
        return body

    def closing(self) -> bytes:
        """Encode the usage chunk, if it was asked for, and the end mark."""
        if not self._with_usage:
            return DONE
        usage = dumps(usage_fields(self._generation.usage))
        return self._head + b',"choices":[],"usage":' + usage + b"}\n\n" + DONE

    def broken(self, error: PenstockError) -> bytes:
        """Encode an error event; no end mark follows."""
        return error_event(error)

    def _text_chunk(self, index: int, text: str, entries: list[TokenEntry]) -> bytes:
        if not entries:
            return self.text(index, text)
        request = self._generation.request
        details = request.details
        before = len(details.echo[index]) if details is not None and details.echo else 0
        logprobs = dumps(self._api.logprobs(entries, request.model, before))
        return b"".join(
            (
                self._text_heads[index],
                dumps(text)[1:-1],
                self._api.text_tail,
                b',"logprobs":',
                logprobs,
                b',"finish_reason":null}]',
                self._end,
            )
        )

    def text(self, index: int, text: str) -> bytes:
        """Encode a chunk of text."""
        return self._json_heads[index] + dumps(text) + self._json_tail

    def render(self, index: int, deltas: Sequence[Delta]) -> bytes:
        """Encode a chunk of the deltas' text; unparsed answers have no other deltas."""
        return self.text(index, "".join([delta.text for delta in deltas if isinstance(delta, Text)]))

    def finish(self, index: int, reason: FinishReason) -> bytes:
        """Encode the last chunk of a choice."""
        return b'%b{"index":%d,%b,"logprobs":null,"finish_reason":"%b"}]%b' % (
            self._choice_head,
            index,
            self._api.no_text,
            reason.value.encode(),
            self._end,
        )
