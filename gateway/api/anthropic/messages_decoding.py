"""Decode bodies; report errors by their place, as Anthropic does: `messages.0.content.1.text`."""

import re
from typing import Any, Final, TypeVar

import msgspec

from gateway.api.anthropic.messages_body import CustomTool, MessagesBody, PromptBody
from protos.errors import InvalidRequest, UnsupportedParameter

_AT: Final = re.compile(r" - at (?:`key` in )?`\$(?P<path>.*)`$")
_UNKNOWN: Final = re.compile(r"^Object contains unknown field `(?P<name>.*?)`$", re.DOTALL)
_MISSING: Final = re.compile(r"^Object missing required field `(?P<name>.*)`$")
_VALUE: Final = re.compile(r"^Invalid value (?P<value>'.*')$", re.DOTALL)
_INDEX: Final = re.compile(r"\[(\d+)\]")
MAX_ECHO: Final = 64
_MAX_REASON: Final = 256

#: Parameters of the API and its previews that nothing here honours, with the values that ask for nothing.
_UNSUPPORTED: Final[dict[str, tuple[Any, ...]]] = {
    "billing_policy": (),
    "compaction": (),
    "container": (),
    "diagnostics": ({},),
    "fallback_credit_token": (),
    "fallbacks": ([],),
    "inference_geo": (),
    "mcp_servers": ([],),
    "thread": (),
    "user_profile_id": (),
    "workspace_id": (),
}
#: On this error Anthropic's clients go on without a thread.
_NO_THREADS: Final = "thread_unsupported_request"

B = TypeVar("B", bound=PromptBody)
_decoders: Final = {kind: msgspec.json.Decoder(kind) for kind in (PromptBody, MessagesBody)}


def decode_body(kind: type[B], body: bytes) -> B:
    """Decode a body. Raises InvalidRequest or UnsupportedParameter; `param` is the place at fault."""
    try:
        try:
            decoded: Any = _decoders[kind].decode(body)
        except msgspec.ValidationError as error:
            if not _UNKNOWN.match(str(error)):
                raise _invalid(error, "") from None
            # msgspec stops at the unknown field; later errors are still to be found.
            decoded = _decode_leniently(kind, body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"The request body is not valid JSON: {error}") from None
    except RecursionError:
        raise InvalidRequest("The request body is nested too deeply.") from None
    found: B = decoded
    return found


def _decode_leniently(kind: type[B], body: bytes) -> B:
    """Refuse unknown top-level fields by name, unless they ask for nothing."""
    fields: dict[str, Any] = msgspec.json.decode(body)
    for name, harmless in _UNSUPPORTED.items():
        value = fields.pop(name, None)
        if value is not None and value not in harmless:
            refusal = UnsupportedParameter(f"{name}: This parameter is not supported here.", param=name)
            refusal.code = _NO_THREADS if name == "thread" else refusal.code
            raise refusal
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise _invalid(error, "") from None


def decode_tool(fields: dict[str, Any], place: str) -> CustomTool:
    """Decode a tool. Raises InvalidRequest, and UnsupportedParameter for tools defined or run by Anthropic."""
    kind = fields.get("type")
    if isinstance(kind, str) and kind != "custom":
        raise UnsupportedParameter(
            f"{place}.type: '{echo(kind)}' is not supported here; only custom tools are.", param=f"{place}.type"
        )
    try:
        return msgspec.convert(fields, CustomTool)
    except msgspec.ValidationError as error:
        raise _invalid(error, place) from None


def echo(text: str) -> str:
    """Shorten a client's text for an error message."""
    return text if len(text) <= MAX_ECHO else text[:MAX_ECHO] + "..."


def invalid(place: str, reason: str) -> InvalidRequest:
    """Make the error for a place."""
    return InvalidRequest(f"{place}: {reason}", param=place)


def _invalid(error: msgspec.ValidationError, place: str) -> InvalidRequest:
    text = str(error)
    if at := _AT.search(text):
        text = text[: at.start()]
        within = _INDEX.sub(r".\1", at["path"].replace("[...]", "")).lstrip(".")
        place = f"{place}.{within}" if place and within else place or within
    if unknown := _UNKNOWN.match(text):
        return invalid(_joined(place, echo(unknown["name"])), "Extra inputs are not permitted.")
    if missing := _MISSING.match(text):
        return invalid(_joined(place, missing["name"]), "Field required.")
    if (value := _VALUE.match(text)) and place.endswith("type"):
        return invalid(place, f"{echo(value['value'])} is not supported here.")
    if not place:
        return InvalidRequest(f"The request body is not the API's: {text}.")
    return invalid(place, f"{text if len(text) <= _MAX_REASON else text[:_MAX_REASON] + '...'}.")


def _joined(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
