"""Splits an upstream's stream into whole server-sent events and rewrites what clients must not see."""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from observability.redacted_words import redacted_words
from routing.transports.openai.model_name import ModelName
from routing.transports.openai.shape import Shape
from routing.transports.openai.upstream_usage import answer_in
from routing.transports.openai.usage_forms import later

#: Bytes of text a token, where events have several.
_TOKEN_BYTES: Final = 4
#: Bound on one event.
MAX_EVENT_BYTES: Final = 8 * 1024 * 1024
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENCODER: Final = msgspec.json.Encoder()
_DONE: Final = b"data: [DONE]\n\n"
#: Never matches inside a JSON string, where quotes are escaped.
_NO_USAGE: Final = re.compile(rb',\s*"usage"\s*:\s*null|"usage"\s*:\s*null\s*,')


class BadStream(Exception):
    """The stream cannot be relayed any further. `problem` is for the log; `error` is the error that it sent, if any."""

    def __init__(self, problem: str, *, error: bytes = b"") -> None:
        super().__init__(problem)
        self.problem = problem
        self.error = error

    @property
    def from_upstream(self) -> bool:
        """Whether the upstream sent an error."""
        return bool(self.error)


class EventStream:
    """Pure: the output does not depend on how the input is cut into parts.

    `seen` counts events with data, `usage` is what has been told of it so far, in the upstream's own form, and `cut`
    are the sequences that reached their limit. `done`: the end mark has come and later bytes are ignored; `surplus`:
    some followed it at once.
    """

    __slots__ = (
        "_ended",
        "_model",
        "_rest",
        "_return",
        "_sequences",
        "_shape",
        "_usage_wanted",
        "cut",
        "done",
        "seen",
        "surplus",
        "usage",
    )

    def __init__(self, answer_model: str, *, usage: bool, sequences: int = 1) -> None:
        """`usage`: the client asked for the usage chunk."""
        self._sequences = sequences
        self._ended: set[int] = set()
        self._model = ModelName(answer_model)
        self._shape = Shape()
        self._usage_wanted = usage
        self._rest = bytearray()
        #: Whether the last byte was a carriage return, which may be half of a line end.
        self._return = False
        self.seen = 0
        self.usage: Mapping[str, Any] | None = None
        self.cut: set[int] = set()
        self.done = self.surplus = False

    def feed(self, data: bytes) -> bytes:
        """Return the events that are complete now, as the client should see them. Raises BadStream."""
        if self.done:
            self.surplus = self.surplus or bool(data.strip())
            return b""
        if not self._rest and not self._return:
            shown = self._shape.shown(data)
            if shown is not None:
                self.seen += 1
                return shown
        if self._return or b"\r" in data:
            data = self._with_plain_ends(data)
        if self._rest or data[-2:] != b"\n\n":
            data = self._whole(data)
            if not data:
                return data
        return self._shown(data)

    def _shown(self, data: bytes) -> bytes:
        """Return whole events as the client should see them."""
        came, usage = data, data.count(b'"usage"')
        if usage and not self._usage_wanted:
            data = data.replace(b',"usage":null', b"")
            usage = data.count(b'"usage"')
        if (
            (usage and usage != data.count(b'"usage":null'))
            or b"[DONE]" in data
            or b'"error"' in data
            or _has_ends(data)
            or data.startswith(b"\n")
            or b"\n\n\n" in data
        ):
            return self._model.shown(self._looked_at(data))
        self.seen += data.startswith(b"data:") + data.count(b"\ndata:")
        data = self._model.shown(data)
        if came.startswith(b"data:"):
            self._shape.learn(came, data)
        return data

    def close(self) -> bytes:
        """End the stream; return the end mark if it came without its line end, or if it can be supplied.

        Some servers (Transformers') send none; it is supplied when every sequence has a finish reason.
        """
        rest = bytes(self._rest).strip()
        if not self.done and (rest in (b"data: [DONE]", b"data:[DONE]") or (not rest and self._complete)):
            self.done = True
            return _DONE
        return b""

    @property
    def tokens(self) -> int:
        """About how many tokens have come: one an event, or more where the events' texts are longer than that."""
        return max(self.seen, self._shape.text_bytes // _TOKEN_BYTES)

    @property
    def _complete(self) -> bool:
        return len(self._ended) == self._sequences

    def _with_plain_ends(self, data: bytes) -> bytes:
        if self._return:
            data = b"\r" + data
        self._return = data.endswith(b"\r")
        if self._return:
            data = data[:-1]
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _whole(self, data: bytes) -> bytes:
        """Return the whole events of the buffered and new bytes."""
        rest = self._rest
        at = max(0, len(rest) - 1)
        rest += data
        end = rest.rfind(b"\n\n", at)
        if end < 0:
            if len(rest) > MAX_EVENT_BYTES:
                raise BadStream(f"an event of more than {MAX_EVENT_BYTES} bytes")
            return b""
        whole = bytes(memoryview(rest)[: end + 2])
        del rest[: end + 2]
        return whole

    def _looked_at(self, data: bytes) -> bytes:
        kept: list[bytes] = []
        for part in data.split(b"\n\n"):
            event = part.lstrip(b"\n")  # blank lines without an event between them end nothing
            if self.done:
                self.surplus = self.surplus or bool(event)
            elif event:
                shown = self._event(event)
                if shown:
                    kept.append(shown)
        kept.append(b"")
        return b"\n\n".join(kept)

    def _event(self, event: bytes) -> bytes:
        """Return one event without its end; empty for one that the client must not see."""
        if not (event.startswith(b"data:") or b"\ndata:" in event):
            return event
        if not (b'"usage"' in event or b"[DONE]" in event or b'"error"' in event or _has_ends(event)):
            self.seen += 1
            return event
        text = _data_of(event)
        if text == b"[DONE]":
            self.done, self.surplus = True, bool(self._rest.strip())
            return event
        try:
            chunk = answer_in(text)
        except ValueError:
            raise BadStream("an event that is not the API's JSON") from None
        if chunk.is_error:
            # The message may quote the prompt or the answer.
            error = bytes(chunk.error or b"{}")
            raise BadStream(f"an error in the stream: {redacted_words(error)}", error=error)
        for choice in chunk.choices or ():
            if choice.finish_reason is not None:
                self._ended.add(choice.index)
            if choice.finish_reason == "length":
                self.cut.add(choice.index)
        told = chunk.told
        if told is not None:
            self.usage = later(self.usage, told)
        self.seen += bool(chunk.choices)
        if self._usage_wanted or b'"usage"' not in event:
            return event
        if chunk.usage is None:
            return _NO_USAGE.sub(b"", event)
        return _without_usage(text) if chunk.choices else b""


def _has_ends(data: bytes) -> bool:
    """Whether the data may contain a finish reason."""
    return data.count(b'"finish_reason"') != data.count(b'"finish_reason":null')


def _data_of(event: bytes) -> bytes:
    """Return the data of an event, its lines joined."""
    lines = [line[5:] for line in event.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(line.removeprefix(b" ") for line in lines).strip()


def _without_usage(text: bytes) -> bytes:
    members = _MEMBERS.decode(text)
    members.pop("usage", None)
    return b"data: " + _ENCODER.encode(members)
