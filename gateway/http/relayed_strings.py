"""The strings of an answer in the API's own form, wherever an upstream puts them: what a model may have said."""

import enum
import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from protos.errors import FilterFailed

#: Names whose strings no model says. Signatures and encrypted parts are its provider's, and only good as they are.
_PASSED: Final = frozenset(
    ("role", "id", "type", "index", "format", "status", "signature", "thought_signature", "encrypted_content")
)
#: What cannot be screened, or says again what is screened, and is left out: tokens, and speech.
WITHHELD: Final = ("logprobs", "token_ids", "prompt_logprobs")
#: Names whose strings come whole, or whose members do: pieces of them are not joined by anybody.
_WHOLE: Final = frozenset(("name", "annotations", "images", "citations", "search_results", "grounding_metadata"))
_decode: Final = msgspec.json.decode


class Item(NamedTuple):
    """A step into a list: to the item that says its index, else to the one at that place and of that type."""

    index: int | None
    place: int = -1
    type: str | None = None


Step = str | Item
Path = tuple[Step, ...]


class Kind(enum.Enum):
    """PIECE: it goes on in the next chunk; WHOLE: it does not; OTHER: no text, and more than nothing."""

    PIECE = 1
    WHOLE = 2
    OTHER = 3


class Found(NamedTuple):
    """A string, or something else, at `container[key]`."""

    kind: Kind
    container: Any
    key: Any
    path: Path


def unreadable(problem: str) -> FilterFailed:
    """An answer that cannot be looked at is not sent, whatever a policy says of filters that fail."""
    error = FilterFailed("The model's answer could not be filtered.")
    error.detail = problem
    return error


def decoded(raw: msgspec.Raw | bytes) -> Any:
    """A value; lone halves of a character, which JSON's escapes can write, are left as they are. Raises FilterFailed."""
    try:
        return _decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass
    except RecursionError:
        raise unreadable("an answer that is nested too deeply") from None
    try:
        return json.loads(bytes(raw))
    except (ValueError, RecursionError):
        raise unreadable("an answer that is not the API's JSON") from None


def strings(node: Any, path: Path, *, whole: bool = False) -> Iterator[Found]:
    """Everything in an object or list that is more than nothing; what cannot be screened is taken out of it."""
    if isinstance(node, dict):
        for name in WITHHELD:
            if name in node:
                node[name] = None
        if path and path[-1] == "audio":
            node.pop("data", None)
        for name, value in node.items():
            yield from _member(node, name, value, (*path, name), whole=whole or name in _WHOLE)
    else:
        for place, value in enumerate(node):
            step = Item(None, place)
            if isinstance(value, dict):
                index, kind = value.get("index"), value.get("type")
                if type(index) is int:
                    step = Item(index)
                elif isinstance(kind, str):
                    step = Item(None, place, kind)
            # Strings in lists are items of their own to every client.
            yield from _member(node, place, value, (*path, step), whole=whole or isinstance(value, str))


def _member(container: Any, key: Any, value: Any, path: Path, *, whole: bool) -> Iterator[Found]:
    if isinstance(value, str):
        if key in _PASSED:
            # Every chunk of a call may say that it is a function's.
            if value and key != "type":
                yield Found(Kind.OTHER, container, key, path)
        elif whole and key == "url" and value.startswith("data:"):
            yield Found(Kind.OTHER, container, key, path)
        else:
            yield Found(Kind.WHOLE if whole else Kind.PIECE, container, key, path)
    elif isinstance(value, dict | list):
        yield from strings(value, path, whole=whole)
    elif value is not None and key != "index":
        yield Found(Kind.OTHER, container, key, path)


def placed(choice: dict[str, Any], path: Path, text: str) -> None:
    """Put a text where the path leads, with what must be on the way."""
    node: Any = choice
    for step, then in zip(path, (*path[1:], None), strict=True):
        if then is None:
            node[step] = text
        elif isinstance(step, str):
            node = node.setdefault(step, [] if isinstance(then, Item) else {})
        else:
            node = _item(node, step)


def _item(items: list[Any], step: Item) -> dict[str, Any]:
    item = {"index": step.index} if step.index is not None else {} if step.type is None else {"type": step.type}
    for there in items:
        if there.items() >= item.items():
            found: dict[str, Any] = there
            return found
    items.append(item)
    return item
