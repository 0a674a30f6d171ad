"""Converts guides to grammars of llguidance, with hints for natural answers: property names and tags."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, grammar_from

from protos.types import Guide, GuideKind
from replicas.engines.guided.errors import GuideError
from replicas.engines.guided.guided_tags import Format, TagGrammar, alternatives

#: Limits of the library on a guide, which is untrusted input. A lexer's state takes one or two kilobytes.
LIMITS: Final = LLParserLimits(
    max_items_in_row=25_000, max_lexer_states=20_000, max_grammar_size=200_000, verbose_errors=False
)
#: Compact JSON, as models write it, so that blanks cannot go on forever.
_COMPACT: Final[Any] = {
    "item_separator": ",",
    "key_separator": ":",
    "whitespace_flexible": False,
    "whitespace_pattern": None,
    "coerce_one_of": True,
    "lenient": False,
}
#: JSON with blanks wherever they are allowed, as some write it.
_SPACED: Final[Any] = _COMPACT | {"whitespace_flexible": True}
_MAX_NAMES: Final = 256
#: Keywords whose subschemas apply together: closing one of them would refuse the other's property names.
_JOINING: Final = frozenset({"allOf", "anyOf", "oneOf", "$ref", "if", "then", "else", "patternProperties"})


@dataclass(frozen=True)
class Plan:
    """A guide's grammar. `names` are property names, `tags` the texts that begin a tag in free text, and `ends` those
    that end such a text. `marked`: control tokens are part of it.
    """

    matcher: LLMatcher
    names: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    marked: bool = False


def plans_of(guide: Guide, tokenizer: LLTokenizer, *, compact: bool = True) -> list[Plan]:
    """Return plans such that an answer matches the guide if it matches one of them. Raises GuideError.

    `compact` plans are for composing: JSON without blanks and, where possible, without properties not in the schema.
    """
    if guide.kind is GuideKind.STRUCTURAL_TAG:
        return [_tag_plan(node, tokenizer, compact=compact) for node in alternatives(_parsed(guide.text))]
    return [_plan_of(guide.kind, guide.text, tokenizer, compact=compact)]


def _plan_of(kind: GuideKind, text: str, tokenizer: LLTokenizer, *, compact: bool) -> Plan:
    if kind is GuideKind.JSON_OBJECT:
        return Plan(_matcher(tokenizer, _json_grammar({"type": "object"}, compact=compact)))
    if kind is GuideKind.JSON_SCHEMA:
        return _schema_plan(_parsed(text), tokenizer, compact=compact)
    if kind is GuideKind.REGEX:
        return Plan(_matcher(tokenizer, LLMatcher.grammar_from_regex(text)))
    try:
        return Plan(_matcher(tokenizer, grammar_from("grammar", text)))
    except ValueError as error:
        raise GuideError(str(error)) from None


def _schema_plan(schema: Any, tokenizer: LLTokenizer, *, compact: bool) -> Plan:
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise GuideError("the schema is no object")
    names = tuple(_names(schema))
    if compact:
        # A closed schema may contradict those that it is combined with.
        with suppress(GuideError):
            return Plan(_matcher(tokenizer, _json_grammar(_closed(schema))), names)
    return Plan(_matcher(tokenizer, _json_grammar(schema, compact=compact)), names)


def _tag_plan(node: Format, tokenizer: LLTokenizer, *, compact: bool) -> Plan:
    if compact:
        # As for a plain schema.
        with suppress(GuideError):
            return _plan_with(node, tokenizer, lambda schema: _closed(schema) | {"x-guidance": _COMPACT})
    return _plan_with(node, tokenizer, lambda schema: schema | {"x-guidance": _COMPACT if compact else _SPACED})


def _plan_with(node: Format, tokenizer: LLTokenizer, styled: Callable[[Format], Format]) -> Plan:
    grammar = TagGrammar(styled)
    matcher = _matcher(tokenizer, LLMatcher.grammar_from_lark(grammar.lark(node)))
    return Plan(matcher, tuple(_names(grammar.schemas)), tuple(grammar.begins), tuple(grammar.ends), marked=True)


def _matcher(tokenizer: LLTokenizer, grammar: str) -> LLMatcher:
    matcher = LLMatcher(tokenizer, grammar, log_level=0, limits=LIMITS)
    if matcher.is_error():
        raise GuideError(matcher.get_error())
    return matcher


def _json_grammar(schema: Mapping[str, Any], *, compact: bool = True) -> str:
    try:
        return LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=_COMPACT if compact else _SPACED)
    except (ValueError, RecursionError) as error:
        raise GuideError(str(error)) from None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise GuideError("the guide is no JSON, or nested too deeply") from None


def _schemas(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a schema, whatever its purpose."""
    pending = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            yield node
            pending += node.values()
        elif isinstance(node, list):
            pending += node


def _names(schema: Any) -> list[str]:
    """Return the names of all properties anywhere in the schema."""
    found: dict[str, None] = {}
    for node in _schemas(schema):
        properties = node.get("properties")
        if isinstance(properties, dict):
            found |= dict.fromkeys(properties)
    return list(found)[:_MAX_NAMES]


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema restricted to the properties that it names, where that surely leaves answers.

    Models seldom invent properties, and every answer to the result matches the schema.
    """
    if any(not _JOINING.isdisjoint(node) and "properties" in node for node in _schemas(schema)):
        return schema
    if any("allOf" in node for node in _schemas(schema)):
        return schema
    copied: dict[str, Any] = json.loads(json.dumps(schema))
    for node in _schemas(copied):
        properties, required = node.get("properties"), node.get("required", [])
        if isinstance(properties, dict) and properties and isinstance(required, list):
            known = all(isinstance(name, str) and name in properties for name in required)
            if known and "type" in node and "minProperties" not in node:
                node.setdefault("additionalProperties", False)
    return copied
