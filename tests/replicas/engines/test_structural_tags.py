"""Answers of the simulated engine that structural tags guide: text with tags in it, or one of several forms."""

import json
import re
from typing import Any

import jsonschema_rs
import pytest

from protos.types import Guide, GuideKind
from replicas.engines.guided.composition import keeps
from replicas.engines.guided.errors import GuideError
from replicas.engines.guided.grammars import plans_of
from replicas.engines.guided.palette import Palette, palette_of
from tests.harness import readable_corpus, readable_vocabulary, tekken
from tests.replicas.engines.guiding import PERSON, answer, schema_guide, text_of

INTEGERS = {"type": "array", "items": {"type": "integer"}}


def tag(begin: str, content: Any, end: str) -> dict[str, Any]:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def schema(of: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": of}


def listed(*tags: Any, separator: str = "\n", once: bool = False) -> dict[str, Any]:
    more = {"separator": separator, "at_least_one": True, "stop_after_first": once}
    return {"type": "tags_with_separator", "tags": tags, **more}


def either(*elements: Any) -> dict[str, Any]:
    return {"type": "or", "elements": elements}


def row(*elements: Any) -> dict[str, Any]:
    return {"type": "sequence", "elements": elements}


def tag_guide(form: Any) -> Guide:
    return Guide(GuideKind.STRUCTURAL_TAG, json.dumps({"type": "structural_tag", "format": form}, ensure_ascii=False))


STRUCTURAL = {
    "type": "triggered_tags",
    "tags": [tag("<tool=get>", schema(PERSON), "</tool>"), tag("<tool=put>", schema(INTEGERS), "</tool>")],
    "triggers": ["<tool="],
}


@pytest.fixture(scope="module")
def palette() -> Palette:
    return palette_of(readable_vocabulary(), readable_corpus())


def test_a_structural_tag_is_text_with_a_tag_in_it(palette: Palette) -> None:
    texts = 0
    for key in range(20):
        composed = answer(palette, tag_guide(STRUCTURAL), key)
        assert composed.whole
        before, name, inside = re.fullmatch(r"(.*?)<tool=(\w+)>(.*?)</tool>.*", text_of(composed.tokens)).groups()  # type: ignore[union-attr]
        texts += bool(before)
        jsonschema_rs.validator_for({"get": PERSON, "put": INTEGERS}[name]).validate(json.loads(inside))
    assert 0 < texts < 20


def test_tags_are_written_with_control_tokens(palette: Palette) -> None:
    tags = [tag("[TOOL_CALLS]f[INST]", schema(PERSON), "[/INST]")]
    guide = tag_guide({"type": "triggered_tags", "tags": tags, "triggers": ["[TOOL_CALLS]"]})
    specials = tekken().tokenizer.specials
    for key in range(10):
        tokens = answer(palette, guide, key).tokens
        begin, name, end = (tokens.index(specials[mark]) for mark in ("[TOOL_CALLS]", "[INST]", "[/INST]"))
        assert text_of(tokens[begin:name]) == "f"
        jsonschema_rs.validator_for(PERSON).validate(json.loads(text_of(tokens[name:end])))
        for cut in (begin, name, name + 3, end):
            assert answer(palette, guide, key + 100, said=tokens[:cut]).tokens[:cut] == tokens[:cut]


CALLED = listed(
    tag(
        '{"name": "',
        listed(
            tag('get", "with": ', schema(PERSON), ""),
            tag('put", "with": ', schema(INTEGERS), ""),
            separator='}; {"name": "',
        ),
        "}",
    ),
    once=True,
)
ANSWERED = listed(tag("", schema({"type": "object", "additionalProperties": {"type": "integer"}}), ""), once=True)
THOUGHT = [tag("<think>", {"type": "any_text"}, "</think>"), {"type": "regex", "pattern": "[\\n/]{0,2}"}]
EITHER = either(CALLED, ANSWERED, row(*THOUGHT, either(CALLED, ANSWERED)))


def test_alternatives_that_begin_alike_are_all_written(palette: Palette) -> None:
    kinds = set()
    for key in range(40):
        composed = answer(palette, tag_guide(EITHER), key)
        assert composed.whole
        thought, said = re.fullmatch(r"(?s)(<think>\w.*</think>[\n/]{0,2})?(\{.*\})", text_of(composed.tokens)).groups()  # type: ignore[union-attr]
        call = re.match(r'\{"name": "(get|put)", "with": ', said)
        if call is None:
            assert all(type(value) is int for value in json.loads(said).values())
        else:
            first = json.loads(said.split('; {"name": ')[0])
            jsonschema_rs.validator_for({"get": PERSON, "put": INTEGERS}[call.group(1)]).validate(first["with"])
        kinds.add((bool(thought), bool(call)))
        cut = len(composed.tokens) // 2
        again = answer(palette, tag_guide(EITHER), key + 1, said=composed.tokens[:cut])
        assert again.whole
        assert again.tokens[:cut] == composed.tokens[:cut]
    assert len(kinds) == 4


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"name": "put", "with": [1,2]}', True),
        ('{"name": "put", "with": [1]}; {"name": "put", "with": []}', True),
        ('{"name":5}', True),
        ("{}", True),
        ("<think>Hm.\nYes, <b>.</think>\n/{}", True),
        ('<think></think>{"name": "put", "with": []}', True),
        ('{"name": "other", "with": []}', False),
        ('{"name": "put", "with": ["x"]}', False),
        ('{"name":"x"}', False),
        ("Hello.", False),
        ('Hm.</think>{"name":5}', False),
        ('<think>{"name":5}', False),
        ('{"name":5} {"name":5}', False),
        ("", False),
    ],
)
def test_alternatives_are_kept_to(palette: Palette, text: str, kept: bool) -> None:
    tokens = readable_vocabulary().encode(text)
    assert any(keeps(plan, palette, tokens) for plan in plans_of(tag_guide(EITHER), palette.tokenizer)) is kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"name": "put", "with": [1, 2]}', True),
        ('{\n  "name": 5\n}', True),
        ('<think>Hm.</think>{"name": "put", "with": [ ]}', True),
        ('{"name": "put", "with": [1, "x"]}', False),
        ('{"name": "x"}', False),
    ],
)
def test_what_is_not_put_together_here_may_have_blanks(palette: Palette, text: str, kept: bool) -> None:
    plans = plans_of(tag_guide(EITHER), palette.tokenizer, compact=False)
    assert any(keeps(plan, palette, readable_vocabulary().encode(text)) for plan in plans) is kept
    (plan,) = plans_of(schema_guide(PERSON), palette.tokenizer, compact=False)
    person = {"name": "x", "age": 5, "tags": [], "home": {"x": 1, "y": 2}, "more": None}
    assert keeps(plan, palette, readable_vocabulary().encode(json.dumps(person, indent=1)))


def test_a_tag_may_have_an_expression_in_it(palette: Palette) -> None:
    form = either(CALLED, {"type": "regex", "pattern": "a/b|c\\/d|\\\\/e\n"})
    plans = plans_of(tag_guide(form), palette.tokenizer)
    for text, kept in (("a/b", True), ("c/d", True), ("\\/e\n", True), ("c\\/d", False), ("/e", False)):
        assert any(keeps(plan, palette, readable_vocabulary().encode(text)) for plan in plans) is kept


ARGUMENTS = either(
    {"type": "const_string", "value": "</call>"},
    tag(
        "<key=",
        listed(
            tag("a>", {"type": "any_text"}, "</key>"), tag("n>", schema({"type": "integer"}), "\n"), separator="<key="
        ),
        "</call>",
    ),
)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("<call></call>", True),
        ("<call><key=a>some <b> text</key></call>", True),
        ("<call><key=n>5\n<key=a>x</key></call> and more", True),
        ("<call><key=n>x\n</call>", False),
        ("<call><key=b>x</key></call>", False),
        ("<call>text</call>", False),
    ],
)
def test_a_tag_in_text_may_have_alternatives_in_it(palette: Palette, text: str, kept: bool) -> None:
    form = {"type": "triggered_tags", "tags": [tag("<call>", ARGUMENTS, "")], "triggers": ["<call>"]}
    tokens = readable_vocabulary().encode(text)
    assert any(keeps(plan, palette, tokens) for plan in plans_of(tag_guide(form), palette.tokenizer)) is kept
    assert all(answer(palette, tag_guide(form), key).whole for key in range(10))


@pytest.mark.parametrize(
    "guide",
    [
        Guide(GuideKind.STRUCTURAL_TAG, "{}"),
        Guide(GuideKind.STRUCTURAL_TAG, "[]"),
        tag_guide(STRUCTURAL | {"triggers": ["<other"]}),
        tag_guide(STRUCTURAL | {"tags": []}),
        tag_guide({"type": "grammar", "grammar": 'root ::= "x"'}),
        tag_guide(schema(True)),
        tag_guide(either()),
        tag_guide(row(*[either(schema({}), schema({}))] * 9)),
        tag_guide(listed(tag("<a>", either(), ""))),
        tag_guide(either(schema({}), schema({"$ref": "#/$defs/none"}))),
    ],
)
def test_what_is_no_tag_is_an_error(palette: Palette, guide: Guide) -> None:
    with pytest.raises(GuideError):
        answer(palette, guide)
