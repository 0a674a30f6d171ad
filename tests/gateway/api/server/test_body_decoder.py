"""What a body may hold: every parameter's range, what is refused by name, and what is no JSON at all."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.api.openai.chat import CHAT, ChatBody
from gateway.api.openai.completion_api import CompletionApi
from gateway.api.openai.completions import COMPLETIONS
from gateway.api.openai.extension_params import ANYTHING, EXTENSIONS, Api, Extension
from gateway.api.openai.sampling_params import MAX_STOP_CHARS, MAX_STOPS
from protos.errors import InvalidRequest, PenstockError, UnsupportedParameter

BASES: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "x"}]},
    "completions": {"model": "m", "prompt": "x"},
}
DIALECTS = {"chat": CHAT, "completions": COMPLETIONS}
SHORT = b'{"model":"m","messages":[{"role":"user","content":"x"}]'


@pytest.fixture(params=sorted(DIALECTS))
def api(request: pytest.FixtureRequest) -> tuple[CompletionApi, dict[str, Any]]:
    return DIALECTS[request.param], BASES[request.param]


def decode(completion_api: CompletionApi, fields: dict[str, Any]) -> Any:
    return completion_api.decode(orjson.dumps(fields))


def refusal(completion_api: CompletionApi, body: bytes) -> PenstockError:
    with pytest.raises(PenstockError) as caught:
        completion_api.decode(body)
    assert caught.value.status == 400
    assert len(caught.value.message) < 1000
    return caught.value


#: Parameter -> values inside its range, values outside it.
RANGES: dict[str, tuple[list[Any], list[Any]]] = {
    "max_tokens": ([1, 2**31 - 1, -1], [0, -2, 2**31, 10**30, 1.5, "1", True, [], {}]),
    "temperature": ([0, 0.0, 1, 2.0], [-0.1, 2.1, 1e300, "hot", [], True]),
    "top_p": ([0, 0.5, 1], [-0.1, 1.1, "1"]),
    "n": ([1, 128], [0, 129, -1, 1.5, "1", 10**30]),
    "stop": (["x", ["x"], ["a"] * MAX_STOPS, [], ""], [[*"a" * (MAX_STOPS + 1)], ["s"] * 10_000, 5, {}]),
    "seed": ([0, -1, 2**63 - 1, -(2**63)], [2**63, -(2**63) - 1, 1.5, "x"]),
    "presence_penalty": ([-2, 0, 2], [-2.1, 2.1, "x"]),
    "frequency_penalty": ([-2, 0, 2], [-2.1, 2.1, "x"]),
    "logit_bias": ([{}, {"5": 1}, {"5": -100, "7": 100}], [{"5": 101}, {"x": 1}, {"-1": 1}, [1], {"5": "x"}]),
    "top_k": ([1, 50, 0, -1], [-2, 1.5]),
    "min_p": ([0, 1], [-0.1, 1.1]),
    "repetition_penalty": ([0.1, 10], [0, -1, 10.1]),
    "min_tokens": ([0, 5], [-1, 1.5]),
    "stop_token_ids": ([[], [5]], [["x"], [-1], [1] * 17, 5]),
    "ignore_eos": ([True, False], ["yes", 1]),
    "stream": ([True, False], ["true", 1]),
    "user": (["", "u"], [5, "x" * 513]),
    "model": (["m"], ["", 5, None, "x" * 257, []]),
}


@pytest.mark.parametrize("name", sorted(RANGES))
def test_a_parameter_inside_its_range_is_taken(api: tuple[CompletionApi, dict[str, Any]], name: str) -> None:
    completion_api, base = api
    for value in RANGES[name][0]:
        decode(completion_api, base | {name: value})


@pytest.mark.parametrize("name", sorted(RANGES))
def test_a_parameter_outside_its_range_is_refused_by_name(api: tuple[CompletionApi, dict[str, Any]], name: str) -> None:
    completion_api, base = api
    for value in RANGES[name][1]:
        if (completion_api, name, value) == (COMPLETIONS, "max_tokens", 0):
            continue  # an answer of no tokens: the prompt alone
        # orjson writes no integers beyond 64 bits; the leading number is written as it is.
        body = orjson.dumps(base | {name: None})
        text = str(value).encode() if type(value) is int else orjson.dumps(value)
        error = refusal(completion_api, body.replace(b'"%b":null' % name.encode(), b'"%b":%b' % (name.encode(), text)))
        assert error.param is not None
        assert error.param.split("[")[0] == name
        assert type(error) is InvalidRequest


@pytest.mark.parametrize("name", sorted(set(RANGES) - {"model"}))
def test_null_asks_for_nothing(api: tuple[CompletionApi, dict[str, Any]], name: str) -> None:
    completion_api, base = api
    assert decode(completion_api, base | {name: None}) == decode(completion_api, base)


CHAT_ONLY: dict[str, list[Any]] = {
    "audio": [{"voice": "x"}],
    "function_call": [{"name": "f"}],
    "functions": [[{"name": "f"}]],
    "modalities": [["audio"], ["text", "audio"]],
    "prediction": [{}],
    "prompt_cache_options": [{"mode": "explicit"}],
    "response_format": [{"type": "json_object"}],
    "web_search_options": [{}],
}
BOTH: dict[str, list[Any]] = {"service_tier": ["flex"], "store": [True]}


@pytest.mark.parametrize(
    ("api_name", "name", "value"),
    [("chat", name, value) for name, values in (CHAT_ONLY | BOTH).items() for value in values]
    + [("completions", name, value) for name, values in BOTH.items() for value in values],
)
def test_what_cannot_be_honoured_is_refused_by_name(api_name: str, name: str, value: object) -> None:
    error = refusal(DIALECTS[api_name], orjson.dumps(BASES[api_name] | {name: value}))
    assert type(error) is UnsupportedParameter
    assert (error.param, error.code) == (name, "unsupported_parameter")
    assert name in error.message


@pytest.mark.parametrize("extension", EXTENSIONS, ids=lambda extension: extension.name)
def test_values_of_extensions_that_ask_for_nothing_are_taken(extension: Extension) -> None:
    for api_name, api in (("chat", Api.CHAT), ("completions", Api.COMPLETIONS)):
        completion_api, base = DIALECTS[api_name], BASES[api_name]
        taken = ["x", 7, {"a": "b"}] if extension.taken is ANYTHING else extension.taken
        for value in (None, *taken) if api in extension.apis else ():
            assert decode(completion_api, base | {extension.name: value}) == decode(completion_api, base)


@pytest.mark.parametrize("extension", EXTENSIONS, ids=lambda extension: extension.name)
def test_other_values_of_extensions_are_refused_by_name(extension: Extension) -> None:
    for api_name, api in (("chat", Api.CHAT), ("completions", Api.COMPLETIONS)):
        if api in extension.apis and extension.taken is not ANYTHING:
            error = refusal(DIALECTS[api_name], orjson.dumps(BASES[api_name] | {extension.name: ["other"]}))
            assert (type(error), error.param) == (UnsupportedParameter, extension.name)


def test_a_bound_that_is_none_is_taken(api: tuple[CompletionApi, dict[str, Any]]) -> None:
    completion_api, base = api
    assert decode(completion_api, base | {"max_tokens": -1, "stop": ""}) == decode(completion_api, base)


@pytest.mark.parametrize(
    ("api_name", "fields"),
    [
        (
            "chat",
            {"response_format": {"type": "text"}, "modalities": ["text"], "functions": [], "function_call": "none"},
        ),
        ("chat", dict.fromkeys(CHAT_ONLY)),
        ("completions", dict.fromkeys(("best_of", "echo", "suffix"))),
    ],
)
def test_defaults_of_what_is_unsupported_ask_for_nothing(api_name: str, fields: dict[str, Any]) -> None:
    completion_api, base = DIALECTS[api_name], BASES[api_name]
    assert decode(completion_api, base | fields) == decode(completion_api, base)


def test_a_default_of_the_unsupported_changes_nothing_else(api: tuple[CompletionApi, dict[str, Any]]) -> None:
    completion_api, base = api
    fields = {"logit_bias": {"5": 1.5}, "stop": ["a"], "seed": 3, "temperature": 1, "stop_token_ids": [4]}
    assert decode(completion_api, base | fields | {"store": False}) == decode(completion_api, base | fields)
    assert refusal(completion_api, orjson.dumps(base | {"store": False, "n": 0})).param == "n"


def test_an_unknown_parameter_is_refused_by_name(api: tuple[CompletionApi, dict[str, Any]]) -> None:
    completion_api, base = api
    error = refusal(completion_api, orjson.dumps(base | {"temprature": 1}))
    assert error.param == "temprature"
    assert error.message == "Unrecognized request argument supplied: temprature"
    long = refusal(completion_api, orjson.dumps(base | {"z" * 5000: 1}))
    assert long.param is not None
    assert len(long.param) < 100
    assert refusal(completion_api, orjson.dumps(base | {"stream_options": {"x": 1}})).param == "stream_options.x"
    # Together with one that asks for nothing:
    assert refusal(completion_api, orjson.dumps(base | {"store": None, "temprature": 1})).param == "temprature"


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        (None, "messages"),
        ([], "messages"),
        ("hello", "messages"),
        ({}, "messages"),
        ([5], "messages[0]"),
        ([{"role": "user", "content": "x"}, {}], "messages[1].role"),
        ([{"role": "wizard", "content": "x"}], "messages[0].role"),
        ([{"role": "w" * 5000, "content": "x"}], "messages[0].role"),
        ([{"role": 5, "content": "x"}], "messages[0].role"),
        ([{"role": "user", "content": 5}], "messages[0].content"),
        ([{"role": "user", "content": [5]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{}]}], "messages[0].content[0].type"),
        ([{"role": "user", "content": "x", "foo": 1}], "messages[0].foo"),
        ([{"role": "user", "content": "x", "name": 5}], "messages[0].name"),
    ],
)
def test_messages_that_are_none_are_refused_where_they_are_wrong(messages: Any, param: str) -> None:
    assert refusal(CHAT, orjson.dumps({"model": "m", "messages": messages})).param == param


@pytest.mark.parametrize("prompt", [None, [], 5, {}, True, [None], [[["x"]]], [True], [1.5], [10**18, "x", {}]])
def test_prompts_that_are_none_are_refused(prompt: Any) -> None:
    param = refusal(COMPLETIONS, orjson.dumps({"model": "m", "prompt": prompt})).param
    assert param is not None
    assert param.startswith("prompt")


@pytest.mark.parametrize(("missing", "api_name"), [("messages", "chat"), ("prompt", "completions"), ("model", "chat")])
def test_what_is_missing_is_named(missing: str, api_name: str) -> None:
    fields = {key: value for key, value in BASES[api_name].items() if key != missing}
    error = refusal(DIALECTS[api_name], orjson.dumps(fields))
    assert error.param == missing
    assert error.message == f"Missing required parameter: '{missing}'."


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"}",
        b"[]",
        b"null",
        b"5",
        b'"x"',
        b"{}garbage",
        b"\x00",
        b"\xff\xfe",
        SHORT,
        SHORT + b"}x",
        SHORT + b',"temperature":NaN}',
        SHORT + b',"temperature":Infinity}',
        SHORT + b',"temperature":-Infinity}',
        SHORT + b',"temperature":1e999}',
        SHORT + b',"temperature":' + b"9" * 10_000 + b"}",
        SHORT + b',"max_tokens":' + b"9" * 10_000 + b"}",
        SHORT + b',"seed":-' + b"9" * 10_000 + b"}",
        SHORT + b',"n":1,}',
        SHORT + b",n:1}",
        SHORT + b",'n':1}",
        SHORT + b',"tools":' + b"[" * 100_000,
        SHORT + b',"tools":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        SHORT + b',"metadata":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
        b"[" * 100_000 + b"]" * 100_000,
        b'{"model":"m","messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"model":"m","messages":[{"role":"user","content":"\\ud800"}]}',
        b'{"model":"m","messages":[{"role":"user","content":"\\udc00\\ud800"}]}',
        b'{"model":"m","messages":[{"role":"user","content":"\xff"}]}',
        b'{"model":"m","messages":[{"role":"user","content":"\xed\xa0\x80"}]}',
        b'{"model":"m","messages":[{"role":"user","content":"\\x"}]}',
        b'{"model":"m","messages":[{"role":"user","content":"\n"}]}',
        b'{"model":"\\ud800","messages":[{"role":"user","content":"x"}]}',
    ],
)
@pytest.mark.parametrize("with_unsupported", [False, True])
def test_what_is_no_valid_json_is_refused(body: bytes, with_unsupported: bool) -> None:
    # The second decoder, for bodies with parameters that are not known here, must refuse the same.
    if with_unsupported and body.startswith(b'{"model"'):
        body = b'{"store":null,' + body[1:]
    refusal(CHAT, body)


def test_of_a_key_that_comes_twice_the_last_counts() -> None:
    for extra in (b"", b',"store":null'):
        body = CHAT.decode(SHORT + b',"n":3,"n":2' + extra + b"}")
        assert isinstance(body, ChatBody)
        assert body.n == 2


@given(cut=st.integers(0, len(SHORT)), data=st.data())
def test_a_truncated_body_is_refused(cut: int, data: st.DataObject) -> None:
    refusal(CHAT, (SHORT + b"}")[:cut])
    del data


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=12,
    ),
    st.sampled_from([*RANGES, "messages", "tools", "stream_options", "response_format", "metadata", "zzz"]),
)
def test_any_value_anywhere_is_taken_or_refused(value: Any, name: str) -> None:
    for dialect_name, completion_api in DIALECTS.items():
        try:
            body = orjson.dumps(BASES[dialect_name] | {name: value})
        except TypeError:  # integers beyond 64 bits, lone surrogates
            return
        try:
            completion_api.decode(body)
        except PenstockError as error:
            assert error.status == 400
            assert len(error.message) < 1000


def test_stop_strings_are_bounded_in_length() -> None:
    decode(CHAT, BASES["chat"] | {"stop": "x" * MAX_STOP_CHARS})
    assert refusal(CHAT, orjson.dumps(BASES["chat"] | {"stop": "x" * (MAX_STOP_CHARS + 1)})).param == "stop"
    assert refusal(CHAT, orjson.dumps(BASES["chat"] | {"stop": ["ok", ""]})).param == "stop[1]"


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"stream": True, "stream_options": {"include_usage": True}}, True),
        ({"stream": True, "stream_options": {"include_usage": False}}, False),
        ({"stream": True, "stream_options": {"include_usage": None, "include_obfuscation": False}}, False),
        ({"stream": True, "stream_options": {}}, False),
        ({"stream": True}, False),
        ({}, False),
        ({"stream_options": None}, False),
    ],
)
def test_usage_in_a_stream(fields: dict[str, Any], wanted: bool) -> None:
    assert decode(CHAT, BASES["chat"] | fields).include_usage is wanted


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": False, "stream_options": {}}, "stream_options"),
        (
            {"stream": True, "stream_options": {"include_obfuscation": True}},
            "stream_options.include_obfuscation",
        ),
    ],
)
def test_stream_options_that_make_no_sense_are_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(PenstockError) as caught:
        _ = decode(CHAT, BASES["chat"] | fields).include_usage
    assert (caught.value.status, caught.value.param) == (400, param)
