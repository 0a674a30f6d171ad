"""Guided answers of the simulated engine: they keep to the guide, end, and come out the same whoever asks again."""

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protos.features import Feature
from protos.types import Finish, FinishReason, Guide, GuideKind, Submit
from replicas.engine import EngineStep
from replicas.engines.guided.composition import SOON
from replicas.engines.guided.errors import GuideError
from replicas.engines.guided.palette import Palette, palette_of
from replicas.engines.simulated import SimulatedEngine
from replicas.engines.vocabulary import Vocabulary
from tests.harness import engine_of, readable_corpus, readable_vocabulary, submit_of
from tests.loops import until
from tests.replicas.engines.guiding import PERSON, answer, schema_guide, text_of

TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["value", "next", "children"],
            "additionalProperties": False,
        }
    },
}
SCHEMAS: dict[str, Any] = {
    "person": PERSON,
    "tree": TREE,
    "anything": {},
    "number list": {"type": "array", "items": {"type": "number"}, "minItems": 3, "maxItems": 5},
    "tuple": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "boolean"}], "items": False, "minItems": 2},
    "long": {"type": "string", "minLength": 300},
    "short": {"type": "string", "minLength": 1, "maxLength": 3},
    "pattern": {"type": "string", "pattern": r"^[A-Z]{2}-\d{3,5}$"},
    "date": {"type": "string", "format": "date"},
    "email": {"type": "string", "format": "email"},
    "uuid": {"type": "string", "format": "uuid"},
    "const": {"const": {"a": [1, 'x"y', None]}},
    "map": {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2},
    "union": {
        "anyOf": [{"type": "integer"}, {"type": "object", "properties": {"a": {"const": "é"}}, "required": ["a"]}]
    },
    "joined": {"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}]},
    "odd names": {"type": "object", "properties": {'a "b"\n': {"type": "null"}, "ü": {}}, "required": ['a "b"\n', "ü"]},
    "empty": {"type": "object", "properties": {}, "additionalProperties": False},
}


@pytest.fixture(scope="module")
def palette() -> Palette:
    return palette_of(readable_vocabulary(), readable_corpus())


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_answer_is_valid_and_ends(palette: Palette, name: str) -> None:
    check = jsonschema_rs.validator_for(SCHEMAS[name])
    texts = set()
    for key in range(20):
        composed = answer(palette, schema_guide(SCHEMAS[name]), key)
        assert composed.whole
        text = text_of(composed.tokens)
        check.validate(json.loads(text))
        assert "\n" not in text
        texts.add(text)
    assert len(texts) > 1 or name in ("const", "empty")


def test_any_object_is_one_and_not_always_the_same(palette: Palette) -> None:
    texts = {text_of(answer(palette, Guide(GuideKind.JSON_OBJECT), key).tokens) for key in range(20)}
    assert len(texts) > 10
    assert all(isinstance(json.loads(text), dict) for text in texts)


def test_optional_properties_come_sometimes_and_others_do_not(palette: Palette) -> None:
    found = [json.loads(text_of(answer(palette, schema_guide(PERSON), key).tokens)) for key in range(60)]
    assert 0 < sum("note" in one for one in found) < len(found)
    assert all(one.keys() <= PERSON["properties"].keys() for one in found)  # type: ignore[attr-defined]


def test_text_in_it_is_words(palette: Palette) -> None:
    names = [json.loads(text_of(answer(palette, schema_guide(PERSON), key).tokens))["name"] for key in range(20)]
    assert all(re.fullmatch(r"[A-Za-z ]+", name) and len(name) < 80 for name in names)


@pytest.mark.parametrize(
    "regex",
    [
        "yes|no",
        "[0-9]{3}-[a-z]+",
        ".*",
        "a*b",
        r"(\+?\d{1,3} )?\d{5,12}",
        r"[a-z ]+\.",
        r"1\+1|no \(really\)",
        "[^a]",
        "(a|aa)*b",
    ],
)
def test_an_expression_is_matched_whole(palette: Palette, regex: str) -> None:
    for key in range(10):
        composed = answer(palette, Guide(GuideKind.REGEX, regex), key)
        assert composed.whole
        assert re.fullmatch(regex, text_of(composed.tokens))


@pytest.mark.parametrize(
    ("grammar", "regex"),
    [
        ('root ::= "x" item ("," item)*\nitem ::= [0-9]+', r"x\d+(,\d+)*"),
        ('start: "select " NAME " from " NAME\nNAME: /[a-z_]+/', r"select [a-z_]+ from [a-z_]+"),
    ],
)
def test_a_grammar_is_kept_to(palette: Palette, grammar: str, regex: str) -> None:
    for key in range(10):
        composed = answer(palette, Guide(GuideKind.GRAMMAR, grammar), key)
        assert composed.whole
        assert re.fullmatch(regex, text_of(composed.tokens))


@pytest.mark.parametrize(
    "guide",
    [
        Guide(GuideKind.JSON_SCHEMA, "{no json"),
        Guide(GuideKind.JSON_SCHEMA, "[" * 100_000),
        Guide(GuideKind.JSON_SCHEMA, "5"),
        schema_guide({"type": "strin"}),
        schema_guide({"type": "string", "pattern": "("}),
        schema_guide({"type": "integer", "minimum": 5, "maximum": 4}),
        schema_guide({"$ref": "https://example.com/schema"}),
        schema_guide({"$ref": "#/$defs/none"}),
        schema_guide({"$ref": "#"}),
        Guide(GuideKind.JSON_SCHEMA, '{"items":' * 500 + "{}" + "}" * 500),
        Guide(GuideKind.REGEX, "("),
        Guide(GuideKind.GRAMMAR, 'root ::= missing "x"'),
        Guide(GuideKind.GRAMMAR, "(" * 5000),
    ],
)
def test_what_cannot_be_kept_to_is_an_error(palette: Palette, guide: Guide) -> None:
    with pytest.raises(GuideError):
        answer(palette, guide)


def _between(name: str, low: int, more: int) -> dict[str, Any]:
    """A schema of a type with a range of values or lengths."""
    least, most = ("minimum", "maximum") if name == "integer" else ("minLength", "maxLength")
    return {"type": name, least: low, most: low + more}


_LEAVES = st.one_of(
    st.builds(_between, st.just("integer"), st.integers(-50, 50), st.integers(0, 99)),
    st.builds(_between, st.just("string"), st.integers(0, 9), st.integers(0, 30)),
    st.lists(st.one_of(st.text(max_size=5), st.integers(-9, 9)), min_size=1, max_size=4).map(lambda v: {"enum": v}),
    st.sampled_from([{"type": "string", "format": f} for f in ("date", "time", "date-time", "ipv4", "uuid")]),
    st.sampled_from([{"type": t} for t in ("number", "boolean", "null", ["string", "integer", "null"])]),
)


@st.composite
def _objects(draw: Callable[..., Any], inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    properties = draw(st.dictionaries(st.text(min_size=1, max_size=6), inner, max_size=4))
    required = [name for name in properties if draw(st.booleans())]
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    if draw(st.booleans()):
        schema["additionalProperties"] = False
    return schema


_SCHEMAS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        _objects(inner),
        st.builds(lambda items, low: {"type": "array", "items": items, "minItems": low}, inner, st.integers(0, 3)),
        st.builds(lambda of: {"anyOf": of}, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(_SCHEMAS, st.integers(0, 2**16))
def test_any_schema_has_valid_answers_that_end(schema: dict[str, Any], key: int) -> None:
    palette = palette_of(readable_vocabulary(), readable_corpus())
    composed = answer(palette, schema_guide(schema), key, most=10 * SOON)
    assert composed.whole
    jsonschema_rs.validator_for(schema).validate(json.loads(text_of(composed.tokens)))


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(_SCHEMAS, st.integers(0, 2**16), st.integers(0, 2**16), st.integers(0, 40))
def test_an_answer_goes_on_under_another_seed_too(schema: dict[str, Any], key: int, other: int, cut: int) -> None:
    palette = palette_of(readable_vocabulary(), readable_corpus())
    said = answer(palette, schema_guide(schema), key, most=10 * SOON).tokens[:cut]
    composed = answer(palette, schema_guide(schema), other, most=10 * SOON, said=said)
    assert composed.tokens[: len(said)] == said
    assert composed.whole
    jsonschema_rs.validator_for(schema).validate(json.loads(text_of(composed.tokens)))


def test_what_does_not_keep_to_the_guide_cannot_be_gone_on_with(palette: Palette) -> None:
    said = readable_vocabulary().encode("hello")
    with pytest.raises(GuideError, match="has been said"):
        answer(palette, schema_guide(PERSON), said=said)


def test_a_small_vocabulary_does(palette: Palette) -> None:
    """Bytes alone, and none for the corpus's words: it is enough."""

    def encode(text: str) -> list[int]:
        return list(text.encode())

    vocabulary = Vocabulary(257, 256, lambda token: bytes([token]) if token < 256 else b"", encode, encode, {})
    small = Palette(vocabulary, readable_corpus())
    for name in ("person", "date", "tree"):
        composed = answer(small, schema_guide(SCHEMAS[name]))
        jsonschema_rs.validator_for(SCHEMAS[name]).validate(json.loads(bytes(composed.tokens)))


class Heard:
    """A guided engine that runs, and what it says."""

    def __init__(self, **options: Any) -> None:
        self.engine = guided_engine(**options)
        self.tokens: dict[tuple[int, int], list[int]] = {}
        self.finishes: dict[tuple[int, int], Finish] = {}
        self.steps: list[EngineStep] = []
        self.task = asyncio.create_task(self.engine.run(self._take))

    def _take(self, step: EngineStep) -> None:
        self.steps.append(step)
        for delta in step.deltas:
            self.tokens.setdefault((delta.handle, delta.index), []).extend(delta.token_ids)
            assert delta.logprobs is None or len(delta.logprobs) == len(delta.token_ids)
        for handle, index, finish in step.finishes:
            assert (handle, index) not in self.finishes
            self.finishes[handle, index] = finish

    async def ended(self, *keys: tuple[int, int]) -> None:
        await until(lambda: all(key in self.finishes for key in keys), lambda: str(self.finishes))

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def guided_engine(**options: Any) -> SimulatedEngine:
    return engine_of(corpus=readable_corpus(), vocabulary=readable_vocabulary(), **options)


def ask(count: int = 500, **options: Any) -> Submit:
    return submit_of(count, guide=schema_guide(PERSON), **({"ignore_eos": False} | options))


async def test_an_engine_with_a_vocabulary_honours_guides() -> None:
    assert Feature.GUIDED in guided_engine().info.features
    assert Feature.GUIDED not in engine_of().info.features

    heard = Heard()
    heard.engine.submit(1, ask(n=3, logprobs=2))
    heard.engine.submit(2, ask(seed=8))
    heard.engine.submit(3, ask(10))
    heard.engine.submit(4, ask(ignore_eos=True, min_tokens=400))
    keys = [(1, 0), (1, 1), (1, 2), (2, 0), (3, 0), (4, 0)]
    await heard.ended(*keys)
    for key in keys[:4] + keys[5:]:
        assert heard.finishes[key].reason is FinishReason.STOP
        assert heard.finishes[key].completion_tokens == len(heard.tokens[key])
        jsonschema_rs.validator_for(PERSON).validate(json.loads(text_of(heard.tokens[key])))
    assert heard.finishes[3, 0].reason is FinishReason.LENGTH
    assert heard.tokens[3, 0] == heard.tokens[1, 0][:10]
    assert len({tuple(heard.tokens[key]) for key in keys[:4]}) == 4
    await heard.stop()


async def test_an_answer_moves_and_is_handed_over() -> None:
    heard = Heard()
    heard.engine.submit(1, ask())
    await heard.ended((1, 0))
    whole = heard.tokens[1, 0]
    for handle, cut in enumerate((1, 7, len(whole) - 1), 2):
        heard.engine.submit(handle, ask(prompt=[1, 2, 3, *whole[:cut]], generated=cut))
        await heard.ended((handle, 0))
        assert heard.tokens[handle, 0] == whole[cut:]
    # Nobody gave a seed, and the second replica has drawn another.
    heard.engine.submit(5, ask(prompt=[1, 2, 3, *whole[:9]], generated=9, seed=None))
    await heard.ended((5, 0))
    jsonschema_rs.validator_for(PERSON).validate(json.loads(text_of(whole[:9] + heard.tokens[5, 0])))
    heard.engine.submit(6, ask(prefill_only=True, seed=None))
    await heard.ended((6, 0))
    handoff = heard.finishes[6, 0].handoff
    assert handoff is not None
    assert heard.tokens[6, 0] == list(handoff.first_tokens)
    heard.engine.submit(7, ask(handoff=handoff, seed=None))
    await heard.ended((7, 0))
    jsonschema_rs.validator_for(PERSON).validate(json.loads(text_of([*heard.tokens[6, 0], *heard.tokens[7, 0]])))
    await heard.stop()


async def test_stop_tokens_end_it_where_they_come() -> None:
    heard = Heard()
    heard.engine.submit(1, ask())
    await heard.ended((1, 0))
    whole = heard.tokens[1, 0]
    heard.engine.submit(2, ask(stop_token_ids=(whole[5],)))
    await heard.ended((2, 0))
    assert heard.tokens[2, 0] == whole[: whole.index(whole[5])]
    assert heard.finishes[2, 0].reason is FinishReason.STOP
    await heard.stop()


@pytest.mark.parametrize("guide", [schema_guide({"$ref": "#/$defs/x"}), Guide(GuideKind.REGEX, "(")])
async def test_a_bad_guide_fails_its_request_alone(guide: Guide) -> None:
    heard = Heard()
    heard.engine.submit(1, submit_of(5, guide=guide, n=2))
    heard.engine.submit(2, submit_of(5))
    await heard.ended((1, 0), (1, 1), (2, 0))
    for index in (0, 1):
        failure = heard.finishes[1, index].failure
        assert failure is not None
        assert (failure.code, failure.param) == ("unsupported_parameter", "guide")
    assert heard.finishes[2, 0].reason is FinishReason.LENGTH
    await heard.stop()


async def test_a_request_may_be_cancelled_before_its_answer_is_there() -> None:
    heard = Heard()
    heard.engine.submit(1, ask(n=2))
    heard.engine.submit(2, ask(n=2))
    heard.engine.cancel(1)
    await heard.ended((1, 0), (1, 1), (2, 0), (2, 1))
    assert {heard.finishes[1, k].reason for k in (0, 1)} == {FinishReason.CANCELLED}
    assert heard.finishes[2, 0].reason is FinishReason.STOP
    await heard.stop()


async def test_what_waits_for_its_answer_is_part_of_the_load() -> None:
    heard = Heard()
    heard.engine.submit(1, ask(n=2))
    heard.engine.submit(2, submit_of(5))
    await until(lambda: heard.steps)
    assert max(step.load.waiting for step in heard.steps) == 2
    await heard.ended((1, 0), (1, 1), (2, 0))
    await until(lambda: heard.steps[-1].load.running + heard.steps[-1].load.waiting == 0)
    await heard.stop()
    heard.engine.submit(3, ask())
    await asyncio.sleep(0)
