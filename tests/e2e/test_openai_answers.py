"""The official client, with nothing but its base URL and key changed: what it gets when all goes well."""

import asyncio
import math

import openai
import pytest
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam

from tests.e2e.stack import MODEL, Stack

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Tell me of rivers."}]


def collect(chunks: list[ChatCompletionChunk], index: int = 0) -> str:
    return "".join(c.delta.content or "" for chunk in chunks for c in chunk.choices if c.index == index)


def ask(client: openai.OpenAI, **options: object) -> str:
    answer = client.chat.completions.create(model=MODEL, messages=HELLO, seed=7, max_tokens=60, **options)  # type: ignore[call-overload]
    text = answer.choices[0].message.content
    assert isinstance(text, str)
    return text


def test_a_chat(client: openai.OpenAI) -> None:
    # Without a seed one in a thousand is shorter.
    answer = client.chat.completions.create(model=MODEL, messages=HELLO, seed=7, max_tokens=20)
    assert answer.id.startswith("chatcmpl-")
    assert answer.object == "chat.completion"
    assert answer.model == MODEL
    assert answer.system_fingerprint is not None
    assert "simulated" in answer.system_fingerprint
    choice = answer.choices[0]
    assert (choice.index, choice.message.role, choice.finish_reason) == (0, "assistant", "length")
    assert choice.message.content
    assert choice.logprobs is None
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 20
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 20
    assert answer._request_id is not None


def test_a_streamed_chat_says_the_same(client: openai.OpenAI) -> None:
    whole = ask(client)
    with client.chat.completions.create(model=MODEL, messages=HELLO, seed=7, max_tokens=60, stream=True) as stream:
        chunks = list(stream)
    assert collect(chunks) == whole
    assert chunks[0].choices[0].delta.role == "assistant"
    assert all(chunk.choices[0].delta.role is None for chunk in chunks[1:])
    reasons = [chunk.choices[0].finish_reason for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + ["length"]
    assert len({(chunk.id, chunk.created, chunk.model, chunk.system_fingerprint) for chunk in chunks}) == 1
    assert len(chunks) > 30, "tokens must come as they are made"


def test_completions(client: openai.OpenAI) -> None:
    whole = client.completions.create(model=MODEL, prompt="Once upon a time", max_tokens=30, seed=3)
    assert whole.object == "text_completion"
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 30
    with client.completions.create(
        model=MODEL, prompt="Once upon a time", max_tokens=30, seed=3, stream=True
    ) as stream:
        chunks = list(stream)
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    assert chunks[-1].choices[0].finish_reason == "length"


def test_a_completion_of_token_ids(client: openai.OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt=[1, 1000, 1001], max_tokens=4)
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 3


def test_several_choices(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=HELLO, n=2, max_tokens=25, seed=5)
    assert [choice.index for choice in answer.choices] == [0, 1]
    texts = [choice.message.content for choice in answer.choices]
    assert texts[0] != texts[1]
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 50
    with client.chat.completions.create(model=MODEL, messages=HELLO, n=2, max_tokens=25, seed=5, stream=True) as stream:
        chunks = list(stream)
    assert [collect(chunks, 0), collect(chunks, 1)] == texts
    ends = [c.index for chunk in chunks for c in chunk.choices if c.finish_reason == "length"]
    assert sorted(ends) == [0, 1]


def test_a_stop_string_ends_before_itself(client: openai.OpenAI) -> None:
    whole = ask(client)
    # From the middle of one word to the middle of another: no token boundary can coincide with both ends.
    middle = whole.index(" ", len(whole) // 2)
    stop = whole[middle - 2 : middle + 3]
    for cut in (stop, [stop, "never said"]):
        assert ask(client, stop=cut) == whole[: whole.index(stop)]
    with client.chat.completions.create(
        model=MODEL, messages=HELLO, seed=7, max_tokens=60, stop=stop, stream=True
    ) as stream:
        chunks = list(stream)
    assert collect(chunks) == whole[: whole.index(stop)]
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_every_place_can_hold_the_stop_string(client: openai.OpenAI) -> None:
    whole = ask(client)
    for start in range(10, 40):
        stop = whole[start : start + 6]
        assert ask(client, stop=stop) == whole[: whole.index(stop)], stop


def test_a_seed_and_no_temperature_repeat(client: openai.OpenAI) -> None:
    assert ask(client) == ask(client)
    free = [client.chat.completions.create(model=MODEL, messages=HELLO, temperature=0, max_tokens=30) for _ in range(2)]
    assert free[0].choices[0].message.content == free[1].choices[0].message.content
    assert free[0].id != free[1].id


def test_a_natural_end(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=HELLO, max_completion_tokens=2000, seed=1)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert 1 <= answer.usage.completion_tokens < 2000


def test_logprobs(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=HELLO, max_tokens=12, seed=2, logprobs=True, top_logprobs=3
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert len(logprobs.content) == 12
    said = b"".join(bytes(entry.bytes or []) for entry in logprobs.content)
    assert said.decode() == answer.choices[0].message.content
    for entry in logprobs.content:
        assert entry.logprob <= 0
        assert len(entry.top_logprobs) == 3
        assert sum(math.exp(top.logprob) for top in entry.top_logprobs) <= 1.001
    with client.chat.completions.create(
        model=MODEL, messages=HELLO, max_tokens=12, seed=2, logprobs=True, top_logprobs=3, stream=True
    ) as stream:
        chunks = list(stream)
    streamed = [
        entry.token
        for chunk in chunks
        for choice in chunk.choices
        if choice.logprobs is not None
        for entry in choice.logprobs.content or []
    ]
    assert streamed == [entry.token for entry in logprobs.content]


def test_completion_logprobs(client: openai.OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt="Rivers", max_tokens=5, logprobs=2, seed=4)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.tokens is not None
    assert "".join(logprobs.tokens) == answer.choices[0].text
    assert [len(top) for top in logprobs.top_logprobs or []] == [2] * 5


def test_usage_in_a_stream(client: openai.OpenAI) -> None:
    with client.chat.completions.create(
        model=MODEL, messages=HELLO, max_tokens=9, stream=True, stream_options={"include_usage": True}
    ) as stream:
        chunks = list(stream)
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 9
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-2].choices[0].finish_reason == "length"


def test_a_repeated_prompt_is_cached(client: openai.OpenAI) -> None:
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Moss grows slowly. " * 300}]
    usages = [client.chat.completions.create(model=MODEL, messages=messages, max_tokens=2).usage for _ in range(2)]
    assert usages[0] is not None
    assert usages[1] is not None
    assert usages[0].prompt_tokens == usages[1].prompt_tokens > 1000
    details = [usage.prompt_tokens_details for usage in usages if usage is not None]
    assert details[0] is not None
    assert details[1] is not None
    assert details[0].cached_tokens in (0, None) or details[0].cached_tokens < 64
    assert details[1].cached_tokens is not None
    assert usages[1].prompt_tokens - 64 <= details[1].cached_tokens < usages[1].prompt_tokens


def test_text_beyond_ascii(client: openai.OpenAI) -> None:
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Grüße aus 東京, 👩‍🚀 und \u0000 café"}]
    said = ""
    for seed in range(4):
        options = {"model": MODEL, "messages": messages, "seed": seed, "max_tokens": 300}
        whole = client.chat.completions.create(**options).choices[0].message.content  # type: ignore[call-overload]
        with client.chat.completions.create(stream=True, **options) as stream:  # type: ignore[call-overload]
            assert collect(list(stream)) == whole
        assert "\ufffd" not in whole
        said += whole
    assert not said.isascii(), "the corpus has words beyond ASCII: more seeds are needed"


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]
    model = client.models.retrieve(MODEL)
    assert (model.id, model.object, model.owned_by) == (MODEL, "model", "penstock")


def test_raw_and_streaming_responses(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(model=MODEL, messages=HELLO, max_tokens=3)
    assert raw.headers["content-type"] == "application/json"
    assert raw.headers["x-request-id"] == raw.request_id
    assert raw.parse().choices[0].message.content
    with client.chat.completions.with_streaming_response.create(
        model=MODEL, messages=HELLO, max_tokens=3, stream=True
    ) as streaming:
        assert streaming.headers["content-type"].startswith("text/event-stream")
        assert streaming.headers["cache-control"] == "no-cache"
        lines = [line for line in streaming.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"


async def test_the_asynchronous_client(stack: Stack) -> None:
    async def one(client: openai.AsyncOpenAI, seed: int) -> tuple[str | None, str]:
        whole = await client.chat.completions.create(model=MODEL, messages=HELLO, seed=seed, max_tokens=40)
        stream = await client.chat.completions.create(
            model=MODEL, messages=HELLO, seed=seed, max_tokens=40, stream=True
        )
        async with stream:
            chunks = [chunk async for chunk in stream]
        return whole.choices[0].message.content, collect(chunks)

    async with openai.AsyncOpenAI(base_url=stack.base_url, api_key=stack.key, max_retries=0) as client:
        pairs = await asyncio.gather(*(one(client, seed) for seed in range(20)))
    assert all(whole == streamed for whole, streamed in pairs)
    assert len({whole for whole, _ in pairs}) == 20


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 1.5, "top_p": 0.5},
        {"presence_penalty": 1.0, "frequency_penalty": -1.0},
        {"logit_bias": {"1000": -100}},
        {"user": "someone"},
        {"response_format": {"type": "text"}},
        {"tools": []},
        {"store": False, "metadata": None, "service_tier": "auto"},
        {"extra_body": {"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1, "min_tokens": 2, "stop_token_ids": [5]}},
    ],
    ids=lambda options: "-".join(options),
)
def test_parameters_that_are_taken(client: openai.OpenAI, options: dict[str, object]) -> None:
    assert ask(client, **options)
