"""Find the strings of a chat answer that a model may have written, wherever an upstream puts them."""

import enum
import json
from typing import Any, Final, NamedTuple

import msgspec

from protos.errors import FilterFailed

#: Members whose strings come from no model: signatures and encrypted parts are their provider's, valid only unchanged.
_PASSED: Final = frozenset(
    ("role", "id", "type", "index", "format", "status", "signature", "thought_signature", "encrypted_content")
)
#: Members left out: they cannot be screened, or repeat what is screened; so is audio.
_WITHHELD: Final = ("logprobs", "token_ids", "prompt_logprobs")
#: Members whose strings, or whose members' strings, come whole: no client joins pieces of them.
_WHOLE: Final = frozenset(("name", "annotations", "images", "citations", "search_results", "grounding_metadata"))
#: Members of an answer that the upstream itself writes.
_OWN: Final = frozenset(
    ("id", "object", "created", "model", "system_fingerprint", "service_tier", "provider", "obfuscation")
)
#: Known finish reasons; any other string there is treated as text.
_REASONS: Final = frozenset(("stop", "length", "tool_calls", "function_call", "content_filter"))
#: Prefixes of the names of reasoning members; the answer follows them.
_THOUGHTS: Final = ("reason", "think")
_CALLS: Final = ("tool_calls", "function_call")
#: Members of a choice whose strings continue in the next chunk.
_PIECES: Final = ("delta", "message", "text")
#: Bound on the nesting of an answer.
_MOST_STEPS: Final = 64
_decode: Final = msgspec.json.decode


class Item(NamedTuple):
    """A step into a list: to the item with that index member, else to that position, in contents of that type."""

    number: int | None
    place: int = -1
    type: str | None = None


Step = str | Item
Path = tuple[Step, ...]


class Kind(enum.Enum):
    """PIECE: continues in the next chunk; WHOLE: complete; OTHER: not text and not empty."""

    PIECE = 1
    WHOLE = 2
    OTHER = 3


class Found(NamedTuple):
    """A string, or another value, at `container[key]`."""

    kind: Kind
    container: Any
    key: Any
    path: Path


class Order(enum.IntEnum):
    """The order of a model's output: reasoning, text, tool calls. What follows a cut is left out."""

    THOUGHT = 0
    SPEECH = 1
    CALL = 2


def order_of(path: Path) -> Order:
    """Give the order of a text by its path in a choice."""
    name = path[1] if path[0] in ("delta", "message") and len(path) > 1 else path[0]
    if name in _CALLS:
        return Order.CALL
    return Order.THOUGHT if isinstance(name, str) and name.startswith(_THOUGHTS) else Order.SPEECH


def is_json(path: Path) -> bool:
    """Whether a text is JSON in a string."""
    return path[-1] == "arguments" and order_of(path) is Order.CALL


def without_calls(choice: dict[str, Any], last: Any = None) -> None:
    """Remove the tool calls from a choice, except those up to the one that contains the object `last`."""
    for part in (choice.get("delta"), choice.get("message")):
        if not isinstance(part, dict):
            continue
        if last is None or part.get("function_call") is not last:
            part.pop("function_call", None)
        calls = part.get("tool_calls")
        if isinstance(calls, list):
            ends = [at for at, call in enumerate(calls, 1) if call is last or any(one is last for one in call.values())]
            del calls[ends[0] if last is not None and ends else 0 :]
            if not calls:
                del part["tool_calls"]


def unreadable(problem: str) -> FilterFailed:
    """Make the error of an answer that cannot be screened; it is never sent, whatever the policy on failing filters."""
    error = FilterFailed("The model's answer could not be filtered.")
    error.detail = problem
    return error


def decoded(data: bytes) -> dict[str, Any]:
    """Decode an answer or a chunk; escaped lone surrogates stay as they are. Raises FilterFailed."""
    value: Any
    try:
        value = _decode(data)
    except RecursionError:
        raise unreadable("its answer is nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            raise unreadable("its answer is not the API's JSON") from None
    if not isinstance(value, dict):
        raise unreadable("its answer is not a JSON object")
    return value


def encoded(value: dict[str, Any]) -> bytes:
    """Encode an answer as JSON. Raises FilterFailed."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        raise unreadable("its answer has half a character where nothing may be changed") from None
    except RecursionError:
        raise unreadable("its answer is nested too deeply") from None


def choices_of(answer: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the answer's choices; None: it has none. Raises FilterFailed."""
    choices = answer.get("choices")
    if choices is None:
        return None
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise unreadable("its answer's choices are not the API's")
    if not all(type(choice.get("index", 0)) is int for choice in choices):
        raise unreadable("its answer's choices are not counted")
    return choices


def strings_beside(answer: dict[str, Any]) -> list[Found]:
    """List the strings beside the choices; remove what cannot be screened. Raises FilterFailed."""
    for name in _WITHHELD:
        if name in answer:
            answer[name] = None
    found: list[Found] = []
    for name, value in answer.items():
        if isinstance(value, dict | list | str) and name != "choices" and not (name in _OWN and isinstance(value, str)):
            _member(found, answer, name, value, (name,), whole=True)
    return [one for one in found if one.kind is not Kind.OTHER]


def strings_of(choice: dict[str, Any]) -> list[Found]:
    """List the non-empty values of a choice in the order of output; remove what cannot be screened.

    Raises FilterFailed.
    """
    found: list[Found] = []
    _strings(found, choice, (), whole=False)
    if len(found) > 1:
        found.sort(key=lambda one: order_of(one.path))
    return found


def _strings(found: list[Found], node: Any, path: Path, *, whole: bool) -> None:
    if len(path) > _MOST_STEPS:
        raise unreadable("its answer is nested too deeply")
    if isinstance(node, dict):
        for name in _WITHHELD:
            if name in node:
                node[name] = None
        if path and path[-1] == "audio":
            node.pop("data", None)
        for name, value in node.items():
            if value is not None and (path or not _is_finish_reason(name, value)):
                alone = whole or name in _WHOLE or (not path and name not in _PIECES)
                _member(found, node, name, value, (*path, name), whole=alone)
    else:
        for place, value in enumerate(node):
            step = Item(None, place)
            if isinstance(value, dict):
                index, kind = value.get("index"), value.get("type")
                if type(index) is int:
                    step = Item(index)
                elif isinstance(kind, str) and path[-1] == "content":
                    step = Item(None, place, kind)
            # Clients take strings in lists as separate items.
            _member(found, node, place, value, (*path, step), whole=whole or isinstance(value, str))


def _is_finish_reason(name: str, value: Any) -> bool:
    return name == "finish_reason" and isinstance(value, str) and (not value or value in _REASONS)


def _member(found: list[Found], container: Any, key: Any, value: Any, path: Path, *, whole: bool) -> None:
    if isinstance(value, str):
        if key in _PASSED:
            # Every chunk of a call may repeat its type.
            if value and key != "type":
                found.append(Found(Kind.OTHER, container, key, path))
        elif whole and key == "url" and value.startswith("data:"):
            found.append(Found(Kind.OTHER, container, key, path))
        else:
            found.append(Found(Kind.WHOLE if whole else Kind.PIECE, container, key, path))
    elif isinstance(value, dict | list):
        _strings(found, value, path, whole=whole)
    elif value is not None and key != "index":
        found.append(Found(Kind.OTHER, container, key, path))


def placed(choice: dict[str, Any], path: Path, text: str) -> None:
    """Put a text at the path, and create what is missing on the way."""
    node: Any = choice
    for step, then in zip(path, (*path[1:], None), strict=True):
        _require(isinstance(node, dict if isinstance(step, str) else list))
        if then is None:
            _require(not isinstance(node.get(step), dict | list))
            node[step] = text
        elif isinstance(step, str):
            node = node.setdefault(step, [] if isinstance(then, Item) else {})
        else:
            node = _item(node, step)


def _require(fits: bool) -> None:
    """Refuse a place that is a text in one chunk and a list of parts in another."""
    if not fits:
        raise unreadable("its answer has two forms for one place")


def _item(items: list[Any], step: Item) -> dict[str, Any]:
    item = {"index": step.number} if step.number is not None else {} if step.type is None else {"type": step.type}
    for there in items:
        if there.items() >= item.items():
            found: dict[str, Any] = there
            return found
    items.append(item)
    return item
