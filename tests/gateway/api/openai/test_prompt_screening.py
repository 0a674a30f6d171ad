"""Requests that a glance lets pass have nothing in them that a longer look would have found."""

from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.api.openai.body_reading import read_body
from gateway.api.openai.chat import CHAT
from gateway.api.openai.prompt_screening import passes_prefilter
from gateway.api.openai.prompt_texts import prompt_texts
from gateway.filtering.filters.filter_policy import Policy
from gateway.inference.generate_request import scratch_record
from protos.errors import PenstockError
from safety.action import Action
from safety.prefilter import Prefilter
from safety.screen import Rule
from safety.terms import TermFilter
from tests.gateway.api.openai.test_prompt_texts import BOTH, OWN
from tests.harness import tekken

TERMS = TermFilter("list", ["forbidden", "blue moon"], words=True)
RULES = (Rule("list", TERMS, Action.BLOCK),)
ROLES = ("system", "developer", "user", "assistant", "tool", "function")
#: Whoever asks; what is told at once depends on nobody's limits.
CALLER: Any = SimpleNamespace(tenant=SimpleNamespace(name="acme"))
WORDS = (
    "forbidden",
    "blue moon",
    "a word",
    "for",
    "bidden",
    "blue",
    "moon",
    "\\u0066orbidden",
    "\\",
    "\\u00",
    "u0066orbidden",
    "66orbidden",
    "\\nforbidden",
    "é",
    "“",
)


def policy(**changes: Any) -> Policy:
    looks: dict[str, Any] = {
        "prompt": dict.fromkeys(ROLES, RULES),
        "sizes": (),
        "floods": (),
        "prompt_guards": (),
        "answer": (),
        "answer_guards": (),
        "fail_open": False,
        "record_text": False,
        "prefilter": Prefilter([TERMS]),
    }
    return Policy(**looks | changes)


def served(of: Any = OWN) -> Any:
    return SimpleNamespace(**vars(of), output=None, chat_format=tekken().chat_format)


def told(body: Any, rules: Policy | None = None, of: Any = OWN) -> bool:
    """Whether it passes at once; it must have nothing in it then. Raises what refuses the body."""
    data = orjson.dumps({"model": "m"} | body)
    reading = read_body(CHAT, data)
    request = reading.request(CALLER, served(of), scratch_record())
    passes = passes_prefilter(rules or policy(), request, data)
    if passes:
        assert not [at for at in prompt_texts(reading, data, of) if TERMS.scan(at.text)]
    return passes


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content, **more}]}


@pytest.mark.parametrize("content", ["a word", [{"type": "text", "text": "a "}, {"type": "text", "text": "word"}]])
def test_what_has_nothing_in_it_passes(content: Any) -> None:
    assert told(user(content))
    assert told({**user(content), "stop": ["forbidden"], "user": "forbidden", "temperature": 0.1})
    # No model is told this.
    assert told(user(content, refusal="forbidden", reasoning="forbidden"))


@pytest.mark.parametrize(
    "body",
    [
        user("forbidden"),
        user("\\u0066orbidden"),
        user([{"type": "text", "text": "for"}, {"type": "text", "text": "bidden"}]),
        user([{"type": "text", "text": "a \\"}, {"type": "text", "text": "u0066orbidden"}]),
        user("a word", name="forbidden"),
        {"messages": [{"role": "system", "content": "forbidden"}, {"role": "user", "content": "a word"}]},
        {**user("a word"), "response_format": {"type": "json_schema", "json_schema": {"name": "forbidden"}}},
        {**user("a word"), "documents": [{"text": "forbidden"}]},
        {**user("a word"), "chat_template_kwargs": {"a": "forbidden"}},
        user("a word " * 4000),
    ],
)
def test_what_may_have_something_in_it_is_looked_at(body: Any) -> None:
    try:
        assert not told(body)
    except PenstockError:
        assert set(body) != {"messages"}, "a chat of nothing but messages is never refused here"


def test_what_an_upstream_sees_is_looked_at_whole() -> None:
    assert not told(user("a word"), of=BOTH)


@pytest.mark.parametrize(
    "changes",
    [{"prompt_guards": ("guard",)}, {"answer_guards": ("guard",)}, {"sizes": ("rule",)}, {"floods": ("rule",)}],
)
def test_rules_that_look_at_more_than_texts_have_their_look(changes: dict[str, Any]) -> None:
    assert not told(user("a word"), policy(**changes))


def test_without_a_sieve_nothing_is_told() -> None:
    assert not told(user("a word"), policy(prefilter=None))


CONTENT = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join),
    st.lists(st.sampled_from(WORDS).map(lambda word: {"type": "text", "text": word}), min_size=1, max_size=3),
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(ROLES), "content": CONTENT},
    optional={name: st.sampled_from(WORDS) for name in ("name", "refusal", "reasoning_content", "tool_call_id")},
)


@given(
    st.fixed_dictionaries(
        {"messages": st.lists(MESSAGE, min_size=1, max_size=4)},
        optional={
            "documents": st.just([{"text": "forbidden"}]),
            "reasoning_effort": st.just("low"),
            "user": st.sampled_from(WORDS),
        },
    )
)
def test_whatever_passes_has_nothing_in_it(body: dict[str, Any]) -> None:
    try:
        told(body)
    except PenstockError:
        return
