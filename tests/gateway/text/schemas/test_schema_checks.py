"""JSON schemas of clients: which are taken, which are refused and what the refusal names."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.schemas.absent_members import without_nulls
from gateway.text.schemas.schema_checks import MAX_DEPTH, MAX_PROPERTIES, check_schema, check_together
from protos.errors import InvalidRequest

NODE = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
    "required": ["value", "next"],
    "additionalProperties": False,
}
#: As pydantic writes them for openai-python.
STRICT = {
    "$defs": {"node": NODE, "kind": {"enum": ["a", "b"], "title": "Kind", "type": "string"}},
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "A name.", "pattern": "^[a-z]+$"},
        "kind": {"$ref": "#/$defs/kind"},
        "nodes": {"type": "array", "items": {"$ref": "#/$defs/node"}, "minItems": 1},
        "maybe": {"type": ["number", "null"]},
        "one": {"const": 5},
    },
    "required": ["name", "kind", "nodes", "maybe", "one"],
    "additionalProperties": False,
    "title": "Thing",
}
FREE: list[dict[str, Any]] = [
    {},
    {"type": "object"},
    {"type": "object", "properties": {"a": True, "b": False}, "additionalProperties": {"type": "string"}},
    {"properties": {"a": {"items": {"$ref": "#"}}}},
    {"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {"type": "string"}}},
    {"$ref": "#here", "$defs": {"x": {"$anchor": "here", "type": "string"}}},
    {"$ref": "#/elsewhere/1", "elsewhere": [{}, {"type": "string"}]},
    {"items": [{"type": "string"}, {"type": "number"}], "additionalItems": False},
    {"allOf": [{"type": "string"}, {"not": {"const": "x"}}], "x-unknown": {"type": 5}},
    {"type": "string", "minLength": 0, "maxLength": 5.0, "default": {"type": "nonsense"}, "examples": [{"$ref": 5}]},
    {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "dependentRequired": {"a": ["b"]}},
    {"patternProperties": {"^x-": {}}, "propertyNames": {"maxLength": 9}, "unevaluatedProperties": False},
    {"type": "object", "properties": {"next": {"$ref": "#"}}},
    {"enum": [None, 1, {"a": []}, "x"]},
]


@pytest.mark.parametrize("schema", [STRICT, NODE | {"$defs": {"node": NODE}}, *FREE])
def test_what_is_a_schema_is_taken_as_it_is(schema: dict[str, Any]) -> None:
    before = json.dumps(schema)
    assert check_schema(schema, "p", strict=False) is schema
    assert json.dumps(schema) == before


@pytest.mark.parametrize(
    "schema",
    [
        STRICT,
        NODE | {"$defs": {"node": NODE}},
        {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
        {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
    ],
)
def test_what_openai_takes_as_strict_is_taken(schema: dict[str, Any]) -> None:
    assert check_schema(schema, "p", strict=True) is schema


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ([], "p"),
        (None, "p"),
        (True, "p"),
        ({"type": "strin"}, "p.type"),
        ({"type": []}, "p.type"),
        ({"type": ["string", "string"]}, "p.type"),
        ({"type": {}}, "p.type"),
        ({"properties": []}, "p.properties"),
        ({"properties": {"a": 5}}, "p.properties"),
        ({"properties": {"a": {"type": 5}}}, "p.properties.a.type"),
        ({"items": {"enum": []}}, "p.items.enum"),
        ({"items": 5}, "p.items"),
        ({"prefixItems": [{}, {"anyOf": []}]}, "p.prefixItems[1].anyOf"),
        ({"anyOf": [{}, 5]}, "p.anyOf"),
        ({"required": "a"}, "p.required"),
        ({"required": [5]}, "p.required"),
        ({"minLength": -1}, "p.minLength"),
        ({"maxItems": 1.5}, "p.maxItems"),
        ({"minItems": True}, "p.minItems"),
        ({"minItems": float("inf")}, "p.minItems"),
        ({"minimum": "5"}, "p.minimum"),
        ({"multipleOf": 0}, "p.multipleOf"),
        ({"uniqueItems": 1}, "p.uniqueItems"),
        ({"pattern": "("}, "p.pattern"),
        ({"pattern": 5}, "p.pattern"),
        ({"patternProperties": {"[": {}}}, "p.patternProperties"),
        ({"dependentRequired": {"a": "b"}}, "p.dependentRequired"),
        ({"description": 5}, "p.description"),
        ({"$ref": 5}, "p.$ref"),
        ({"$ref": "https://example.com/schema.json"}, "p.$ref"),
        ({"$ref": "other.json#/a"}, "p.$ref"),
        ({"$ref": "file:///etc/passwd"}, "p.$ref"),
        ({"items": {"$ref": "#/$defs/missing"}}, "p.items.$ref"),
        ({"$ref": "#missing"}, "p.$ref"),
        ({"$ref": "#/enum", "enum": [1]}, "p.$ref"),
        ({"$ref": "#/anyOf/9", "anyOf": [{}]}, "p.$ref"),
        ({"$ref": "#/elsewhere", "elsewhere": {"type": 5}}, "p.$ref.type"),
        ({"$dynamicRef": "#x"}, "p.$dynamicRef"),
        ({"$ref": "#"}, "p"),
        ({"allOf": [{"$ref": "#"}]}, "p"),
        ({"anyOf": [{"type": "null"}, {"$ref": "#"}]}, "p"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "p"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "p"),
        ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, "p"),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_what_is_none_is_refused_with_its_place(schema: Any, place: str, strict: bool) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        check_schema(schema, "p", strict=strict)
    if not strict:
        assert refusal.value.param == place
        assert f"'{place}'" in refusal.value.message


def object_of(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = object_of()
    for _ in range(levels - 1):
        schema = object_of(a=schema)
    return schema


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "string"}, "p"),
        ({"anyOf": [object_of()]}, "p"),
        ({"type": "object", "properties": {}}, "p"),
        (object_of() | {"additionalProperties": {"type": "string"}}, "p"),
        (object_of(a={"type": "string"}) | {"required": []}, "p"),
        (object_of() | {"required": ["a"]}, "p"),
        (object_of(a={}), "p.properties.a"),
        (object_of(a={"type": "array"}), "p.properties.a"),
        (object_of(a={"type": "object"}), "p.properties.a"),
        (object_of(a={"allOf": [{"type": "string"}]}), "p.properties.a.allOf"),
        (object_of(a={"oneOf": [{"type": "string"}]}), "p.properties.a.oneOf"),
        (object_of(a={"type": "string", "not": {"const": "x"}}), "p.properties.a.not"),
        (object_of(a={"enum": [f"v{i}" for i in range(1001)]}), "p"),
        (object_of(a={"enum": [f"v{i}" * 20 for i in range(251)]}), "p.properties.a.enum"),
        (nested(11), "p" + ".properties.a" * 10),
    ],
)
def test_strict_is_openais_subset(schema: dict[str, Any], place: str) -> None:
    assert check_schema(schema, "p", strict=False)
    with pytest.raises(InvalidRequest) as refusal:
        check_schema(schema, "p", strict=True)
    assert refusal.value.param == place


def test_ten_levels_are_enough() -> None:
    assert check_schema(nested(10), "p", strict=True)


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        deep(MAX_DEPTH + 1),
        {"default": json.loads("[" * 500 + "]" * 500)},
        {"properties": {f"p{i}": {} for i in range(MAX_PROPERTIES + 1)}},
        {"properties": {f"{i}" * 100: {} for i in range(1000, 2000)}},
        {"enum": list(range(10_001))},
        {"enum": ["x" * 120_001]},
        {"anyOf": [{"pattern": "x" * 30_000} for _ in range(5)]},
        {"patternProperties": {"x" * 20_000: {}, "y" * 20_000: {}}},
        {"examples": [[0] * 1000] * 200},
    ],
)
def test_what_is_too_large_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        check_schema(schema, "tools[0].function.parameters", strict=False)
    assert str(refusal.value.param).startswith("tools[0].function.parameters")


@pytest.mark.parametrize(
    "schema", [{"anyOf": [{}] * 2000}, {"pattern": "x" * 2000}, {"patternProperties": {"x" * 2000: {}}}]
)
def test_many_schemas_together_have_the_bounds_of_one(schema: dict[str, Any]) -> None:
    check_together([schema] * 2 + [None, {"patternProperties": []}], "tools")
    with pytest.raises(InvalidRequest) as refusal:
        check_together([schema] * 100, "tools")
    assert refusal.value.param == "tools"


def test_each_part_is_looked_at_once_however_it_is_referred_to() -> None:
    doubling = {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"$ref": f"#/$defs/d{i + 1}"}]} for i in range(1000)}
    schema = {"$ref": "#/$defs/d0", "$defs": doubling | {"d1000": {"type": "string"}}}
    assert check_schema(schema, "p", strict=False)


def test_a_long_place_is_cut_short() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        check_schema({"properties": {"x" * 10_000: {"properties": {"y" * 10_000: {"type": 5}}}}}, "p", strict=False)
    assert refusal.value.param is not None
    assert len(refusal.value.param) < 300


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "properties",
                    "items",
                    "anyOf",
                    "allOf",
                    "$ref",
                    "$defs",
                    "enum",
                    "required",
                    "pattern",
                    "not",
                    "minLength",
                    "additionalProperties",
                    "a",
                    "$anchor",
                    "minItems",
                ]
            ),
            inner
            | st.sampled_from(["#", "#/items", "#/$defs/a", "#a", "object", "array", "("])
            | st.just({"$ref": "#"}),
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(_JSON, st.booleans())
def test_nothing_else_is_raised(value: Any, strict: bool) -> None:
    try:
        checked = check_schema(value, "p", strict=strict)
        assert checked is value or checked == without_nulls(value)
    except InvalidRequest as refusal:
        assert refusal.param is not None
        assert refusal.param.startswith("p")
