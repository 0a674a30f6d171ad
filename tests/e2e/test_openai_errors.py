"""The official client's error classes, each raised for what it means."""

import json
import time

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.e2e.stack import HANGS_SECONDS, MODEL, Stack

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hello!"}]


def with_key(stack: Stack, key: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=stack.base_url, api_key=key, max_retries=0, timeout=HANGS_SECONDS)


def say_hello(client: openai.OpenAI) -> None:
    assert client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=2).choices


def create_key(stack: Stack, name: str, *options: str) -> dict[str, str]:
    done = stack.run("keys", "create", "--name", name, "--json", *options)
    assert done.returncode == 0, done.stderr
    key: dict[str, str] = json.loads(done.stdout)
    return key


@pytest.mark.parametrize("key", ["wrong", "sk-penstock-" + "A" * 43, "sk-" + "x" * 3000])
def test_a_key_that_is_none(stack: Stack, key: str) -> None:
    with with_key(stack, key) as client, pytest.raises(openai.AuthenticationError) as caught:
        say_hello(client)
    assert caught.value.code == "invalid_api_key"
    assert caught.value.request_id is not None
    assert key not in str(caught.value)


def test_no_key_at_all(stack: Stack) -> None:
    with with_key(stack, "unused") as client, pytest.raises(openai.AuthenticationError) as caught:
        client.chat.completions.create(model=MODEL, messages=HELLO, extra_headers={"Authorization": openai.Omit()})
    assert "didn't provide an API key" in caught.value.message


def test_a_revoked_key_is_refused_within_a_second_by_every_worker(stack: Stack) -> None:
    key = create_key(stack, "to-revoke")
    clients = [with_key(stack, key["key"]) for _ in range(24)]  # connections of their own: both workers get some
    try:
        for client in clients:
            say_hello(client)
        done = stack.run("keys", "revoke", key["id"])
        revoked = time.monotonic()
        assert done.returncode == 0, done.stderr
        assert key["id"] in done.stdout
        time.sleep(max(0.0, revoked + 1.0 - time.monotonic()))  # the promise itself is a time
        for client in clients:
            with pytest.raises(openai.AuthenticationError) as caught:
                say_hello(client)
            assert "revoked" in caught.value.message
    finally:
        for client in clients:
            client.close()


def test_keys_are_listed_without_their_secrets(stack: Stack) -> None:
    key = create_key(stack, "to-list")
    shown = stack.run("keys", "list")
    assert shown.returncode == 0, shown.stderr
    assert key["id"] in shown.stdout
    assert key["key"] not in shown.stdout
    assert {"quickstart", "to-list"} <= {
        entry["name"] for entry in json.loads(stack.run("keys", "list", "--json").stdout)
    }
    assert stack.run("keys", "revoke", "nobody-has-this").returncode == 1


def test_a_key_for_other_models(stack: Stack) -> None:
    key = create_key(stack, "limited", "--models", "llama-*")["key"]
    with with_key(stack, key) as client:
        with pytest.raises(openai.PermissionDeniedError) as caught:
            say_hello(client)
        assert caught.value.param == "model"
        assert list(client.models.list()) == []
        with pytest.raises(openai.PermissionDeniedError):
            client.models.retrieve(MODEL)


def test_a_model_that_is_not_there(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="gpt-4o", messages=HELLO)
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    assert "gpt-4o" in caught.value.message
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-4o")


def test_a_prompt_that_is_too_long(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "river " * 40_000}])
    assert caught.value.code == "context_length_exceeded"
    assert caught.value.param == "messages"
    assert "32768" in caught.value.message
    asked = [int(word) for word in caught.value.message.split() if word.isdigit() and word != "32768"]
    assert any(figure >= 40_000 for figure in asked), caught.value.message


def test_an_answer_that_is_too_long(client: openai.OpenAI) -> None:
    # It is cut to what the context leaves, and the client told.
    with client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=32_768, stream=True) as stream:
        told = stream.response.headers["x-penstock-adjusted"]
        assert next(iter(stream)).choices
    assert 32_000 < int(told.removeprefix("max_tokens=")) < 32_768


def test_a_completion_that_is_too_long_names_its_own_parameter(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model=MODEL, prompt="river " * 40_000)
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "prompt")


#: A schema like others, but nothing keeps to it: the engine says so.
IMPOSSIBLE = {
    "type": "json_schema",
    "json_schema": {"name": "none", "schema": {"type": "integer", "minimum": 5, "maximum": 4}},
}


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools[0].type"),
        ({"response_format": IMPOSSIBLE}, "response_format"),
        ({"extra_body": {"documents": [{"text": "x"}]}}, "documents"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"temperature": 3}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"n": 0}, "n"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"stop": ["a"] * 10_000}, "stop"),
        ({"stop": ["a", ""]}, "stop[1]"),
        ({"logit_bias": {"99999999": 1}}, "logit_bias"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"extra_body": {"no_such_thing": 1}}, "no_such_thing"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_parameter_at_fault_is_named(client: openai.OpenAI, options: dict[str, object], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=HELLO, **options)  # type: ignore[call-overload]
    assert caught.value.param == param
    assert caught.value.type == "invalid_request_error"
    if param in ("tools[0].type", "response_format", "documents", "modalities"):
        assert caught.value.code == "unsupported_parameter"
        assert param in caught.value.message


def test_a_body_over_the_limit(client: openai.OpenAI) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "x" * (1 << 20)}])
    assert caught.value.status_code == 413
    assert caught.value.code == "request_too_large"
    say_hello(client)
