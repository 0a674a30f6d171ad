"""Extract all text of a request that a model will see, for filters; rewrite the request with some of it replaced.

Bodies with lone surrogates are no JSON to any of our decoders and were refused before, so these texts have none. A
member that occurs twice in a body can be read in two ways: where an upstream reads the body too, it is refused.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from gateway.api.server.body_decoder import MAX_ECHO
from protos.errors import InvalidRequest
from safety.json_escapes import unescaped

if TYPE_CHECKING:
    from gateway.api.openai.body_reading import Reading
    from gateway.models.served_model import ServedModel
from gateway.filtering.prompt_text import WORDS, PromptText, TextPath

#: The last step of a path that leads to a member's name instead of its value.
NAME: Final = -1


#: Bounds on the texts of a filtered request, and on the steps of their paths.
MOST_TEXTS: Final = 32_768
MOST_STEPS: Final = 64
_MOST_PARAM: Final = 256
#: Shorter whole numbers that stand alone are no personal data.
_LONG_NUMBER: Final = 12

#: Members that no model sees.
_UNSEEN: Final = frozenset(
    (
        *("model", "messages", "prompt", "user", "stop", "metadata", "logit_bias", "stream_options", "service_tier"),
        *("safety_identifier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "moderation"),
        *("reasoning_effort", "verbosity", "suffix"),
    )
)
#: Unseen members of a message, by the member that holds them.
_UNSEEN_WITHIN: Final[dict[str, frozenset[str]]] = {
    "messages": frozenset(("role", "tool_call_id")),
    "tool_calls": frozenset(("id",)),
    "audio": frozenset(("id", "data")),
    "image_url": frozenset(("url", "detail")),
    "audio_url": frozenset(("url",)),
    "video_url": frozenset(("url",)),
    "input_audio": frozenset(("data", "format")),
    "file": frozenset(("file_data", "file_id")),
}
#: The roles of members beside the conversation, where they are not the application's own words.
_ROLES: Final = {"prediction": "assistant", "documents": "tool"}
#: Message members beside the content that may have text; their names are searched for in the raw body.
_ELSEWHERE: Final = (
    *(b'"name"', b'"refusal"', b'"audio"', b'"tool_calls"', b'"function_call"'),
    *(b'"reasoning_content"', b'"reasoning"', b'"annotations"'),
)
#: An ASCII character as a needless escape: it could hide a member's name from a search of the bytes.
_ESCAPED_ASCII: Final = re.compile(rb"\\u00[2-7]")
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY: Final = msgspec.json.Decoder(list[msgspec.Raw])
_encode: Final = msgspec.json.encode


def _content_place(index: int) -> tuple[str, TextPath]:
    return f"messages[{index}].content", ("messages", index, "content")


#: The usual places, made once.
_CONTENT_PLACES: Final = [_content_place(index) for index in range(64)]


def content_places(count: int) -> list[tuple[str, TextPath]]:
    """Give `param` and `path` of at least so many messages' contents."""
    return _CONTENT_PLACES if count <= len(_CONTENT_PLACES) else [_content_place(index) for index in range(count)]


def prompt_texts(reading: "Reading", body: bytes, model: "ServedModel") -> list[PromptText]:
    """List a body's texts in order. Raises InvalidRequest for what cannot be read as text, or only ambiguously.

    Text parts of one message are one text where replicas join them; its path leads to the message's content, which may
    become a string. Escapes within a text, as in JSON inside a string, are decoded where JSON does not need them.
    """
    own = reading.api.texts(reading.fields, model)
    if own is not None and b"\\" in body:
        own = [at._replace(text=unescaped(at.text)) if has_inner_escapes(at.text) else at for at in own]
    usual = own is not None and reading.foreign is None and reading.guide is None
    if usual and own is not None and (not model.relays or _has_unique_members(body, own)):
        return own
    members = _members(body)
    walk = _Walk(list(own or ()))
    if own is None:
        joins = not model.opaque and reading.foreign is None
        for index, message in enumerate(members["messages"]):
            walk.message(message if model.relays else _shown_members(message), index, joins=joins)
    for name, value in members.items():
        if name not in _UNSEEN and not (name == "tool_choice" and isinstance(value, str)):
            walk.within(value, _ROLES.get(name, "system"), name, (name,), frozenset(), {})
    return walk.texts


def has_inner_escapes(text: str) -> bool:
    """Whether a text may have escapes within itself. A text has a backslash only if its body has one."""
    return "\\u" in text


class _Change:
    """The change of a value: its own text, its name, or changes within it."""

    __slots__ = ("name", "text", "within")

    def __init__(self) -> None:
        self.name: str | None = None
        self.text: str | None = None
        self.within: dict[str | int, _Change] = {}


def rewritten(body: bytes, replaced: Mapping[TextPath, str]) -> bytes:
    """Replace these texts in the body; everything else keeps its bytes.

    Where a path leads to something other than a string, such as token ids, all of that is replaced.
    """
    whole = _Change()
    for path, text in replaced.items():
        change = whole
        for step in path:
            if step == NAME:
                change.name = text
                break
            change = change.within.setdefault(step, _Change())
        else:
            change.text = text
    return _changed(body, whole)


def _changed(raw: bytes | msgspec.Raw, change: _Change) -> bytes:
    if change.text is not None:
        return _encode(change.text)
    if not change.within:
        return bytes(raw)
    if isinstance(next(iter(change.within)), int):
        items = _ARRAY.decode(raw)
        for at, one in change.within.items():
            items[cast("int", at)] = msgspec.Raw(_changed(items[cast("int", at)], one))
        return _encode(items)
    members = {}
    for name, value in _OBJECT.decode(raw).items():
        one = change.within.get(name, _NO_CHANGE)
        members[name if one.name is None else one.name] = msgspec.Raw(_changed(value, one))
    return _encode(members)


_NO_CHANGE: Final = _Change()


def _has_unique_members(body: bytes, texts: Sequence[PromptText]) -> bool:
    """Whether a chat with these contents alone surely has each member once. Quotes within a string are escaped."""
    if not texts or texts[0].path[0] != "messages":
        return True  # of the other API's members all are at the top, where only the last one goes to the upstream
    count = len(texts)
    return (
        body.count(b'"content"') == count
        and body.count(b'"role"') == count
        and not any(name in body for name in _ELSEWHERE)
        and not (b"\\" in body and _ESCAPED_ASCII.search(body))
    )


def _members(body: bytes) -> dict[str, Any]:
    try:
        members: dict[str, Any] = json.loads(body, object_pairs_hook=_once, parse_int=_Number)
    except RecursionError:
        raise InvalidRequest("The request body is nested too deeply.") from None
    return members


def _shown_members(message: dict[str, Any]) -> dict[str, Any]:
    """Select the members shown to a model: no refusal beside a content, reasoning only of the assistant."""
    hidden = {"annotations"}
    if message.get("content") is not None:
        hidden.add("refusal")
    if message["role"] != "assistant":
        hidden |= {"reasoning_content", "reasoning"}
    return message if hidden.isdisjoint(message) else {name: message[name] for name in message if name not in hidden}


class _Number(str):
    """A whole number as it was written."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise InvalidRequest("The request body has an object with two members of one name.")
    return members


class _Walk:
    """Gathers the texts of a body of any form."""

    def __init__(self, texts: list[PromptText]) -> None:
        self.texts = texts

    def message(self, message: dict[str, Any], index: int, *, joins: bool) -> None:
        """Add the texts of one message; `joins`: its parts are joined to one text."""
        role = message["role"]
        content = message.get("content")
        if joins and isinstance(content, list) and len(content) > 1:
            parts = [part.get("text") for part in content if part.get("type") == "text"]
            if all(isinstance(part, str) for part in parts) and len(parts) == len(content):
                self._add(PromptText(role, *_content_place(index), "".join(parts)))
                message = {name: value for name, value in message.items() if name != "content"}
        path: TextPath = ("messages", index)
        self.within(message, role, f"messages[{index}]", path, _UNSEEN_WITHIN["messages"], _UNSEEN_WITHIN)

    def within(
        self,
        value: Any,
        role: str,
        param: str,
        path: TextPath,
        unseen: frozenset[str],
        deeper: Mapping[str, frozenset[str]],
    ) -> None:
        """Add every string within the value, and names that a client chose. `deeper` has `unseen` of nested members."""
        if isinstance(value, _Number):
            # Numbers at the top are settings.
            if len(value) >= _LONG_NUMBER and len(path) > 1:
                self._add(PromptText(role, param, path, str(value)))
        elif isinstance(value, str):
            self._add(PromptText(role, param, path, value))
        elif len(path) > MOST_STEPS:
            raise InvalidRequest(f"The request body is nested deeper than {MOST_STEPS} levels.")
        elif isinstance(value, list):
            for at, item in enumerate(value):
                self.within(item, role, _longer(param, f"[{at}]"), (*path, at), unseen, deeper)
        elif isinstance(value, dict):
            for name, member in value.items():
                if name in unseen:
                    continue
                place = _longer(param, f".{name[:MAX_ECHO]}")
                if name not in WORDS:
                    self._add(PromptText(role, place, (*path, name, NAME), name))
                if isinstance(member, str) and (
                    (name == "type" and member in WORDS) or (name == "image_url" and deeper)
                ):
                    continue
                self.within(member, role, place, (*path, name), deeper.get(name, frozenset()), deeper)

    def _add(self, text: PromptText) -> None:
        if len(self.texts) >= MOST_TEXTS:
            raise InvalidRequest(f"The request body has more than {MOST_TEXTS} texts.")
        self.texts.append(text._replace(text=unescaped(text.text)) if has_inner_escapes(text.text) else text)


def _longer(param: str, step: str) -> str:
    """Extend a place's name, as long as it helps anybody."""
    return param + step if len(param) < _MOST_PARAM else param


def prompt_of_ids(ids: Sequence[int], at: str, path: TextPath, model: "ServedModel") -> PromptText:
    """Make the text that a prompt's token ids stand for, without control tokens.

    Raises InvalidRequest where the vocabulary is unknown, so that ids cannot be used to evade filters.
    """
    tokenizer = model.tokenizer
    if model.opaque:
        raise InvalidRequest(
            f"Invalid value for '{at}': prompts of this model are filtered, and must be text.", param=at
        )
    outside = next((token for token in ids if not 0 <= token < tokenizer.vocab_size), None)
    if outside is not None:
        raise InvalidRequest(f"Invalid value for '{at}': token id {outside} is not in the vocabulary.", param=at)
    data = b"".join(map(model.table.token_bytes, ids))
    return PromptText("user", at, path, unescaped(data.decode("utf-8", "replace")))
