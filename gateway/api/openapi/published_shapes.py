"""The shapes of OpenAI's and Anthropic's answers, from their official clients.

`published_shapes.json` is written by tools/published_shapes.py. Answers with these shapes are encoded piece by piece,
without a type; tests compare them with the shapes.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson

_FILE: Final = Path(__file__).with_name("published_shapes.json")


@dataclass(frozen=True, slots=True)
class Published:
    """A schema that refers to published shapes by name."""

    schema: dict[str, Any]


def published(name: str) -> Published:
    """Return the shape of that name. Raises KeyError."""
    return Published(_reference(name))


def published_list(name: str, *, paged: bool = True) -> Published:
    """Make the shape of a list of such objects, with `first_id` and `last_id` if paged. Raises KeyError."""
    properties: dict[str, Any] = {"object": {"const": "list"}, "data": {"type": "array", "items": _reference(name)}}
    if paged:
        end = {"type": ["string", "null"]}
        properties |= {"first_id": end, "last_id": end, "has_more": {"type": "boolean"}}
    return Published({"type": "object", "properties": properties, "required": list(properties)})


@cache
def published_shapes() -> dict[str, Any]:
    """Return every shape by its name."""
    shapes: dict[str, Any] = orjson.loads(_FILE.read_bytes())
    return shapes


def _reference(name: str) -> dict[str, Any]:
    if name not in published_shapes():
        raise KeyError(name)
    return {"$ref": f"#/components/schemas/{name}"}
