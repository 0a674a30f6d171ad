"""A long conversation through a whole gateway: every turn's prompt is right at the engine, and little of it is new."""

from typing import Any

import pytest

from gateway.text.tokens.bpe import BytePairTokenizer
from gateway.text.tokens.mistral_instruct import MistralInstruct
from gateway.text.tokens.prompt_unit import Unit
from tests.asgi import gateway_of
from tests.harness import engine_of, tekken

CONTEXT = 60_000
QUESTION = "How do the tides move the boats in the harbour, and when do they come home? " * 40


def messages(turns: int) -> list[dict[str, Any]]:
    """A conversation with so many questions, each answered but for the last."""
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": f"{n}: {QUESTION}"} for n in range(2 * turns - 1)]


@pytest.mark.parametrize("routing", [None, {"policy": "round_robin"}])
async def test_each_turn_is_encoded_once(
    store_url: str, monkeypatch: pytest.MonkeyPatch, routing: dict[str, Any] | None
) -> None:
    encoded: list[int] = []
    own = BytePairTokenizer.encode_unit

    def counted(tokenizer: BytePairTokenizer, unit: Unit) -> list[int]:
        encoded.append(sum(map(len, unit.parts)))
        return own(tokenizer, unit)

    monkeypatch.setattr(BytePairTokenizer, "encode_unit", counted)
    engine = engine_of(max_sequence_tokens=CONTEXT)
    prompts: list[list[int]] = []
    submit = engine.submit

    def noted(handle: int, request: Any) -> None:
        prompts.append(list(request.prompt_ids))
        submit(handle, request)

    monkeypatch.setattr(engine, "submit", noted)
    async with gateway_of(store_url, engine, model_fields={"context": CONTEXT}, routing=routing) as client:
        for turns in (8, 9, 10, 10):
            encoded.clear()
            answer = await client.chat(messages=messages(turns), max_tokens=4)
            assert answer.status == 200
            expected = MistralInstruct().encode_chat(tekken().tokenizer, messages(turns))
            assert prompts[-1] == expected
            assert answer.json["usage"]["prompt_tokens"] == len(expected)
            if turns > 8:
                # A turn, and what stood behind the last unit that was closed.
                assert sum(encoded) < 2 * 2 * len(QUESTION) + 8192
        other = await client.complete(prompt=QUESTION * 6, max_tokens=4)
        assert other.status == 200
        assert prompts[-1] == [tekken().tokenizer.bos_id, *tekken().tokenizer.encode(QUESTION * 6, special=False)]
