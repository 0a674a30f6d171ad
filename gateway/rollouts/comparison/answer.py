"""An answer apart from the API that it came by, and what its request lets one expect of it."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


class ToolCall(msgspec.Struct, frozen=True):
    """A call of an answer; `arguments` is JSON text as the model wrote it."""

    name: str
    arguments: str


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first choice of an answer. `tokens` are its output's, of all choices; 0: not told."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: Sequence[ToolCall] = ()
    finish: str = ""
    tokens: int = 0


class Expected(msgspec.Struct, frozen=True):
    """The form of answer that a request's body asks for. `greedy`: they have no randomness; `json`: their text is JSON,
    of this `schema`; `tools` are those that may be called, with the schemas of their arguments. A schema that is True
    takes anything.
    """

    greedy: bool = False
    json: bool = False
    schema: Any = True
    tools: Mapping[str, Any] = {}


def expected_of(body: Mapping[str, Any]) -> Expected:
    """Read the parameters of a chat's or completion's body that matter; what is not of the API counts as unset."""
    temperature = body.get("temperature")
    greedy = type(temperature) in (int, float) and temperature == 0
    form = body.get("response_format")
    kind = form.get("type") if isinstance(form, Mapping) else None
    schemas = [body.get(name) for name in ("guided_json", "json_schema")]
    wants_json = kind in ("json_object", "json_schema") or any(schemas)
    if kind == "json_schema" and isinstance(form, Mapping) and isinstance(form.get("json_schema"), Mapping):
        schemas.append(form["json_schema"].get("schema"))
    schema = next((found for found in map(_schema, schemas) if found is not None), True)
    return Expected(greedy or body.get("top_k") == 1, wants_json, schema, _tools(body.get("tools")))


def _schema(given: object) -> object:
    """Return a schema that is given as an object or as its text; None: it is none."""
    if isinstance(given, str):
        try:
            given = msgspec.json.decode(given)
        except (msgspec.DecodeError, RecursionError):
            return None
    return given if isinstance(given, dict) and given else None


def _tools(tools: object) -> dict[str, Any]:
    found = {}
    for tool in tools if isinstance(tools, list) else ():
        function = tool.get("function") if isinstance(tool, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        if isinstance(function, dict) and isinstance(name, str):
            found[name] = _schema(function.get("parameters")) or True
    return found
