"""What the tests of the Responses API read answers with."""

from typing import Any

import orjson
from openai._models import validate_type
from openai.types.responses import Response, ResponseStreamEvent


def checked(response: dict[str, Any]) -> dict[str, Any]:
    """A response object, which must be what openai-python says it is."""
    validate_type(type_=Response, value=response)
    return response


def events_in(stream: bytes, *, first: int = 0) -> list[dict[str, Any]]:
    """A stream's events: each is of its type, has its name in front, and the numbers leave nothing out."""
    parts = stream.decode().split("\n\n")
    assert parts.pop() == ""
    events = []
    for number, part in enumerate(parts, first):
        name, data = part.split("\n")
        event: dict[str, Any] = orjson.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        assert event["sequence_number"] == number
        validate_type(type_=ResponseStreamEvent, value=event)  # type: ignore[arg-type]
        events.append(event)
    return events


def types_of(events: list[dict[str, Any]]) -> list[str]:
    """The events' names without what all have in common."""
    return [event["type"].removeprefix("response.") for event in events]
