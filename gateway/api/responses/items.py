"""Input items: their types, and their form once they are stored."""

from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from gateway.api.responses import compaction_item
from gateway.api.server.body_decoder import MAX_ECHO, read_part
from protos.errors import InvalidRequest, UnsupportedParameter

_Text = Annotated[str, Meta(min_length=1)]
_Status = Literal["in_progress", "completed", "incomplete"]


class _Item(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    type: str | None = None
    id: str | None = None
    status: _Status | None = None


class MessageItem(_Item, frozen=True, kw_only=True):
    """A message of either side."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[dict[str, Any]]
    #: The answer's phase; no template here uses it.
    phase: Literal["commentary", "final_answer"] | None = None


class CallItem(_Item, frozen=True, kw_only=True):
    """A function call by the model."""

    call_id: _Text
    name: _Text
    arguments: str
    caller: Any = None
    namespace: str | None = None
    #: Whether the model went on meanwhile: its output is here in any case.
    waited_not: bool | None = msgspec.field(default=None, name="async")


class OutputItem(_Item, frozen=True, kw_only=True):
    """The output of a called function."""

    call_id: _Text
    output: str | list[dict[str, Any]]
    caller: Any = None
    name: str | None = None
    namespace: str | None = None


class _ThoughtPart(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    text: str
    type: str = ""


class ThoughtItem(_Item, frozen=True, kw_only=True):
    """The model's reasoning; `content` is its text, and nothing here is encrypted."""

    summary: list[_ThoughtPart] = []
    content: list[_ThoughtPart] | None = None
    encrypted_content: str | None = None

    @property
    def text(self) -> str:
        """All of the reasoning."""
        return "".join(part.text for part in self.content or ())


class CompactionItem(_Item, frozen=True, kw_only=True):
    """An item with the summary of a compacted conversation (gateway/api/responses/compaction_item.py)."""

    encrypted_content: _Text
    created_by: str | None = None


class ReferenceItem(_Item, frozen=True, kw_only=True):
    """A stored item, by its id."""

    id: _Text


Item = MessageItem | CallItem | OutputItem | ThoughtItem | CompactionItem | ReferenceItem

_KINDS: Final[dict[str, type[Item]]] = {
    "message": MessageItem,
    "function_call": CallItem,
    "function_call_output": OutputItem,
    "reasoning": ThoughtItem,
    compaction_item.KIND: CompactionItem,
    "item_reference": ReferenceItem,
}
#: Prefixes of item ids.
_PREFIXES: Final = {
    "message": "msg_",
    "function_call": "fc_",
    "function_call_output": "fco_",
    "reasoning": "rs_",
    compaction_item.KIND: compaction_item.PREFIX,
}
#: Items that have no status.
_WITHOUT_STATUS: Final = ("reasoning", compaction_item.KIND)


def kind_of(item: dict[str, Any], where: str) -> str:
    """Give an item's type, which messages and references may omit. Raises InvalidRequest or UnsupportedParameter."""
    kind = item.get("type")
    if kind is None:
        if "role" in item:
            return "message"
        if set(item) <= {"id", "type"} and "id" in item:
            return "item_reference"
        raise InvalidRequest(f"Missing required parameter: '{where}.type'.", param=f"{where}.type")
    if not isinstance(kind, str) or kind not in _KINDS:
        shown = str(kind)[:MAX_ECHO]
        raise UnsupportedParameter(
            f"Unsupported value: '{where}.type' may not be '{shown}' here.", param=f"{where}.type"
        )
    return kind


def read_item(item: dict[str, Any], where: str) -> Item:
    """Convert an item. Raises InvalidRequest or UnsupportedParameter."""
    return read_part(item, _KINDS[kind_of(item, where)], where)


def items_of(given: str | list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """List an input's items: a text is a user's message."""
    if given is None:
        return []
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def item_id(kind: str, suffix: str, position: int) -> str:
    """Make the id of an input's item that has none; it is always the same."""
    return f"{_PREFIXES[kind]}{suffix}_i{position}"


def shown_item(item: dict[str, Any], suffix: str, position: int, *, own_id: bool = True) -> dict[str, Any]:
    """Convert a valid input item to the API's form; without `own_id` it gets a new id."""
    kind = kind_of(item, "input")
    given = item.get("id") if own_id else None
    shown: dict[str, Any] = {"id": given or item_id(kind, suffix, position), "type": kind}
    if kind not in _WITHOUT_STATUS:
        shown["status"] = item.get("status") or "completed"
    shown |= {name: value for name, value in item.items() if name not in ("id", "type", "status") and value is not None}
    if kind == "message" and isinstance(shown["content"], str):
        shown["content"] = [_text_part(shown["content"], answer=item["role"] == "assistant")]
    if kind == "reasoning":
        shown.setdefault("summary", [])
    return shown


def shown_items(items: Iterable[dict[str, Any]], suffix: str, *, own_ids: bool = True) -> list[dict[str, Any]]:
    """Convert all items of an input to the API's form."""
    return [shown_item(item, suffix, position, own_id=own_ids) for position, item in enumerate(items)]


def _text_part(text: str, *, answer: bool) -> dict[str, Any]:
    if answer:
        return {"type": "output_text", "text": text, "annotations": []}
    return {"type": "input_text", "text": text}
