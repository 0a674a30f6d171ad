"""The gateway in front of Transformers' own server: chats, streams, cancelled ones, and an engine that dies."""

import json
import time

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.e2e.raw import ask
from tests.e2e.stack import Stack, eventually
from tests.real.engine import RealEngine

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "the lamp is lit"}]


@pytest.mark.parametrize("model", ["tiny", "opaque"])
def test_a_whole_answer(client: openai.OpenAI, model: str) -> None:
    answer = client.chat.completions.create(model=model, messages=MESSAGES, max_tokens=12)
    assert answer.model == model
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 12


@pytest.mark.parametrize("model", ["tiny", "opaque"])
@pytest.mark.parametrize("usage", [False, True])
def test_a_stream_ends_as_the_api_says_though_the_engines_does_not(
    client: openai.OpenAI, stack: Stack, model: str, usage: bool
) -> None:
    options = {"stream_options": {"include_usage": True}} if usage else {}
    body = {"model": model, "messages": MESSAGES, "max_tokens": 12, "stream": True, **options}
    status, _, data = ask(stack, json.dumps(body).encode())
    assert status == 200
    # The engine closes its stream after the last choice has finished, and sends no end mark.
    assert data.endswith(b"data: [DONE]\n\n")
    chunks = list(client.chat.completions.create(**body))  # type: ignore[call-overload]
    assert {chunk.model for chunk in chunks} == {model}
    assert chunks[-1].choices[0].finish_reason == "length" or usage
    told = [chunk.usage for chunk in chunks if chunk.usage]
    assert [counts.completion_tokens for counts in told] == ([12] if usage else [])


def test_a_client_that_leaves_does_not_hold_the_engine(client: openai.OpenAI, stack: Stack) -> None:
    for _ in range(3):
        stream = client.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=3000, stream=True)
        for _ in range(3):
            next(stream)
        stream.close()
    began = time.monotonic()
    answer = client.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=4)
    assert answer.choices[0].message.content
    # 3,000 tokens take the engine tens of seconds; it would be at them still.
    assert time.monotonic() - began < 20


def test_an_engine_that_dies_costs_nobody_an_answer(
    client: openai.OpenAI, stack: Stack, engines: list[RealEngine]
) -> None:
    engines[0].kill()
    for _ in range(6):
        answer = client.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=4)
        assert answer.choices[0].message.content
    engines[0].start()
    eventually(lambda: _ready(stack) == 2, "the engine is back", 60)


def test_with_all_engines_gone_another_model_answers(
    client: openai.OpenAI, stack: Stack, engines: list[RealEngine]
) -> None:
    for engine in engines:
        engine.kill()
    try:
        answer = client.chat.completions.create(model="opaque", messages=MESSAGES, max_tokens=4)
        assert answer.model == "simulated"
        with pytest.raises(openai.InternalServerError):
            client.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=4)
    finally:
        for engine in engines:
            engine.start()
    eventually(lambda: _ready(stack) == 2, "the engines are back", 60)


def _ready(stack: Stack) -> int:
    _, _, body = ask(stack, method="GET", path="/readyz")
    found: int = json.loads(body)["models"]["tiny"]["ready"]
    return found
