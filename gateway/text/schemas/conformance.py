"""Whether a value conforms to a client's JSON schema, in bounded time.

The schema may be anybody's, so that a validator of a library, which may take time that is exponential in the schema or
be led astray by an expression, is no choice here: each subschema that is applied counts as a step, and beyond a bound
nothing is said. Expressions run in linear time. `format` and annotations say nothing, as the standard (draft 2020-12)
has it by default.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final

from gateway.text.schemas.references import target_of
from gateway.text.schemas.schema_paths import Place
from protos.errors import InvalidRequest

#: Subschemas that are applied to one value and its parts, and their nesting.
MOST_STEPS: Final = 20_000
MOST_DEPTH: Final = 150
#: Keywords that assert something which is not looked at here.
_UNKNOWN: Final = frozenset(
    {"unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef", "$anchor", "additionalItems"}
)
_NUMBERS: Final = (int, float)


class _Undecided(Exception):
    """It takes too long, or the schema has what is not understood."""


def conforms(schema: Any, value: Any) -> bool | None:
    """Say whether a JSON value conforms; None: the schema is no valid one, or cannot be followed here."""
    try:
        return _Check(schema).holds(schema, value, 0)
    except (_Undecided, InvalidRequest, TypeError, ValueError, AttributeError, KeyError, RecursionError):
        # Of a schema that is not of the standard's form nothing is known.
        return None


class _Check:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = MOST_STEPS

    def holds(self, schema: Any, value: Any, depth: int) -> bool:
        if isinstance(schema, bool):
            return schema
        self._spend(1)
        if depth > MOST_DEPTH or not isinstance(schema, dict) or not _UNKNOWN.isdisjoint(schema):
            raise _Undecided
        if "$ref" in schema:
            target = target_of(self._root, schema["$ref"], Place("schema"))
            if target is None:
                raise _Undecided
            if not self.holds(target, value, depth + 1):
                return False
        if "type" in schema and not _is_of_type(schema["type"], value):
            return False
        if "const" in schema and not _equal(schema["const"], value):
            return False
        if "enum" in schema:
            self._spend(len(schema["enum"]))
            if not any(_equal(one, value) for one in schema["enum"]):
                return False
        if not self._combined(schema, value, depth + 1):
            return False
        if isinstance(value, str):
            return _is_text(schema, value)
        if isinstance(value, _NUMBERS) and not isinstance(value, bool):
            return _is_within(schema, value)
        if isinstance(value, list):
            return self._list(schema, value, depth + 1)
        return not isinstance(value, dict) or self._object(schema, value, depth + 1)

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise _Undecided

    def _combined(self, schema: Mapping[str, Any], value: Any, depth: int) -> bool:
        def fits(one: Any) -> bool:
            return self.holds(one, value, depth)

        if not all(map(fits, schema.get("allOf", ()))):
            return False
        if "anyOf" in schema and not any(map(fits, schema["anyOf"])):
            return False
        if "oneOf" in schema and sum(map(fits, schema["oneOf"])) != 1:
            return False
        if "not" in schema and fits(schema["not"]):
            return False
        if "if" in schema:
            return fits(schema.get("then", True) if fits(schema["if"]) else schema.get("else", True))
        return True

    def _list(self, schema: Mapping[str, Any], value: list[Any], depth: int) -> bool:
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return False
        if schema.get("uniqueItems") is True and not self._are_unique(value):
            return False
        rest, tuples = schema.get("items", True), schema.get("prefixItems", ())
        if isinstance(rest, list):
            # Older drafts allow tuples here.
            rest, tuples = True, rest
        if not all(self.holds(one, item, depth) for one, item in zip(tuples, value, strict=False)):
            return False
        if rest is not True and not all(self.holds(rest, item, depth) for item in value[len(tuples) :]):
            return False
        if "contains" not in schema:
            return True
        found = sum(self.holds(schema["contains"], item, depth) for item in value)
        return bool(schema.get("minContains", 1) <= found <= schema.get("maxContains", found))

    def _are_unique(self, value: list[Any]) -> bool:
        self._spend(len(value) * len(value))
        return not any(_equal(one, other) for place, one in enumerate(value) for other in value[:place])

    def _object(self, schema: Mapping[str, Any], value: dict[str, Any], depth: int) -> bool:
        if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)):
            return False
        if any(name not in value for name in schema.get("required", ())):
            return False
        properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        others, names = schema.get("additionalProperties", True), schema.get("propertyNames", True)
        self._spend(len(value) * len(patterns))
        for name, part in value.items():
            applied = [properties[name]] if name in properties else []
            applied += [one for pattern, one in patterns.items() if _found(pattern, name)]
            if not all(self.holds(one, part, depth) for one in applied or (others,)):
                return False
            if names is not True and not self.holds(names, name, depth):
                return False
        needed = schema.get("dependentRequired", {})
        if any(other not in value for name, listed in needed.items() if name in value for other in listed):
            return False
        dependent = schema.get("dependentSchemas", {})
        return all(self.holds(one, value, depth) for name, one in dependent.items() if name in value)


def _is_of_type(wanted: Any, value: Any) -> bool:
    names = wanted if isinstance(wanted, list) else [wanted]
    return any(_TYPES[name](value) for name in names)


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}


def _equal(one: Any, other: Any) -> bool:
    """Compare as JSON does: a boolean is no number."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(part, other[name]) for name, part in one.items())
    return bool(one == other)


def _is_text(schema: Mapping[str, Any], value: str) -> bool:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        return False
    return "pattern" not in schema or _found(schema["pattern"], value)


def _found(pattern: str, text: str) -> bool:
    from safety.linear_search import occurs  # only where there are expressions

    return occurs(pattern, text)


def _is_within(schema: Mapping[str, Any], value: float) -> bool:
    if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return False
    if "exclusiveMinimum" in schema and not schema["exclusiveMinimum"] < value:
        return False
    if "exclusiveMaximum" in schema and not value < schema["exclusiveMaximum"]:
        return False
    step = schema.get("multipleOf")
    return step is None or Fraction(str(value)) % Fraction(str(step)) == 0
