import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.rollouts.comparison.answer import Answer, Expected, ToolCall, expected_of
from gateway.rollouts.comparison.difference import AnswerDifference, compare, compare_calls

TOOLS = Expected(tools={"look": True, "book": True})
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def call(name: str = "look", **arguments: Any) -> ToolCall:
    return ToolCall(name, json.dumps(arguments))


def test_equal_answers_are_the_same() -> None:
    answer = Answer(text="Yes.", finish="stop", tokens=2)
    found = compare(answer, answer, Expected(greedy=True))
    assert found == AnswerDifference(
        same=True,
        greedy=True,
        similarity=1.0,
        by="equal",
        length_ratio=1.0,
        baseline_finish="stop",
        candidate_finish="stop",
    )
    assert found.alike(1.0)


def test_without_randomness_only_equal_answers_are_alike() -> None:
    one, other = (
        Answer(text="The sky is blue today.", finish="stop"),
        Answer(text="The sky is blue today!", finish="stop"),
    )
    found = compare(one, other, Expected(greedy=True))
    assert found.similarity > 0.7
    assert not found.alike(0.0)
    assert compare(one, other, Expected()).alike(0.7)


def test_another_finish_is_another_answer() -> None:
    one, other = Answer(text="Yes", finish="stop"), Answer(text="Yes", finish="length")
    found = compare(one, other, Expected())
    assert (found.same, found.similarity, found.by) == (False, 1.0, "equal")
    assert (found.baseline_finish, found.candidate_finish) == ("stop", "length")


def test_a_side_that_failed_is_all_that_is_said() -> None:
    answer = Answer(text="Yes", finish="stop")
    assert compare(answer, None, Expected()).failed == "candidate"
    assert compare(None, answer, Expected()).failed == "baseline"
    assert compare(None, None, Expected()).failed == "both"
    assert not compare(answer, None, Expected()).alike(0.0)


@pytest.mark.parametrize(
    ("baseline", "candidate", "calls"),
    [
        ([], [], "none"),
        ([call()], [], "missing"),
        ([], [call()], "added"),
        ([call(a=1, b=[2])], [ToolCall("look", '{"b": [2.0], "a": 1e0}')], "same"),
        ([call(a=1), call("book")], [call("book"), call(a=1)], "same"),
        ([call(a=1)], [call(a=2)], "arguments"),
        ([call(a=1)], [call(a=True)], "arguments"),
        ([call(a=1)], [call("book", a=1)], "names"),
        ([call()], [call(), call()], "names"),
        ([ToolCall("look", '{"a":')], [ToolCall("look", '{"a":')], "same"),
        ([ToolCall("look", "[" * 900 + "]" * 900)], [ToolCall("look", "[" * 900 + "]" * 900)], "same"),
        ([ToolCall("look", '{"a":')], [ToolCall("look", '{"a":1}')], "arguments"),
    ],
)
def test_calls_are_compared_by_what_they_say(baseline: list[ToolCall], candidate: list[ToolCall], calls: str) -> None:
    assert compare_calls(baseline, candidate) == calls


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), st.booleans())
def test_how_arguments_are_written_makes_no_difference(arguments: dict[str, Any], ascii_only: bool) -> None:
    one = ToolCall("look", json.dumps(arguments))
    shuffled = dict(sorted(arguments.items(), reverse=True))
    try:
        other = ToolCall("look", json.dumps(shuffled, indent=1, ensure_ascii=ascii_only))
        other.arguments.encode()
    except UnicodeEncodeError:
        return
    assert compare_calls([one], [other]) == "same"


def test_what_breaks_a_form_is_told() -> None:
    good, bad = Answer(text='{"a": 1}', finish="stop"), Answer(text='{"a": 1', finish="stop")
    found = compare(good, bad, Expected(json=True))
    assert found.broken
    assert not found.alike(0.0)
    assert not compare(bad, good, Expected(json=True)).broken
    assert compare(
        Answer(refusal="No."), Answer(calls=[call()]), Expected(json=True, tools=TOOLS.tools)
    ).candidate_valid
    assert compare(Answer(calls=[call()]), Answer(calls=[call("steal")]), TOOLS).broken
    assert compare(Answer(calls=[call()]), Answer(calls=[ToolCall("look", "[]")]), TOOLS).broken


def test_embeddings_count_where_texts_differ() -> None:
    one, other = Answer(text="Yes"), Answer(text="Certainly")
    found = compare(one, other, Expected(), embedded=0.93)
    assert (found.similarity, found.by) == (0.93, "embeddings")
    assert compare(one, one, Expected(), embedded=0.93).similarity == 1.0


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, Expected()),
        ({"temperature": 0}, Expected(greedy=True)),
        ({"temperature": 0.0, "top_k": 4}, Expected(greedy=True)),
        ({"temperature": False}, Expected()),
        ({"top_k": 1}, Expected(greedy=True)),
        ({"response_format": {"type": "json_schema"}}, Expected(json=True)),
        ({"response_format": "json_object"}, Expected()),
        ({"tools": [{"function": {"name": "look"}}, {"function": 1}, 2]}, Expected(tools={"look": True})),
        ({"tools": "look"}, Expected()),
    ],
)
def test_a_body_says_what_to_expect(body: dict[str, Any], expected: Expected) -> None:
    assert expected_of(body) == expected


SCHEMA = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}


@pytest.mark.parametrize(
    "body",
    [{"response_format": FORMAT}, {"guided_json": SCHEMA}, {"guided_json": json.dumps(SCHEMA)}],
)
def test_an_answer_must_be_of_the_schema_that_was_asked_for(body: dict[str, Any]) -> None:
    expected = expected_of(body)
    assert (expected.json, expected.schema) == (True, SCHEMA)
    good, bad = Answer(text='{"city": "Rome"}'), Answer(text='{"city": 3}')
    assert compare(good, bad, expected).broken
    assert not compare(good, good, expected).broken
    # What cannot be followed refuses nothing.
    assert not compare(good, bad, expected_of({"guided_json": {"type": "objekt"}})).broken


def test_arguments_must_be_of_the_tools_schema() -> None:
    expected = expected_of({"tools": [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]})
    good, bad = (Answer(calls=(ToolCall("look", text),)) for text in ('{"city": "Rome"}', "{}"))
    assert compare(good, bad, expected).broken
    assert not compare(bad, good, expected).broken
