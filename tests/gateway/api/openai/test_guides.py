import re
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.api.openai.body_reading import Reading, read_body
from gateway.api.openai.chat import CHAT
from gateway.api.openai.completion_api import CompletionApi
from gateway.api.openai.completions import COMPLETIONS
from gateway.api.openai.guides import MAX_CHOICES, MAX_GUIDE_BYTES, take_guide
from protos.errors import InvalidRequest, PenstockError
from protos.types import Guide, GuideKind

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
TEXT = orjson.dumps(SCHEMA).decode()
BASES: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "x"}]},
    "completions": {"model": "m", "prompt": "x"},
}
DIALECTS = {"chat": CHAT, "completions": COMPLETIONS}


@pytest.fixture(params=sorted(DIALECTS))
def api(request: pytest.FixtureRequest) -> tuple[CompletionApi, dict[str, Any]]:
    return DIALECTS[request.param], BASES[request.param]


def schema_format(**fields: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA} | fields}}


def reading(api: tuple[CompletionApi, dict[str, Any]], **fields: Any) -> Reading:
    return read_body(api[0], orjson.dumps(api[1] | fields))


@pytest.mark.parametrize(
    ("name", "value", "guide"),
    [
        ("response_format", {"type": "json_object"}, Guide(GuideKind.JSON_OBJECT)),
        (
            "response_format",
            {
                "type": "json_schema",
                "json_schema": {"name": "n", "description": "d", "strict": False, "schema": SCHEMA},
            },
            Guide(GuideKind.JSON_SCHEMA, TEXT),
        ),
        ("guided_json", SCHEMA, Guide(GuideKind.JSON_SCHEMA, TEXT)),
        ("guided_json", TEXT, Guide(GuideKind.JSON_SCHEMA, TEXT)),
        ("guided_regex", "[0-9]+", Guide(GuideKind.REGEX, "[0-9]+")),
        ("guided_choice", ["yes", "no (really)", "1+1"], Guide(GuideKind.REGEX, r"yes|no \(really\)|1\+1")),
        ("guided_grammar", 'root ::= "x"', Guide(GuideKind.GRAMMAR, 'root ::= "x"')),
    ],
)
def test_what_guides_an_answer_is_read(
    api: tuple[CompletionApi, dict[str, Any]], name: str, value: object, guide: Guide
) -> None:
    found = reading(api, **{name: value})
    assert (found.guide, found.guide_param, found.foreign) == (guide, name, None)


@pytest.mark.parametrize("value", [None, {"type": "text"}])
def test_the_default_is_no_guide(api: tuple[CompletionApi, dict[str, Any]], value: object) -> None:
    found = reading(api, response_format=value)
    assert (found.guide, found.foreign) == (None, None)


def test_another_kind_of_format_is_for_upstreams_of_the_api(api: tuple[CompletionApi, dict[str, Any]]) -> None:
    found = reading(api, response_format={"type": "structural_tag"}, guided_regex="x")
    assert found.guide is not None
    assert found.foreign is not None
    assert found.foreign.param == "response_format"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {}}, "response_format"),
        ({"response_format": {"type": 5}}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format.json_schema.name"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": []}}},
            "response_format.json_schema.schema",
        ),
        (schema_format(name=None), "response_format.json_schema.name"),
        (schema_format(name="a b"), "response_format.json_schema.name"),
        (schema_format(name="x" * 65), "response_format.json_schema.name"),
        (schema_format(name=5), "response_format.json_schema.name"),
        (schema_format(strict="yes"), "response_format.json_schema.strict"),
        (schema_format(description=5), "response_format.json_schema.description"),
        (schema_format(schemas={}), "response_format.json_schema.schemas"),
        (schema_format(schema={"type": "nonsense"}), "response_format.json_schema.schema.type"),
        # Strict ones must be of OpenAI's subset.
        (schema_format(strict=True), "response_format.json_schema.schema"),
        ({"guided_json": {"properties": {"a": 5}}}, "guided_json.properties"),
        ({"guided_regex": "("}, "guided_regex"),
        ({"guided_grammar": "root"}, "guided_grammar"),
        ({"guided_json": "{"}, "guided_json"),
        ({"guided_json": "[]"}, "guided_json"),
        ({"guided_json": 5}, "guided_json"),
        ({"guided_regex": ""}, "guided_regex"),
        ({"guided_regex": ["x"]}, "guided_regex"),
        ({"guided_regex": "x" * (MAX_GUIDE_BYTES + 1)}, "guided_regex"),
        ({"guided_regex": "ü" * (MAX_GUIDE_BYTES // 2 + 1)}, "guided_regex"),
        ({"guided_grammar": ""}, "guided_grammar"),
        ({"guided_choice": []}, "guided_choice"),
        ({"guided_choice": "yes"}, "guided_choice"),
        ({"guided_choice": ["yes", ""]}, "guided_choice[1]"),
        ({"guided_choice": ["x"] * (MAX_CHOICES + 1)}, "guided_choice"),
        ({"guided_choice": ["x" * 1000] * 100}, "guided_choice"),
        ({"guided_regex": "x", "guided_json": SCHEMA}, "guided_regex"),
        ({"response_format": {"type": "json_object"}, "guided_choice": ["x"]}, "guided_choice"),
    ],
)
def test_what_is_no_guide_is_refused_by_name(
    api: tuple[CompletionApi, dict[str, Any]], fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        reading(api, **fields)
    assert caught.value.param == param
    assert len(caught.value.message) < 1000


@given(st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=5))
def test_choices_match_themselves_and_nothing_more(choices: list[str]) -> None:
    extras = {"guided_choice": choices}
    found = take_guide(extras)
    assert found is not None
    assert extras == {}
    pattern = re.compile(found[0].text)
    assert all(pattern.fullmatch(choice) for choice in choices)
    assert all(pattern.fullmatch(text + "x") is None for text in choices if text + "x" not in choices)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=10),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    ),
    st.sampled_from(["response_format", "guided_json", "guided_regex", "guided_choice", "guided_grammar"]),
)
def test_any_value_is_taken_or_refused(value: Any, name: str) -> None:
    for api, base in ((CHAT, BASES["chat"]), (COMPLETIONS, BASES["completions"])):
        try:
            read_body(api, orjson.dumps(base | {name: value}))
        except PenstockError as error:
            assert error.status == 400
