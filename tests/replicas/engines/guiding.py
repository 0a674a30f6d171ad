"""Guided answers put together and read, and a schema for them."""

import json
from typing import Any

from protos.types import Guide, GuideKind
from replicas.engines.guided.composition import Composed, compose
from replicas.engines.guided.grammars import plans_of
from replicas.engines.guided.palette import Palette
from tests.harness import readable_vocabulary

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        "home": {"$ref": "#/$defs/place"},
        "kind": {"enum": ["cat", "dog", None, 7]},
        "note": {"type": ["string", "null"]},
    },
    "required": ["name", "age", "tags", "home"],
    "$defs": {"place": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}},
}


def answer(palette: Palette, guide: Guide, key: int = 0, most: int = 2000, **more: Any) -> Composed:
    return compose(plans_of(guide, palette.tokenizer), palette, key.to_bytes(4, "little"), most=most, **more)


def text_of(tokens: list[int]) -> str:
    return b"".join(map(readable_vocabulary().token_bytes, tokens)).decode()


def schema_guide(schema: Any) -> Guide:
    return Guide(GuideKind.JSON_SCHEMA, json.dumps(schema))
