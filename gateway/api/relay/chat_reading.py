"""Read an upstream's chat answer, in whatever variant of the chat API it is written, into one strict form."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from gateway.text.parsing.delta import ToldLogprob
from protos.errors import ReplicaFailed
from protos.types import FinishReason

#: What upstreams say instead of `stop` where it means something else; every other word is a stop.
_REASONS: Final = {
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "max_output_tokens": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.CONTENT_FILTER,
}
#: Finish reasons of answers that failed (Mistral and OpenRouter; SGLang).
_FAILURES: Final = frozenset(("error", "abort"))
#: Types of content parts, by the member that holds their text.
_TEXT_PARTS: Final = {"text": "text", "output_text": "text", "refusal": "refusal"}
_THOUGHT_PARTS: Final = {"thinking": "thinking", "reasoning": "reasoning", "reasoning_text": "text"}
#: Bound on the nesting of content parts: a thought's parts are texts.
_MOST_DEPTH: Final = 4

#: Default of raw fields: msgspec's union of `Raw` and None would accept only null.
_NULL: Final = msgspec.Raw(b"null")


class CallPiece(NamedTuple):
    """A piece of a tool call: where its upstream counts it, and what came with it; empty where nothing did."""

    place: int
    id: str
    name: str
    arguments: str


class ChoicePiece(NamedTuple):
    """A piece of choice `number`, or a whole one. `stops`: the stop strings that may have ended it."""

    number: int
    thought: str
    text: str
    told: Sequence[ToldLogprob]
    calls: Sequence[CallPiece]
    finish: FinishReason | None
    stops: Sequence[str]


class _Function(msgspec.Struct, frozen=True):
    name: Any = None
    arguments: Any = None


class _Call(msgspec.Struct, frozen=True):
    index: Any = None
    id: Any = None
    function: _Function | None = None


class _Message(msgspec.Struct, frozen=True):
    """A message, or a chunk's addition to one. `function_call` is the API's older form."""

    content: Any = None
    refusal: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: list[_Call] | _Call | None = None
    function_call: _Function | None = None


class _Choice(msgspec.Struct, frozen=True):
    """`stop_reason` is vLLM's and `matched_stop` SGLang's: the stop string that ended it, if it is a string."""

    index: Any = None
    delta: _Message | None = None
    message: _Message | None = None
    finish_reason: Any = None
    logprobs: msgspec.Raw = _NULL
    stop_reason: Any = None
    matched_stop: Any = None


class _Logprobs(msgspec.Struct, frozen=True):
    content: list[ToldLogprob] | None = None


class _Answer(msgspec.Struct, frozen=True):
    choices: list[_Choice] | None = None
    error: Any = None


_decode: Final = msgspec.json.Decoder(_Answer).decode
_decode_logprobs: Final = msgspec.json.Decoder(_Logprobs | None).decode
_encode: Final = msgspec.json.encode


def unreadable_answer(what: str) -> ReplicaFailed:
    """Make the error of an answer that is not a chat's; `what` names the member."""
    return ReplicaFailed(f"The model's upstream answered with what is not a chat's answer: {what}.")


def read_answer(data: bytes, *, whole: bool = False) -> list[ChoicePiece]:
    """Read a chunk of an answer, or a `whole` one, whose choices all have a message.

    Taken as the same: members that are missing, null and empty; a message in place of a delta; text as a string and as
    a list of parts; arguments as text and as an object; a list of calls and one call alone. Raises ReplicaFailed, which
    names what it cannot be taken for, or says that the upstream reports an error.
    """
    try:
        found = _decode(data)
    except msgspec.ValidationError as error:
        raise unreadable_answer(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise unreadable_answer("it is not JSON") from None
    except RecursionError:
        raise unreadable_answer("it is nested too deeply") from None
    if found.error is not None:
        raise ReplicaFailed("The model's upstream failed on this request.")
    return [_choice(position, choice, whole) for position, choice in enumerate(found.choices or ())]


def _choice(position: int, choice: _Choice, whole: bool) -> ChoicePiece:
    where = f"choices[{position}]"
    message = choice.message if choice.delta is None else choice.delta
    if message is None and whole:
        _refuse(f"{where}.message")
    thought = text = ""
    calls: Sequence[CallPiece] = ()
    if message is not None:
        content = message.content
        if content is None or type(content) is str:
            text = content or ""
        else:
            thought, text = _parts(content, f"{where}.content", 0)
        if message.refusal and not text:
            text = _text(message.refusal, f"{where}.refusal")
        if said := message.reasoning_content or message.reasoning:
            thought = _joined(said, f"{where}.reasoning") + thought
        if message.tool_calls or message.function_call is not None:
            calls = _calls(message, where)
    told = () if bytes(choice.logprobs) == b"null" else _logprobs(choice.logprobs)
    number = 0 if choice.index is None else _number(choice.index, f"{where}.index")
    finish = _finish(choice.finish_reason, where)
    stops = [stop for stop in (choice.stop_reason, choice.matched_stop) if isinstance(stop, str)]
    return ChoicePiece(number, thought, text, told, calls, finish, stops)


def _finish(reason: Any, where: str) -> FinishReason | None:
    # Some servers write "" or false where there is no reason yet.
    if not reason:
        return None
    word = _text(reason, f"{where}.finish_reason").lower()
    if word in _FAILURES:
        raise ReplicaFailed("The model's upstream failed on this request.")
    return _REASONS.get(word, FinishReason.STOP)


def _calls(message: _Message, where: str) -> list[CallPiece]:
    given = message.tool_calls
    listed = [given] if isinstance(given, _Call) else given or []
    found = [_call(place, call, f"{where}.tool_calls[{place}]") for place, call in enumerate(listed)]
    if message.function_call is not None and not listed:
        found.append(_call(0, _Call(function=message.function_call), f"{where}.function_call"))
    return found


def _call(position: int, call: _Call, where: str) -> CallPiece:
    place = position if call.index is None else _number(call.index, f"{where}.index")
    function = call.function or _Function()
    name = _text(function.name, f"{where}.name") if function.name else ""
    arguments = function.arguments
    if arguments is None:
        arguments = ""
    elif isinstance(arguments, dict):
        arguments = _encode(arguments).decode()
    elif type(arguments) is not str:
        _refuse(f"{where}.arguments")
    id_ = call.id
    if type(id_) is int:
        id_ = str(id_)
    return CallPiece(place, _text(id_, f"{where}.id") if id_ else "", name, arguments)


def _parts(content: Any, where: str, depth: int) -> tuple[str, str]:
    """Give the thoughts and the text of content in parts."""
    if isinstance(content, str):
        return "", content
    if depth > _MOST_DEPTH:
        _refuse(where)
    thoughts, texts = [], []
    for position, part in enumerate(content if isinstance(content, list) else [content]):
        at = f"{where}[{position}]"
        if isinstance(part, str):
            texts.append(part)
            continue
        if not isinstance(part, dict):
            _refuse(at)
        kind = part.get("type", "text")
        if (key := _lookup(_TEXT_PARTS, kind)) is not None:
            if part.get(key):
                texts.append(_text(part[key], f"{at}.{key}"))
        elif (key := _lookup(_THOUGHT_PARTS, kind)) is not None:
            if part.get(key):
                thoughts.append(_joined(part[key], f"{at}.{key}", depth + 1))
        else:
            _refuse(f"{at}.type")
    return "".join(thoughts), "".join(texts)


def _lookup(table: dict[str, str], kind: Any) -> str | None:
    return table.get(kind) if isinstance(kind, str) else None


def _joined(value: Any, where: str, depth: int = 0) -> str:
    """Give the text of a thought: a string, or parts."""
    return value if isinstance(value, str) else "".join(_parts(value, where, depth))


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        _refuse(where)
    return value


def _number(value: Any, where: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    if type(value) is not int or value < 0:
        _refuse(where)
    return value


def _refuse(where: str) -> NoReturn:
    raise unreadable_answer(where)


def _logprobs(logprobs: msgspec.Raw) -> Sequence[ToldLogprob]:
    """Read logprobs, if they are in the chat's form."""
    try:
        found = _decode_logprobs(logprobs)
    except msgspec.DecodeError:
        return ()
    return (found.content or ()) if found is not None else ()
