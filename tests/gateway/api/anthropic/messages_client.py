"""Asks the application for messages, in process."""

from collections.abc import Sequence
from typing import Any

import orjson

from tests.asgi import Answer, Client
from tests.harness import MODEL

MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
HELLO = [{"role": "user", "content": "Hello!"}]


async def ask(client: Client, path: str = MESSAGES, **fields: Any) -> Answer:
    """As Anthropic's clients do."""
    body = {"model": MODEL, "messages": HELLO} | fields
    if path == MESSAGES:
        body.setdefault("max_tokens", 20)
    headers = [(b"x-api-key", client.key.encode()), (b"anthropic-version", b"2023-06-01")]
    return await client.request("POST", path, body, headers)


def error_of(answer: Answer) -> dict[str, Any]:
    """Anthropic's error object, which must be one, with the request's id beside it."""
    parsed = answer.json
    assert set(parsed) == {"type", "error", "request_id"}
    assert parsed["type"] == "error"
    assert parsed["request_id"] == answer.headers["request-id"]
    error: dict[str, Any] = parsed["error"]
    assert set(error) - {"details"} == {"type", "message"}
    return error


def events_of(stream: bytes) -> list[dict[str, Any]]:
    """The stream's events; each says twice what it is."""
    *parts, rest = stream.decode().split("\n\n")
    assert rest == ""
    events = []
    for part in parts:
        name, data = part.split("\n")
        event = orjson.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return events


def text_of(events: Sequence[dict[str, Any]]) -> str:
    """All that the stream says."""
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    return "".join(delta.get("text", "") for delta in deltas)
