"""Bodies that are wrong in every way: the right 4xx, the parameter's name, nothing internal, and never a 500."""

import json
from typing import Any

import orjson
import pytest

from tests.e2e.raw import ask, chat, error_of
from tests.e2e.stack import MODEL, Stack

IMAGE = "https://example.org/a.png"
VALID = orjson.dumps(chat("Hello!", max_tokens=2))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"null",
        b"[]",
        b'"text"',
        b"42",
        b"{}",
        b"\xff\xfe\x00",
        b"\xef\xbb\xbf" + VALID,
        VALID + b"x",
        VALID + VALID,
        b"<xml/>",
        b"a=b&c=d",
        b"--boundary\r\n",
        b'{"model": NaN}',
        b'{"model": Infinity}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"model": "m", "metadata": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"model": "m", "no_such": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}",
        b'{"messages": [{"role": "user", "content": "\xff"}]}',
    ],
    ids=lambda body: repr(body[:24]),
)
def test_bodies_that_are_no_request(stack: Stack, body: bytes) -> None:
    for path in ("/v1/chat/completions", "/v1/completions"):
        error = error_of(ask(stack, body, path=path), 400)
        assert error["type"] == "invalid_request_error"
        assert len(error["message"]) < 500


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({}, 413),
        ({"path": "/v1/batches"}, 413),
        ({"path": "/v1/files"}, 400),
        ({"path": "/v1/nothing"}, 404),
        ({"path": "/v1/models"}, 405),
        ({"headers": {"Authorization": "Bearer nobody"}}, 401),
    ],
)
@pytest.mark.parametrize("chunked", [False, True])
def test_who_writes_a_long_body_before_reading_gets_the_answer(
    stack: Stack, request_: dict[str, Any], status: int, chunked: bool
) -> None:
    """A connection that is closed with bytes unread is reset, and the answer is lost with it."""
    body = b"x" * 4_000_000
    headers = request_.get("headers", {})
    if chunked:
        headers = {**headers, "Content-Length": "", "Transfer-Encoding": "chunked"}
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    error_of(ask(stack, body, **{**request_, "headers": headers}), status)


def test_every_truncation(stack: Stack) -> None:
    for end in range(1, len(VALID)):
        error_of(ask(stack, VALID[:end]), 400)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": None}, "model"),
        ({"model": 5}, "model"),
        ({"model": ""}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": [1]}, "messages[0]"),
        ({"messages": [{"content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "wizard", "content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": 1, "content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}, "messages[0].content[0].type"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "messages[0].content[0].image_url.url",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": IMAGE}}]}]},
            "messages[0].content[0].type",
        ),
        ({"messages": [{"role": "user", "content": "Hi", "no_such": 1}]}, "messages[0].no_such"),
        ({"stream": "yes"}, "stream"),
        ({"stream": 1}, "stream"),
        ({"stream_options": {"include_usage": 5}, "stream": True}, "stream_options.include_usage"),
        ({"max_tokens": "10"}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": -2}, "max_tokens"),
        ({"max_tokens": 10**30}, "max_tokens"),
        ({"max_completion_tokens": 10**12}, "max_completion_tokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 1e308}, "temperature"),
        ({"top_p": 1.1}, "top_p"),
        ({"n": 129}, "n"),
        ({"n": True}, "n"),
        ({"seed": 2**70}, "seed"),
        ({"seed": 1.25}, "seed"),
        ({"presence_penalty": 2.1}, "presence_penalty"),
        ({"frequency_penalty": [0]}, "frequency_penalty"),
        ({"logit_bias": []}, "logit_bias"),
        ({"logit_bias": {"5": 101}}, "logit_bias"),
        ({"logit_bias": {"five": 1}}, "logit_bias"),
        ({"logprobs": 5}, "logprobs"),
        ({"stop": 5}, "stop"),
        ({"stop": [5]}, "stop[0]"),
        ({"stop": ["x"] * 10_000}, "stop"),
        ({"stop": "x" * 100_000}, "stop"),
        ({"user": {}}, "user"),
        ({"x" * 5000: 1}, None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_value_is_named(stack: Stack, fields: dict[str, Any], param: str | None) -> None:
    body = encoded({**chat("Hello!", max_tokens=2), **fields})
    error = error_of(ask(stack, body), 400)
    assert error["type"] == "invalid_request_error"
    if param is not None:
        assert error["param"] == param
    assert len(error["message"]) < 500
    assert len(error["param"] or "") < 200


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ["a"] * 129}, "prompt"),
        ({"prompt": ["a", [1], 2]}, "prompt[2]"),
        ({"prompt": [[]]}, "prompt[0]"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [10**9]}, "prompt"),
        ({"prompt": [1.5]}, "prompt[0]"),
        ({"prompt": {"a": 1}}, "prompt"),
        ({"prompt": [1, "a"]}, "prompt[0]"),
        ({"prompt": [True]}, "prompt[0]"),
        ({"logprobs": 6}, "logprobs"),
        ({"echo": True, "logprobs": 1, "stream": True}, "echo"),
        ({"best_of": 3, "stream": True}, "best_of"),
        ({"best_of": 1, "n": 2}, "best_of"),
        ({"suffix": 5}, "suffix"),
        ({"suffix": "end", "prompt": [1]}, "suffix"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_value_of_a_completion_is_named(stack: Stack, fields: dict[str, Any], param: str) -> None:
    body = encoded({"model": MODEL, "prompt": "Hi", "max_tokens": 2, **fields})
    error = error_of(ask(stack, body, path="/v1/completions"), 400)
    assert error["param"] == param


@pytest.mark.parametrize(
    "number", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b"0x10", b"01", b"1" * 5000]
)
def test_numbers_that_are_none(stack: Stack, number: bytes) -> None:
    for name in (b"temperature", b"max_tokens", b"seed"):
        error_of(ask(stack, VALID[:-1] + b',"%b":%b}' % (name, number)), 400)


@pytest.mark.parametrize("text", ["\\ud800", "\\udc00x", "a\\ud83d", "\\ud83d\\ud83d"])
def test_lone_surrogates(stack: Stack, text: str) -> None:
    body = VALID.replace(b"Hello!", text.encode())
    error_of(ask(stack, body), 400)
    error_of(ask(stack, VALID.replace(MODEL.encode(), text.encode())), 400)
    error_of(ask(stack, VALID[:-1] + b',"stop":"%b"}' % text.encode()), 400)
    error_of(ask(stack, VALID[:-1] + b',"user":"%b"}' % text.encode()), 400)


def test_text_that_looks_like_a_template_or_a_mark_is_text(stack: Stack) -> None:
    for text in ("{{ 1/0 }}", "{% raise %}", "[INST] </s> <s>", "\\u0000", "\\u202e", "\U0001f3f4" * 50):
        assert ask(stack, VALID.replace(b"Hello!", text.encode()))[0] == 200


def test_conversations_in_odd_orders(stack: Stack) -> None:
    """The template may refuse them, as a request that is at fault."""
    for roles in (["assistant"], ["system"], ["user", "user"], ["assistant", "assistant"], ["user", "system"]):
        messages = [{"role": role, "content": "Hi"} for role in roles]
        answer = ask(stack, {"model": MODEL, "messages": messages, "max_tokens": 1})
        if answer[0] != 200:
            assert error_of(answer, 400)["param"] == "messages"


def test_empty_content_is_content(stack: Stack) -> None:
    assert ask(stack, chat("", max_tokens=1))[0] == 200


def test_many_messages(stack: Stack) -> None:
    messages = [{"role": role, "content": "x"} for _ in range(6000) for role in ("user", "assistant")]
    error_of(ask(stack, {"model": MODEL, "messages": messages}), 400)


def test_a_repeated_field(stack: Stack) -> None:
    status, _, _ = ask(stack, VALID[:-1] + b',"max_tokens":3}')
    assert status in (200, 400)


def encoded(body: dict[str, Any]) -> bytes:
    """Unlike orjson, this writes integers beyond 64 bits."""
    return json.dumps(body).encode()
