"""Read guided decoding parameters: OpenAI's `response_format`, and those of vLLM and trtllm-serve."""

import re
from collections.abc import Callable
from typing import Any, Final

import orjson

from gateway.api.server.body_decoder import MAX_ECHO
from gateway.text.schemas.expression_checks import check_regex
from gateway.text.schemas.grammar_checks import check_grammar
from gateway.text.schemas.schema_checks import check_schema
from protos.errors import InvalidRequest, UnsupportedParameter
from protos.types import Guide, GuideKind

#: Bound on a guide, in bytes.
MAX_GUIDE_BYTES: Final = 64 * 1024
MAX_CHOICES: Final = 1024
#: Special characters of regular expressions. Not every dialect allows escapes of others.
_SPECIAL: Final = frozenset(r"\.^$*+?{}[]|()")
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_WORDS: Final[dict[type, str]] = {str: "string", bool: "boolean"}


def take_guide(extras: dict[str, Any]) -> tuple[Guide, str] | None:
    """Take the guide out of the parameters; return it with the name of its parameter.

    A `response_format` of an unknown kind stays. Raises InvalidRequest.
    """
    found: tuple[Guide, str] | None = None
    for name, read in _READERS.items():
        if name not in extras:
            continue
        guide = read(extras[name], name)
        if guide is None:
            if name == "structured_outputs":
                # Options of a decoding that nothing is asked of.
                del extras[name]
            continue
        if found is not None:
            raise InvalidRequest(f"'{found[1]}' and '{name}' exclude each other.", param=name)
        if len(guide.text.encode()) > MAX_GUIDE_BYTES:
            raise InvalidRequest(f"Invalid value for '{name}': longer than {MAX_GUIDE_BYTES} bytes.", param=name)
        del extras[name]
        found = guide, name
    return found


def _structured_outputs(value: Any, name: str) -> Guide | None:
    """Read vLLM's form (since 0.12), which holds one guide by its kind, beside options of its own decoding."""
    if not isinstance(value, dict):
        raise InvalidRequest(f"Invalid value for '{name}': expected an object.", param=name)
    asked = {key: one for key, one in value.items() if one is not None and one is not False}
    kinds = [key for key in asked if key in _STRUCTURED]
    if len(kinds) > 1:
        raise InvalidRequest(f"'{name}.{kinds[0]}' and '{name}.{kinds[1]}' exclude each other.", param=name)
    unknown = next((key for key in asked if key not in _STRUCTURED and not key.startswith("disable_")), None)
    if unknown is not None:
        param = f"{name}.{unknown[:MAX_ECHO]}"
        raise UnsupportedParameter(f"Unsupported parameter: '{param}' is not supported here.", param=param)
    return _STRUCTURED[kinds[0]](asked[kinds[0]], f"{name}.{kinds[0]}") if kinds else None


def _response_format(value: Any, name: str) -> Guide | None:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise InvalidRequest(f"Invalid value for '{name}': expected an object with a type.", param=name)
    if value["type"] == "json_object":
        return Guide(GuideKind.JSON_OBJECT)
    if value["type"] != "json_schema":
        return None
    described = value.get("json_schema")
    if not isinstance(described, dict):
        raise InvalidRequest(f"Missing required parameter: '{name}.json_schema'.", param=f"{name}.json_schema")
    _check_described(described, f"{name}.json_schema")
    if described.get("schema") is None:
        raise InvalidRequest(
            f"Missing required parameter: '{name}.json_schema.schema'.", param=f"{name}.json_schema.schema"
        )
    return _schema(described["schema"], f"{name}.json_schema.schema", strict=described.get("strict") is True)


def _check_described(described: dict[str, Any], at: str) -> None:
    """Check the fields beside a schema."""
    unknown = next((key for key in described if key not in ("name", "description", "schema", "strict")), None)
    if unknown is not None:
        param = f"{at}.{unknown[:MAX_ECHO]}"
        raise InvalidRequest(f"Unrecognized request argument supplied: {param}", param=param)
    name = described.get("name")
    if name is None:
        raise InvalidRequest(f"Missing required parameter: '{at}.name'.", param=f"{at}.name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"Invalid value for '{at}.name': expected 1 to 64 letters, digits, '_' and '-'.", param=f"{at}.name"
        )
    for key, kind in (("description", str), ("strict", bool)):
        if not isinstance(described.get(key), kind | None):
            raise InvalidRequest(f"Invalid value for '{at}.{key}': expected a {_WORDS[kind]}.", param=f"{at}.{key}")


def _schema(value: Any, name: str, *, strict: bool = False) -> Guide:
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            raise InvalidRequest(f"Invalid value for '{name}': expected a JSON schema.", param=name) from None
    if not isinstance(value, dict):
        raise InvalidRequest(f"Invalid value for '{name}': expected a JSON schema, an object.", param=name)
    value = check_schema(value, name, strict=strict)
    return Guide(GuideKind.JSON_SCHEMA, orjson.dumps(value).decode())


def _regex(value: Any, name: str) -> Guide:
    text = _text(value, name)
    check_regex(text, name)
    return Guide(GuideKind.REGEX, text)


def _grammar(value: Any, name: str) -> Guide:
    text = _text(value, name)
    check_grammar(text, name)
    return Guide(GuideKind.GRAMMAR, text)


def _choice(value: Any, name: str) -> Guide:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_CHOICES:
        raise InvalidRequest(f"Invalid value for '{name}': expected a list of 1 to {MAX_CHOICES} strings.", param=name)
    return Guide(GuideKind.REGEX, "|".join(_escaped(_text(one, f"{name}[{i}]")) for i, one in enumerate(value)))


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidRequest(f"Invalid value for '{name}': expected a string that is not empty.", param=name)
    return value


def _escaped(text: str) -> str:
    return "".join(f"\\{char}" if char in _SPECIAL else char for char in text)


_STRUCTURED: Final[dict[str, Callable[[Any, str], Guide]]] = {
    "json": _schema,
    "json_object": lambda value, name: Guide(GuideKind.JSON_OBJECT),
    "regex": _regex,
    "choice": _choice,
    "grammar": _grammar,
}
_READERS: Final[dict[str, Callable[[Any, str], Guide | None]]] = {
    "response_format": _response_format,
    "guided_json": _schema,
    "guided_regex": _regex,
    "guided_choice": _choice,
    "guided_grammar": _grammar,
    "structured_outputs": _structured_outputs,
    # SGLang's and llama.cpp's.
    "regex": _regex,
    "ebnf": _grammar,
    "grammar": _grammar,
    "json_schema": _schema,
}
#: Parameters of both APIs, with the values that ask for nothing.
GUIDES: Final[dict[str, tuple[Any, ...]]] = dict.fromkeys(_READERS, ()) | {
    "grammar": ("",),
    "json_schema": ("", {}),
    "response_format": ({"type": "text"},),
    "structured_outputs": ({},),
}
