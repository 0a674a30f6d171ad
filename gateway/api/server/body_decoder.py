"""Decode JSON bodies to msgspec structs in one pass; turn msgspec's refusals into OpenAI's errors."""

import re
from collections.abc import Container, Mapping
from typing import Any, Generic, TypeVar

import msgspec
import orjson

from protos.errors import InvalidRequest, UnsupportedParameter

_AT = re.compile(r" - at (?:`key` in )?`\$(?P<path>.*)`$")
_AT_KEY = re.compile(r" - at `key` in `\$\.(?P<name>\w+)`$")
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<name>.*?)`$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(?P<name>.*)`$")
#: msgspec writes `[...]` where a path goes through a mapping's key.
_ANY_KEY = re.compile(r"\[\.\.\.\]")
MAX_ECHO = 64
MAX_KEYS = 8
MAX_REASON = 256

T = TypeVar("T")


class BodyDecoder(Generic[T]):
    """Decodes JSON into a msgspec Struct that forbids unknown fields.

    `taken` holds the values that mean the same as leaving a parameter out: of parameters that cannot be honoured here,
    which are no fields of the struct, and of fields whose type refuses the value. The usual request has neither, and
    pays nothing for the check.
    """

    def __init__(self, kind: type[T], taken: Mapping[str, Container[Any]]) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self._kind = kind
        self._taken = taken
        self._fields = frozenset(getattr(kind, "__struct_fields__", ()))

    def decode(self, body: bytes) -> T:
        """Decode a body. Raises InvalidRequest or UnsupportedParameter, with `param` where one is at fault."""
        try:
            return self._decoder.decode(body)
        except msgspec.ValidationError:
            return self._decode_leniently(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _malformed(error) from None

    def decode_all(self, body: bytes) -> tuple[T, dict[str, Any]]:
        """Decode a body; return unsupported parameters that ask for something beside it."""
        try:
            fields = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise _malformed(error) from None
        extras: dict[str, Any] = {}
        if isinstance(fields, dict):
            for name in [name for name in fields if name in self._taken]:
                value = fields[name]
                if value is None or value in self._taken[name]:
                    del fields[name]
                elif name not in self._fields:
                    extras[name] = fields.pop(name)
        try:
            # `str_keys`: in JSON the keys of `logit_bias` are strings.
            return msgspec.convert(fields, self._kind, str_keys=True), extras
        except msgspec.ValidationError as error:
            raise _with_keys(_invalid(error), error, fields) from None

    def _decode_leniently(self, body: bytes) -> T:
        """Drop the top-level members that ask for nothing, and retry. Raises InvalidRequest or UnsupportedParameter."""
        found, extras = self.decode_all(body)
        if extras:
            raise unsupported(next(iter(extras)))
        return found


def read_part(value: object, kind: type[T], where: str) -> T:
    """Convert the decoded part of a body at the path `where`. Raises InvalidRequest."""
    try:
        return msgspec.convert(value, kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise _invalid(error, where) from None


def unsupported(name: str) -> UnsupportedParameter:
    """Make the error for a parameter that nothing here honours."""
    return UnsupportedParameter(f"Unsupported parameter: '{name}' is not supported here.", param=name)


def _malformed(error: Exception) -> InvalidRequest:
    if isinstance(error, RecursionError):
        return InvalidRequest("The request body is nested too deeply.")
    if isinstance(error, UnicodeDecodeError):
        return InvalidRequest("The request body is not valid UTF-8.")
    return InvalidRequest(f"The request body is not valid JSON: {error}")


def _invalid(error: msgspec.ValidationError, where: str = "") -> InvalidRequest:
    text = str(error)
    path = where
    if at := _AT.search(text):
        path = (where + _ANY_KEY.sub("", at["path"])).lstrip(".")
        text = text[: at.start()]
    if unknown := _UNKNOWN.match(text):
        name = unknown["name"]
        shown = name if len(name) <= MAX_ECHO else name[:MAX_ECHO] + "..."
        param = _join(path, shown)
        return InvalidRequest(f"Unrecognized request argument supplied: {param}", param=param)
    if missing := _MISSING.match(text):
        param = _join(path, missing["name"])
        return InvalidRequest(f"Missing required parameter: '{param}'.", param=param)
    if not path:
        return InvalidRequest(f"Invalid request body: {text}.")
    # msgspec quotes a wrong enum value whole.
    text = text if len(text) <= MAX_REASON else text[:MAX_REASON] + "..."
    return InvalidRequest(f"Invalid value for '{path}': {text[:1].lower()}{text[1:]}.", param=path)


def _with_keys(refusal: InvalidRequest, error: msgspec.ValidationError, fields: Any) -> InvalidRequest:
    """Name the keys that are no numbers, where one of an object of token ids is at fault."""
    at = _AT_KEY.search(str(error))
    found = fields.get(at["name"]) if at is not None else None
    if isinstance(found, dict):
        wrong = [key[:MAX_ECHO] for key in found if not key.isascii() or not key.isdecimal()]
        if wrong:
            shown = ", ".join(f"'{key}'" for key in wrong[:MAX_KEYS]) + (", ..." if len(wrong) > MAX_KEYS else "")
            are = "is no token id" if len(wrong) == 1 else "are no token ids"
            refusal.message = f"Invalid value for '{refusal.param}': {shown} {are}."
    return refusal


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
