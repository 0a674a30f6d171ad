"""The shapes of OpenAI's and Anthropic's answers, as their own clients have them.

`published_shapes.json` is written by tools/published_shapes.py. Answers with these shapes are written piece by piece,
and by no type; tests hold them against the shapes.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson

_FILE: Final = Path(__file__).with_name("published_shapes.json")


@dataclass(frozen=True, slots=True)
class Published:
    """A schema, in which published shapes are named."""

    schema: dict[str, Any]


def published(name: str) -> Published:
    """The shape of that name. Raises KeyError."""
    return Published(_reference(name))


def published_list(name: str, *, paged: bool = True) -> Published:
    """A list of such objects; of a page, its ends are told too. Raises KeyError."""
    properties: dict[str, Any] = {"object": {"const": "list"}, "data": {"type": "array", "items": _reference(name)}}
    if paged:
        end = {"type": ["string", "null"]}
        properties |= {"first_id": end, "last_id": end, "has_more": {"type": "boolean"}}
    return Published({"type": "object", "properties": properties, "required": list(properties)})


@cache
def published_shapes() -> dict[str, Any]:
    """Every shape by its name."""
    shapes: dict[str, Any] = orjson.loads(_FILE.read_bytes())
    return shapes


def _reference(name: str) -> dict[str, Any]:
    if name not in published_shapes():
        raise KeyError(name)
    return {"$ref": f"#/components/schemas/{name}"}
