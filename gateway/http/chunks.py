"""Server-sent events of a streamed answer. What does not change within a stream is encoded once."""

from collections.abc import Sequence

import orjson

from gateway.generate import Generation, Usage
from gateway.http.dialect import Dialect
from gateway.sequence import TokenEntry
from protos.types import Finish, FinishReason, TokenLogprobs
from routing.transport import Event

DONE = b"data: [DONE]\n\n"


def usage_fields(usage: Usage) -> dict[str, object]:
    """The API's `usage` object."""
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }


class ChunkEncoder:
    """Turns a generation's events into the bytes of its stream."""

    def __init__(self, dialect: Dialect, generation: Generation, answer_id: str, created: int, *, usage: bool) -> None:
        self._dialect = dialect
        self._generation = generation
        self._with_usage = usage
        model = generation.request.model
        self._escaped = model.table.escaped
        self._closed: set[int] = set()
        head = {"id": answer_id, "object": dialect.chunk_object, "created": created, "model": model.name}
        if generation.fingerprint:
            head["system_fingerprint"] = generation.fingerprint
        self._head = b"data: " + orjson.dumps(head)[:-1]
        self._end = (b',"usage":null' if usage else b"") + b"}\n\n"
        self._choice_head = self._head + b',"choices":['
        sequences = range(len(generation.sequences))
        self._text_heads = [self._choice_head + b'{"index":%d,' % i + dialect.text_head for i in sequences]
        self._text_tail = dialect.text_tail + b',"logprobs":null,"finish_reason":null}]' + self._end

    def opening(self) -> bytes:
        """The first chunk of every choice, which carries the role."""
        if self._dialect.opening is None:
            return b""
        choices = (
            {"index": i, "delta": self._dialect.opening, "logprobs": None, "finish_reason": None}
            for i in range(len(self._text_heads))
        )
        return b"".join(self._choice_head + orjson.dumps(choice) + b"]" + self._end for choice in choices)

    def encode(self, events: list[Event]) -> bytes:
        """Chunks of what arrived. Raises the error that a finish reports."""
        parts: list[bytes] = []
        sequences, escapes, tail = self._generation.sequences, self._escaped, self._text_tail
        for index, token_ids, logprobs, finish in events:
            sequence = sequences[index]
            # The common event is one token whose bytes are whole characters: its escaped form is in the table.
            if len(token_ids) == 1 and logprobs is None and sequence.plain and not sequence.detokenizer.pending:
                escaped = escapes[token_ids[0]]
                if escaped is not None:
                    sequence.completion_tokens += 1
                    if escaped:
                        parts += (self._text_heads[index], escaped, tail)
                    continue
            parts.append(self._encode_event(index, token_ids, logprobs, finish))
        return b"".join(parts)

    def _encode_event(
        self, index: int, token_ids: Sequence[int], logprobs: list[TokenLogprobs] | None, finish: Finish | None
    ) -> bytes:
        sequence = self._generation.sequences[index]
        if finish is not None:
            self._generation.finish(index, finish)
        if index in self._closed:
            return b""
        text, entries = sequence.feed(token_ids, logprobs)
        if finish is not None:
            rest, more = sequence.finish(finish)
            text, entries = text + rest, entries + more
        body = self._text_chunk(index, text, entries) if text or entries else b""
        if sequence.finish_reason is not None:
            self._closed.add(index)
            body += self._close(index, sequence.finish_reason)
        return body

    def closing(self) -> bytes:
        """The usage chunk, if it was asked for, and the end mark."""
        if not self._with_usage:
            return DONE
        usage = orjson.dumps(usage_fields(self._generation.usage))
        return self._head + b',"choices":[],"usage":' + usage + b"}\n\n" + DONE

    def _text_chunk(self, index: int, text: str, entries: list[TokenEntry]) -> bytes:
        if not entries:
            return self._text_heads[index] + orjson.dumps(text)[1:-1] + self._text_tail
        logprobs = orjson.dumps(self._dialect.logprobs(entries, self._generation.request.model))
        return b"".join(
            (
                self._text_heads[index],
                orjson.dumps(text)[1:-1],
                self._dialect.text_tail,
                b',"logprobs":',
                logprobs,
                b',"finish_reason":null}]',
                self._end,
            )
        )

    def _close(self, index: int, reason: FinishReason) -> bytes:
        return b'%b{"index":%d,%b,"logprobs":null,"finish_reason":"%b"}]%b' % (
            self._choice_head,
            index,
            self._dialect.no_text,
            reason.value.encode(),
            self._end,
        )
