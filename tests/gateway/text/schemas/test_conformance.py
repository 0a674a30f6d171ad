"""The answers of a validator of the standard are the measure."""

import time
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.text.schemas.conformance import conforms

names = st.sampled_from(["a", "b", "ab"])
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, -2.5])
    | st.sampled_from(["", "a", "ab"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
types = st.sampled_from(["string", "number", "integer", "boolean", "object", "array", "null"])
small = st.integers(0, 2)


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=2)
    named = st.dictionaries(names, inner, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": types | st.lists(types, min_size=1, max_size=3, unique=True),
            "enum": st.lists(values, min_size=1, max_size=3),
            "const": values,
            "required": st.lists(names, max_size=2, unique=True),
            "properties": named,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$", "."]), inner, max_size=2),
            "additionalProperties": inner,
            "propertyNames": inner,
            "dependentRequired": st.dictionaries(names, st.lists(names, max_size=2, unique=True), max_size=2),
            "dependentSchemas": named,
            "items": inner,
            "prefixItems": several,
            "contains": inner,
            "minContains": small,
            "maxContains": small,
            "uniqueItems": st.booleans(),
            "anyOf": several,
            "oneOf": several,
            "allOf": several,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "pattern": st.sampled_from(["^a", "b$", "^$"]),
            "minimum": st.integers(-2, 2),
            "exclusiveMaximum": st.integers(-2, 2),
            "multipleOf": st.sampled_from([1, 2, 0.5]),
            **dict.fromkeys(
                ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), small
            ),
            "$ref": st.sampled_from(["#/$defs/one", "#/$defs/two"]),
        },
    )


schemas = st.recursive(st.booleans() | keywords(st.booleans()), keywords, max_leaves=6)


@settings(max_examples=150, deadline=None)
@given(schemas, schemas, values)
def test_it_says_what_the_standard_says(schema: Any, one: Any, value: Any) -> None:
    # Definitions that go round in circles are refused with the request.
    defs = {
        "one": {"type": "array", "items": {"$ref": "#"}},
        "two": {"type": "object", "properties": {"a": one}},
    }
    root = {"$defs": defs, **(schema if isinstance(schema, dict) else {"allOf": [schema]})}
    validator = jsonschema_rs.Draft202012Validator(root, offline=True)
    assert conforms(root, value) is validator.is_valid(value)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "objekt"},
        {"type": 3},
        {"enum": 3},
        {"$ref": "http://example.com/schema"},
        {"$ref": "#/$defs/none"},
        {"$ref": "#"},
        {"unevaluatedProperties": False},
        {"pattern": "(?=a)"},
        {"pattern": "("},
        3,
    ],
)
def test_of_what_it_cannot_follow_it_says_nothing(schema: Any) -> None:
    assert conforms(schema, {"a": 1} if "pattern" not in str(schema) else "a") is None


def test_it_takes_no_longer_than_it_may() -> None:
    doubled: dict[str, Any] = {
        f"x{number}": {"anyOf": [{"$ref": f"#/$defs/x{number + 1}"}] * 2} for number in range(60)
    }
    deep: Any = 1
    for _ in range(900):
        deep = [deep]
    cases: list[tuple[Any, Any]] = [
        ({"$defs": doubled | {"x60": {"type": "string"}}, "$ref": "#/$defs/x0"}, 3),
        ({"items": {"$ref": "#"}}, deep),
        ({"uniqueItems": True}, list(range(100_000))),
        ({"enum": [list(range(10))] * 100_000}, 3),
        ({"patternProperties": dict.fromkeys(map(str, range(1000)), True)}, dict.fromkeys(map(str, range(1000)), 1)),
    ]
    for schema, value in cases:
        began = time.process_time()
        assert conforms(schema, value) is None
        assert time.process_time() - began < 0.5
    # What takes exponential time to backtrack.
    assert conforms({"pattern": "^(a+)+$"}, "a" * 10_000 + "b") is False
