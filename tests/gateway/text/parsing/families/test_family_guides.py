"""Structural tags of the families: what keeps to one is read as calls of the offered tools, with valid arguments."""

import itertools
from typing import Any, Final

import jsonschema_rs
import orjson
import pytest
from msgspec.structs import replace

from gateway.text.parsing.families.element_calls import learned_elements
from gateway.text.parsing.families.family_registry import CHANNELS, FAMILIES, LEARNED, output_format
from gateway.text.parsing.families.glm45 import learned_pairs
from gateway.text.parsing.families.keyed_json import learned_keyed
from gateway.text.parsing.families.marked_json import learned
from gateway.text.parsing.offered_tools import Tool, ToolUse
from gateway.text.parsing.output_format import OutputFormat
from protos.types import Guide, GuideKind
from replicas.engines.guided.palette import Palette, palette_of
from tests.gateway.text.parsing.answers import answer
from tests.harness import readable_corpus, readable_vocabulary
from tests.replicas.engines.guiding import answer as compose
from tests.replicas.engines.guiding import text_of

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where"},
        "days": {"type": ["integer", "null"]},
        "unit": {"type": "string", "enum": ["cel.sius"]},
        "note": {"type": ["string", "null"]},
        "level": {"anyOf": [{"type": "string", "enum": ["lo"]}, {"type": "null"}], "description": "How much"},
        "size": {"type": ["number", "string"]},
        "where": {"$ref": "#/$defs/place"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["city", "days", "unit", "note", "level", "size", "where", "tags"],
    "additionalProperties": False,
    "$defs": {"place": {"type": "object", "properties": {"lat": {"type": "number"}, "name": {"type": "string"}}}},
}
WEATHER: Final = Tool("get_weather", None, SCHEMA, strict=True)
#: Not strict, so that some of its arguments may be left out.
FIND: Final = Tool("find", None, {"type": "object", "properties": {"x": {"type": "string"}, "n": {"type": "integer"}}})
CLOCK: Final = Tool("time_now", strict=True)
USE: Final = ToolUse((WEATHER, FIND, CLOCK))
#: Families that have none.
UNGUIDED: Final = {"functionary_v32"}
SAMPLE: Final = '{"name": "probe_call", "arguments": {"probe_key": "probe value", "probe_flag": true}}'
LEARNT: Final = {
    "marked": learned(f"<calls>[{SAMPLE}]</calls>"),
    "marked object": learned(f"[CALL]{SAMPLE}[/CALL]"),
    "keyed": learned_keyed('<|calls|>[{"probe_call": {"probe_key": "probe value", "probe_flag": true}}]<|end|>'),
    "elements": learned_elements(
        '<c>\n<run name="probe_call"><arg name="probe_key" string="true">probe value</arg>'
        '<arg name="probe_flag" string="false">true</arg></run>\n</c>'
    ),
    "pairs": learned_pairs(
        "<calls>\n<call>probe_call<sep>\n<k>probe_key</k>\n<v>probe value</v>\n<k>probe_flag</k>\n<v>true</v>\n</call>"
        "\n</calls>"
    ),
}
ANSWER: Final[dict[str, Any]] = {
    "type": "json_schema",
    "json_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "additionalProperties": False},
}


def form_of(name: str, reasoning: str | None = None) -> OutputFormat:
    form = output_format(LEARNED, reasoning, LEARNT[name]) if name in LEARNT else output_format(name, reasoning)
    assert form is not None
    return form


def described(text: str) -> Any:
    tag = orjson.loads(text)
    assert tag["type"] == "structural_tag"
    return tag["format"]


def value(schema: dict[str, Any]) -> Any:
    if "anyOf" in schema:
        return value(schema["anyOf"][0])
    if "$ref" in schema:
        return value(SCHEMA["$defs"]["place"])
    if "enum" in schema or schema.get("type") == "null":
        return schema.get("enum", [None])[0]
    kind = schema.get("type")
    if kind == "object":
        return {key: value(one) for key, one in schema.get("properties", {}).items()}
    if isinstance(kind, list):
        return value({"type": kind[-1]})
    values = {"array": ["a, <b> {c", 'd"]}'], "number": -1.5, "string": 'The "Hague", {x'}
    return values.get(kind, 7) if isinstance(kind, str) else None


def written(form: Any) -> list[str]:
    """Some texts that keep to a structural tag's format, two calls after another among them."""
    match form:
        case {"type": "or", "elements": elements}:
            return [text for element in elements for text in written(element)]
        case {"type": "sequence", "elements": elements}:
            return ["".join(parts) for parts in itertools.product(*map(written, elements))]
        case {"type": "tag", "begin": begin, "content": content, "end": end}:
            return [begin + text + end for text in written(content)]
        case {"type": "tags_with_separator", "tags": tags, "separator": separator, "at_least_one": True}:
            assert separator
            texts = [text for tag in tags for text in written(tag)]
            return texts if form["stop_after_first"] else [*texts, texts[0] + separator + texts[-1]]
        case {"type": "triggered_tags", "tags": tags, "triggers": triggers}:
            for tag in tags:
                assert sum(tag["begin"].startswith(trigger) for trigger in triggers) == 1
            return [text for tag in tags for text in written(tag)]
        case {"type": "const_string", "value": text}:
            assert text
            return [text]
        case {"type": "json_schema", "json_schema": schema}:
            return [orjson.dumps(value(schema)).decode()]
        case {"type": "any_text"}:
            return ["a <b> \n{c"]
    return PATTERNS[form["pattern"]]


PATTERNS: Final = {
    r"\n{0,2}": ["", "\n\n"],
    "[0-9]{1,3}": ["1"],
    "[0-9]{1,4}": ["12"],
    r"[a-z0-9]{10}<\|tool_call:name\|>": ["a1b2c3d4e5<|tool_call:name|>"],
    r"(cel\.sius)": ["cel.sius"],
    "(lo|null)": ["lo", "null"],
    "(lo)": ["lo"],
}


def is_valid(name: str, arguments: str) -> bool:
    found = orjson.loads(arguments)
    return name != "get_weather" or jsonschema_rs.is_valid(SCHEMA, found)


def check_ends(form: Any) -> None:
    """Check what XGrammar 0.1.25 demands: what has no end of its own comes last, and has a text after it."""
    kind = form["type"]
    if kind == "sequence":
        assert not any(map(endless, form["elements"][:-1]))
    if kind == "or":
        assert len(set(map(endless, form["elements"]))) == 1
    if kind == "tag":
        assert form["end"] or not endless(form["content"])
    for inner in [*form.get("elements", ()), *form.get("tags", ()), *([form["content"]] if "content" in form else ())]:
        check_ends(inner)


def endless(form: Any) -> bool:
    if form["type"] == "sequence":
        return endless(form["elements"][-1])
    if form["type"] == "or":
        return any(map(endless, form["elements"]))
    return form["type"] in ("any_text", "triggered_tags", "tags_with_separator")


NAMES: Final = (*FAMILIES["tools"], *LEARNT)


@pytest.mark.parametrize("name", NAMES)
def test_strict_tools_in_free_text(name: str) -> None:
    form = form_of(name)
    assert form.structural_tag(ToolUse((FIND,))) is None
    text = form.structural_tag(USE)
    assert (text is None) == (name in UNGUIDED)
    if text is None:
        return
    check_ends(described(text))
    called = set()
    for said in written(described(text)):
        parser = form.parser(USE, "")
        assert parser is not None
        (call,) = answer(parser, *said).calls
        assert is_valid(call.name, call.arguments)
        called.add(call.name)
    assert called == {"get_weather", "find", "time_now"}


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize(
    ("name", "reasoning"),
    [
        *((name, reasoning) for name in NAMES if name not in CHANNELS for reasoning in (None, "think")),
        *((name, None) for name in CHANNELS),
        ("mistral", "magistral"),
    ],
)
def test_an_answer_is_calls_or_keeps_to_a_format(name: str, reasoning: str | None, parallel: bool) -> None:
    form, use = form_of(name, reasoning), replace(USE, parallel=parallel)
    text = form.calls_or_answer_tag(use, ANSWER)
    assert (text is None) == (name in UNGUIDED)
    if text is None:
        return
    check_ends(described(text))
    found = set()
    for said in written(described(text)):
        parser = form.parser(use, "")
        assert parser is not None
        got = answer(parser, *said)
        assert got.reasoning in ("", "a <b> \n{c")
        assert all(is_valid(call.name, call.arguments) for call in got.calls)
        assert got.text == ("" if got.calls else orjson.dumps(value(ANSWER["json_schema"])).decode())
        found.add((bool(got.reasoning), *(call.name for call in got.calls)))
    calls: set[tuple[str, ...]] = {(), ("get_weather",), ("find",), ("time_now",)}
    if parallel:
        calls.add(("get_weather", "time_now"))
    thoughts = (False,) if reasoning is None and name not in CHANNELS else (False, True)
    assert found == {(thought, *call) for thought in thoughts for call in calls}


@pytest.fixture(scope="module")
def palette() -> Palette:
    return palette_of(readable_vocabulary(), readable_corpus())


@pytest.mark.parametrize(
    "name", ["pythonic", "glm45", "qwen3_coder", "minimax_m3", "gemma4", "kimi_k3", "solar_open", "pairs"]
)
def test_a_guided_engine_writes_what_is_read(palette: Palette, name: str) -> None:
    form = form_of(name)
    texts = form.structural_tag(USE), form.calls_or_answer_tag(USE, ANSWER)
    calls = 0
    for text, key in itertools.product(texts, range(3)):
        assert text is not None
        composed = compose(palette, Guide(GuideKind.STRUCTURAL_TAG, text), key)
        assert composed.whole
        parser = form.parser(USE, "")
        assert parser is not None
        got = answer(parser, text_of(composed.tokens))
        assert all(is_valid(call.name, call.arguments) for call in got.calls)
        if text is texts[1]:
            assert bool(got.calls) is not bool(got.text)
        calls += len(got.calls)
    assert calls


def test_without_any_form_there_is_no_tag() -> None:
    for reasoning in ("think", *CHANNELS):
        form = output_format(None, reasoning)
        assert form is not None
        assert form.structural_tag(USE) is None
        assert form.calls_or_answer_tag(USE, ANSWER) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^a"},
        {"type": "string", "maxLength": 5},
        {"type": "string", "enum": ["", "a"]},
        {"type": "array", "items": {"$ref": "#/properties/other"}},
        {"anyOf": [{"type": "string", "maxLength": 5}]},
        {"anyOf": [{"type": "string"}, {"type": "string", "enum": ["a"]}]},
    ],
)
def test_a_strict_argument_that_cannot_be_held_to_is_refused(schema: dict[str, Any]) -> None:
    parameters = {"type": "object", "properties": {"x": schema, "other": {"type": "string"}}}
    tool = Tool("f", None, parameters, strict=True)
    for name, guided in (("qwen3_coder", False), ("hermes", True), ("kimi_k3", True)):
        assert (form_of(name).structural_tag(ToolUse((tool,))) is not None) is guided
        assert (form_of(name).calls_or_answer_tag(ToolUse((tool,)), ANSWER) is not None) is guided
    assert form_of("qwen3_coder").structural_tag(ToolUse((replace(tool, strict=False), CLOCK))) is not None


def test_keys_that_tags_have_no_room_for() -> None:
    parameters = {"type": "object", "properties": {"a>b": {"type": "string"}}}
    assert form_of("qwen3_coder").structural_tag(ToolUse((Tool("f", None, parameters, strict=True),))) is None
