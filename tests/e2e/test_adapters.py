"""LoRA adapters and features that engines lack, with the official client and replicas in processes of their own."""

from collections.abc import Iterator

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.e2e.conftest import running
from tests.e2e.stack import HANGS_SECONDS, MODEL, Stack

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hello!"}]
ADAPTERS = """
    adapters: [{name: customer-1}, {name: customer-2, path: /loras/2}]
"""


@pytest.fixture(scope="module")
def lora() -> Iterator[Stack]:
    with running(replicas=2, simulated="instant: true, adapters: [customer-1], max_adapters: 2", more=ADAPTERS) as made:
        yield made


@pytest.fixture
def client(lora: Stack) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=lora.base_url, api_key=lora.key, max_retries=0, timeout=HANGS_SECONDS) as made:
        yield made


def said(client: openai.OpenAI, model: str) -> str | None:
    answer = client.chat.completions.create(model=model, messages=HELLO, max_tokens=20, seed=1)
    assert answer.model == model
    return answer.choices[0].message.content


def test_each_adapter_answers_in_its_own_way(client: openai.OpenAI) -> None:
    names = [MODEL, f"{MODEL}:customer-1", f"{MODEL}:customer-2"]
    answers = [said(client, name) for name in names]
    assert len(set(answers)) == 3
    assert [said(client, name) for name in names] == answers
    assert [model.id for model in client.models.list()] == names
    assert client.models.retrieve(names[1]).id == names[1]


def test_one_that_is_not_there(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        said(client, f"{MODEL}:customer-3")


def test_a_stream_shows_the_name_too(client: openai.OpenAI) -> None:
    name = f"{MODEL}:customer-1"
    with client.chat.completions.create(model=name, messages=HELLO, max_tokens=5, stream=True) as stream:
        assert {chunk.model for chunk in stream} == {name}


def test_what_the_engine_lacks_is_named(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=HELLO, web_search_options={})
    assert caught.value.param == "web_search_options"
