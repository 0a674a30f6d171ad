"""Models behind Triton, from the client's request to the server's answer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from routing.transports.triton.settings import Kind
from tests.asgi import Client, gateway_of
from tests.fake_triton import FakeTriton
from tests.harness import MODEL, engine_of, readable_corpus, tekken
from tests.loops import until

GREEDY = {"temperature": 0, "seed": 3}


@contextlib.asynccontextmanager
async def client_of(store_url: str, *fakes: FakeTriton) -> AsyncIterator[Client]:
    """A worker with a pool for each server."""
    async with contextlib.AsyncExitStack() as stack:
        pools = []
        for number, fake in enumerate(fakes):
            address = await stack.enter_async_context(fake.serving())
            pool: dict[str, Any] = {"name": f"p{number}", "engine": "triton", "replicas": [f"grpc://{address}"]}
            pools.append(pool | {"triton": {"model": fake.model, "kind": fake.kind.value}})
        running = gateway_of(store_url, model_fields={"pools": pools}, routing={"policy": "least_load"})
        client = await stack.enter_async_context(running)
        fleet = client.gateway.models[MODEL].fleet
        # One that is ready may be asked for a sign of life still, and is not ready any more once others have given it.
        await until(lambda: not fleet.problems() and not any(c._probe for c in fleet._connections.values()))
        yield client


def triton(kind: Kind) -> FakeTriton:
    return FakeTriton(engine_of(corpus=readable_corpus()), kind)


@pytest.mark.parametrize("kind", list(Kind))
async def test_chats_are_answered_whole_and_streamed(store_url: str, kind: Kind) -> None:
    fake = triton(kind)
    async with client_of(store_url, fake) as client:
        whole = await client.chat(**GREEDY)
        assert whole.status == 200, whole.body
        text = whole.json["choices"][0]["message"]["content"]
        assert text
        streamed = await client.chat(**GREEDY, stream=True)
        assert streamed.events[-1] == "[DONE]"
        deltas = [event["choices"][0]["delta"] for event in streamed.events[:-1]]
        assert "".join(delta.get("content") or "" for delta in deltas) == text
    if kind is Kind.ENGINE:
        (end,) = tekken().tokenizer.eos_ids
        assert fake.asked[-1].values["end_id"] == [end]
    else:
        assert fake.asked[-1].values["text_input"] == [b"[INST]Hello![/INST]"]


async def test_what_no_replica_can_do_is_refused_by_its_name(store_url: str) -> None:
    async with client_of(store_url, triton(Kind.ENSEMBLE)) as client:
        for path, fields, said in (
            ("chat", {"n": 2}, "several answers"),
            ("chat", {"logprobs": True}, "logprobs"),
            ("complete", {"prompt": [1, 2]}, "prompts of token ids"),
        ):
            answer = await getattr(client, path)(**fields)
            assert answer.status == 400
            assert said in answer.error["message"]


async def test_an_answer_that_is_cut_off_goes_on_where_token_ids_are_taken(store_url: str) -> None:
    text, ids = triton(Kind.BLS), triton(Kind.ENGINE)
    async with client_of(store_url, text, ids) as client:
        text.breaks_after = 4
        # Several at once: neither replica gets them all.
        answers = await asyncio.gather(*(client.chat(stream=True, max_tokens=30) for _ in range(8)))
        for answer in answers:
            assert answer.status == 200
            assert answer.events[-1] == "[DONE]", answer.events[-1]
        assert any(len(asked.values["input_ids"]) > 6 for asked in ids.asked)


async def test_a_prompt_that_is_too_long_for_the_engine_is_the_clients_error(store_url: str) -> None:
    fake = triton(Kind.ENGINE)
    async with client_of(store_url, fake) as client:
        fake.refuses = "Prompt length (9) exceeds maximum input length (8)."
        answer = await client.chat()
        assert (answer.status, answer.error["code"]) == (400, "context_length_exceeded")
        fake.refuses = "CUDA error at /opt/secret"
        answer = await client.chat()
        assert (answer.status, answer.error["code"]) == (502, "replica_failed")
        assert "secret" not in answer.error["message"]
