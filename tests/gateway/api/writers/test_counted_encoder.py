"""Counts in every chunk of a stream."""

from typing import Any

import orjson
import pytest

from gateway.api.writers.api_adapter import Counts
from gateway.api.writers.counted_encoder import CountedEncoder
from tests.asgi import gateway_of
from tests.harness import engine_of


def chunks(body: bytes) -> list[Any]:
    return [orjson.loads(line.removeprefix(b"data: ")) for line in body.split(b"\n\n") if line.startswith(b"data: {")]


@pytest.mark.parametrize("tools", [False, True])
async def test_every_chunk_has_the_counts_so_far(store_url: str, tools: bool) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    fields: dict[str, Any] = {"max_tokens": 6, "stream": True, "stream_options": options}
    if tools:
        fields["tools"] = [{"type": "function", "function": {"name": "f"}}]
    async with gateway_of(store_url, engine_of()) as client:
        found = chunks((await client.chat(**fields)).body)
    counted = [chunk["usage"]["completion_tokens"] for chunk in found]
    assert counted == sorted(counted)
    assert (counted[0], counted[-1]) == (0, 6)
    assert len({chunk["usage"]["prompt_tokens"] for chunk in found}) == 1


class Plain:
    """An encoder whose events are numbers of tokens."""

    def __init__(self) -> None:
        self.tokens = 0

    def encode(self, events: list[Any]) -> bytes:
        self.tokens += sum(events)
        return b'data: {"text":",\\"usage\\":null}\\n\\n","usage":null}\n\n' if events[0] else b""


def test_each_event_has_the_counts_of_its_moment() -> None:
    plain = Plain()
    encoder = CountedEncoder(plain, lambda: Counts(5, plain.tokens))  # type: ignore[arg-type]
    found = chunks(encoder.encode([2, 0, 3]))  # type: ignore[list-item]
    assert [chunk["usage"]["completion_tokens"] for chunk in found] == [2, 5]
    assert {chunk["text"] for chunk in found} == {',"usage":null}\n\n'}


async def test_without_usage_it_asks_for_nothing(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        options = {"continuous_usage_stats": True}
        found = chunks((await client.chat(max_tokens=3, stream=True, stream_options=options)).body)
        assert all("usage" not in chunk for chunk in found)
        # A text cannot be taken for the end of a chunk.
        options = {"include_usage": True, "continuous_usage_stats": False}
        found = chunks((await client.chat(max_tokens=3, stream=True, stream_options=options)).body)
        assert [chunk["usage"] for chunk in found[:-1]] == [None] * (len(found) - 1)
