"""Read answers of `/v1/chat/completions` and `/v1/completions`, whole or streamed.

An event stream is that of the HTML standard (section 9.2), as the OpenAI API writes it: a chunk of JSON in each event's
data, and `[DONE]` at the end. Choices but the first are left out.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from gateway.rollouts.comparison.answer import Answer, ToolCall

_DATA: Final = b"data:"
_DONE: Final = b"[DONE]"
#: More calls than any answer has; an index beyond is not an answer's.
_MOST_CALLS: Final = 1024


class NotAnAnswer(ValueError):
    """The bytes are no answer of the API, or one that ended in an error; the text says why."""


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    function: _Function | None = None
    index: int | None = None


class _Part(msgspec.Struct):
    """A message or its delta."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    message: _Part | None = None
    delta: _Part | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    completion_tokens: int = 0


class _Chunk(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage | None = None
    error: Any = None


class _Error(msgspec.Struct):
    error: Any = None


_CHUNK: Final = msgspec.json.Decoder(_Chunk)
_ERROR: Final = msgspec.json.Decoder(_Error)


def read_answer(body: bytes) -> Answer:
    """Read a whole answer, or a stream to its end. Raises NotAnAnswer."""
    start = body.lstrip()[:1]
    if start == b"{":
        return _joined([_chunk(body)])
    return _joined(list(_chunks(body)))


def data_of(body: bytes) -> Iterator[bytes]:
    """Yield the data of each event of a stream, which the gateway writes on one line."""
    for line in body.splitlines():
        if line.startswith(_DATA):
            yield line[len(_DATA) :].strip()


def _chunks(body: bytes) -> Iterator[_Chunk]:
    for data in data_of(body):
        if data == _DONE:
            return
        yield _chunk(data)
    raise NotAnAnswer("the stream breaks off")


def _chunk(data: bytes) -> _Chunk:
    try:
        chunk = _CHUNK.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotAnAnswer(_error_in(data) or f"no answer of the API: {error}") from error
    if chunk.error is not None:
        raise NotAnAnswer(_said(chunk.error))
    return chunk


def _error_in(data: bytes) -> str:
    try:
        error = _ERROR.decode(data).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    return "" if error is None else _said(error)


def _said(error: Any) -> str:
    message = error.get("code") or error.get("type") if isinstance(error, dict) else None
    return f"it ended with the error {message}"


def _joined(chunks: list[_Chunk]) -> Answer:
    """Put the first choice of an answer together."""
    texts: dict[str, list[str]] = {"text": [], "reasoning": [], "refusal": []}
    calls: dict[int, tuple[list[str], list[str]]] = {}
    finish, tokens, found = "", 0, False
    for chunk in chunks:
        if chunk.usage is not None:
            tokens = chunk.usage.completion_tokens
        for choice in chunk.choices:
            if choice.index != 0:
                continue
            found = True
            finish = choice.finish_reason or finish
            texts["text"].append(choice.text or "")
            part = choice.message or choice.delta
            if part is not None:
                texts["text"].append(part.content or "")
                texts["reasoning"].append(part.reasoning_content or part.reasoning or "")
                texts["refusal"].append(part.refusal or "")
                for place, call in enumerate(part.tool_calls or ()):
                    _add(calls, place if call.index is None else call.index, call)
    if not found:
        raise NotAnAnswer("it has no choice")
    return Answer(
        **{name: "".join(pieces) for name, pieces in texts.items()},
        calls=tuple(ToolCall("".join(names), "".join(arguments)) for _, (names, arguments) in sorted(calls.items())),
        finish=finish,
        tokens=tokens,
    )


def _add(calls: dict[int, tuple[list[str], list[str]]], index: int, call: _Call) -> None:
    if not 0 <= index < _MOST_CALLS:
        raise NotAnAnswer(f"it has a tool call number {index}")
    names, arguments = calls.setdefault(index, ([], []))
    if call.function is not None:
        names.append(call.function.name or "")
        arguments.append(call.function.arguments or "")
