"""Embeddings and whole text completions with OpenAI's own Python client, sync and async."""

import asyncio

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from tests.clients.conftest import EMBEDDER
from tests.e2e.stack import HANGS_SECONDS, MODEL, Stack


def test_every_input_of_embeddings(openai_client: OpenAI) -> None:
    create = openai_client.embeddings.create
    assert create(model=EMBEDDER, input="hello").data[0].embedding == [5.0, 0.5, 0.5]
    assert create(model=EMBEDDER, input=[1, 2, 3]).data[0].embedding[0] == 3.0
    lists = create(model=EMBEDDER, input=[[1, 2, 3], [4]], dimensions=3, user="me")
    assert [one.embedding[0] for one in lists.data] == [3.0, 1.0]
    many = create(model=EMBEDDER, input=["x" * (1 + at % 50) for at in range(2048)])
    assert [one.embedding[0] for one in many.data] == [1.0 + at % 50 for at in range(2048)]
    assert [one.index for one in many.data] == list(range(2048))
    assert many.usage.total_tokens == sum(1 + at % 50 for at in range(2048))


async def test_embeddings_beside_each_other(site: Stack) -> None:
    async with AsyncOpenAI(base_url=site.base_url, api_key=site.key, max_retries=0, timeout=HANGS_SECONDS) as client:
        found = await asyncio.gather(
            *(client.embeddings.create(model=EMBEDDER, input=["a" * size, "b"]) for size in range(1, 20))
        )
        assert [one.data[0].embedding[0] for one in found] == [float(size) for size in range(1, 20)]
        with pytest.raises(openai.BadRequestError, match="input"):
            await client.embeddings.create(model=EMBEDDER, input=["a", ""])
        with pytest.raises(openai.BadRequestError, match="embeddings"):
            await client.embeddings.create(model=MODEL, input="a")


def test_several_prompts_echo_suffix_and_best_of(openai_client: OpenAI) -> None:
    create = openai_client.completions.create
    answer = create(model=MODEL, prompt=["One", "Two", "Three"], n=2, echo=True, max_tokens=5)
    starts = ["One", "One", "Two", "Two", "Three", "Three"]
    assert [choice.index for choice in answer.choices] == list(range(6))
    assert all(choice.text.startswith(start) for choice, start in zip(answer.choices, starts, strict=True))
    texts = [""] * 2
    for chunk in create(model=MODEL, prompt=["One", "Two"], echo=True, max_tokens=5, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts[0].startswith("One")
    assert texts[1].startswith("Two")
    best = create(model=MODEL, prompt="One", best_of=3, n=1, max_tokens=4)
    assert len(best.choices) == 1
    assert best.usage is not None
    assert best.usage.completion_tokens <= 3 * 4
    assert create(model=MODEL, prompt="def f(", suffix="return x", max_tokens=4).choices[0].finish_reason
