"""What a chat tells its model's template, and what no template would read."""

from typing import Any

import pytest

from gateway.api.openai.extension_params import PRIVATE
from gateway.api.openai.template_extras import MAX_DEPTH, MAX_KWARGS, MAX_NUMBER
from gateway.inference.generate_request import Chat
from protos.errors import InvalidRequest, UnsupportedParameter
from tests.gateway.api.openai.tools.offering import ChatFormat, Format, asked, model_of

QWEN = ChatFormat("tools", "enable_thinking", "documents", "note")
HARMONY = ChatFormat("tools", "reasoning_effort", "verbosity")
PLAIN = ChatFormat()


def extras(chat_format: ChatFormat, **fields: Any) -> dict[str, Any]:
    request = asked(model_of(Format(), chat_format), **fields)
    assert request.foreign is None
    assert isinstance(request.prompt, Chat)
    return request.prompt.extras


@pytest.mark.parametrize(
    ("chat_format", "fields", "expected"),
    [
        (HARMONY, {"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        (QWEN, {"reasoning_effort": "none"}, {"enable_thinking": False}),
        (ChatFormat("thinking"), {"reasoning_effort": "none"}, {"thinking": False}),
        (HARMONY, {"verbosity": "high"}, {"verbosity": "high"}),
        (PLAIN, {"verbosity": "medium"}, {}),
        (QWEN, {"chat_template_kwargs": {"enable_thinking": False}}, {"enable_thinking": False}),
        (QWEN, {"chat_template_kwargs": {"note": ["x", {"a": MAX_NUMBER}]}}, {"note": ["x", {"a": MAX_NUMBER}]}),
        (QWEN, {"chat_template_kwargs": {}, "documents": []}, {}),
        (QWEN, {"documents": [{"title": "a", "text": "b"}]}, {"documents": [{"title": "a", "text": "b"}]}),
        (HARMONY, {"chat_template_kwargs": {"reasoning_effort": "high"}}, {"reasoning_effort": "high"}),
        (QWEN, {"reasoning_effort": "low"}, {"enable_thinking": True}),
        (QWEN, {"enable_thinking": False}, {"enable_thinking": False}),
        (QWEN, {"thinking": {"type": "disabled"}}, {"enable_thinking": False}),
        (QWEN, {"thinking": {"type": "enabled", "budget_tokens": 512}}, {"enable_thinking": True}),
        (QWEN, {"reasoning": {"effort": "none"}}, {"enable_thinking": False}),
        (QWEN, {"reasoning": {"enabled": True}}, {"enable_thinking": True}),
        (QWEN, {"reasoning": {"effort": "low", "exclude": True}}, {"enable_thinking": True}),
        (HARMONY, {"reasoning": {"effort": "high"}, "reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        (HARMONY, {"enable_thinking": False}, {"reasoning_effort": "none"}),
        (HARMONY, {"enable_thinking": True}, {}),
        (PLAIN, {"reasoning_effort": "high", "verbosity": "low", "enable_thinking": True}, {}),
        (
            QWEN,
            {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}},
            {"enable_thinking": True},
        ),
    ],
)
def test_what_a_template_is_told(chat_format: ChatFormat, fields: dict[str, Any], expected: dict[str, Any]) -> None:
    assert extras(chat_format, **fields) == expected


@pytest.mark.parametrize(
    ("chat_format", "fields", "param"),
    [
        (PLAIN, {"documents": [{}]}, "documents"),
        (PLAIN, {"chat_template_kwargs": {"enable_thinking": False}}, "chat_template_kwargs.enable_thinking"),
    ],
)
def test_what_no_template_reads_is_left_to_upstreams(
    chat_format: ChatFormat, fields: dict[str, Any], param: str
) -> None:
    foreign = asked(model_of(Format(), chat_format), **fields).foreign
    assert foreign is not None
    assert (foreign.param, foreign.code) == (param, "unsupported_parameter")


@pytest.mark.parametrize(
    ("chat_format", "fields", "told"),
    [
        (QWEN, {"reasoning_effort": "low"}, ("reasoning_effort=enable_thinking:true",)),
        (QWEN, {"reasoning_effort": "none", "verbosity": "medium"}, ("reasoning_effort=enable_thinking:false",)),
        (PLAIN, {"reasoning_effort": "low", "verbosity": "high"}, ("reasoning_effort=ignored", "verbosity=ignored")),
        (PLAIN, {"enable_thinking": False}, ("enable_thinking=ignored",)),
        (QWEN, {"enable_thinking": False}, ()),
        (HARMONY, {"reasoning_effort": "low", "verbosity": "high"}, ()),
    ],
)
def test_what_became_of_hints_is_told(chat_format: ChatFormat, fields: dict[str, Any], told: tuple[str, ...]) -> None:
    assert asked(model_of(Format(), chat_format), **fields).adjusted == told


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"reasoning_effort": "lots"}, "reasoning_effort"),
        ({"enable_thinking": "yes"}, "enable_thinking"),
        ({"thinking": {}}, "thinking.type"),
        ({"thinking": True}, "thinking"),
        ({"reasoning": {"effort": "lots"}}, "reasoning.effort"),
        ({"verbosity": "loud"}, "verbosity"),
        ({"documents": ["x"]}, "documents[0]"),
        ({"chat_template_kwargs": []}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
        ({"chat_template_kwargs": {"tools": []}}, "chat_template_kwargs.tools"),
        ({"chat_template_kwargs": {"a b": 1}}, "chat_template_kwargs.a b"),
        ({"chat_template_kwargs": {"note": MAX_NUMBER + 1}}, "chat_template_kwargs.note"),
        ({"chat_template_kwargs": {"note": [{"x": -1e300}]}}, "chat_template_kwargs.note"),
        ({"chat_template_kwargs": {"note": nested(MAX_DEPTH + 1)}}, "chat_template_kwargs.note"),
        ({"chat_template_kwargs": {f"a{i}": 1 for i in range(MAX_KWARGS + 1)}}, "chat_template_kwargs"),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        asked(model_of(Format(), QWEN), **fields)
    assert caught.value.param == param


def test_the_largest_that_is_taken() -> None:
    assert extras(QWEN, chat_template_kwargs={"note": nested(MAX_DEPTH)})


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt_cache_key": "x", "safety_identifier": "y", "user": "z"},
        {"prompt_cache_retention": "in_memory", "prompt_cache_options": {"mode": "implicit"}},
        {"store": False, "metadata": {}, "service_tier": "auto", "modalities": ["text"]},
        {"top_k": -1, "parallel_tool_calls": True, "n": 1, "logprobs": False},
        {"functions": [], "function_call": "none", "tools": [], "tool_choice": "none"},
        {"tool_choice": "auto"},
    ],
)
def test_hints_and_defaults_ask_for_nothing(fields: dict[str, Any]) -> None:
    request = asked(model_of(), **fields)
    plain = asked(model_of())
    assert (request.foreign, request.guide, request.parser) == (None, None, None)
    assert (request.prompt, request.sampling) == (plain.prompt, plain.sampling)


@pytest.mark.parametrize("value", ["x\r\nset-cookie: a=b", "größe", 3, ["a"], None])
def test_no_text_of_a_client_gets_into_the_answers_headers(value: object) -> None:
    fields = {"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": value}}
    assert asked(model_of(Format(), QWEN), **fields).adjusted == ("reasoning_effort=ignored",)


@pytest.mark.parametrize("name", sorted(PRIVATE))
def test_what_reaches_beyond_its_request_goes_to_no_upstream(name: str) -> None:
    with pytest.raises(UnsupportedParameter) as caught:
        asked(model_of(), **{name: {"other": 1}})
    assert caught.value.param == name
