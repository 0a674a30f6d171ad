"""What a client makes of an answer, streamed or whole."""

from typing import Any

from tests.asgi import Answer


def shown(answer: Answer) -> dict[int | str, Any]:
    """Text, logprobs and end of each choice, and the usage; nothing that differs from request to request."""
    if not answer.headers["content-type"].startswith("text/event-stream"):
        return _whole(answer)
    found: dict[int | str, Any] = {}
    assert answer.events[-1] == "[DONE]"
    for event in answer.events[:-1]:
        for choice in event["choices"]:
            own = found.setdefault(choice["index"], {"text": "", "logprobs": [], "end": None})
            assert own["end"] is None
            own["text"] += choice["delta"].get("content", "")
            own["logprobs"] += (choice["logprobs"] or {}).get("content", [])
            own["end"] = choice["finish_reason"]
        if event.get("usage"):
            found["usage"] = event["usage"]
    return found


def _whole(answer: Answer) -> dict[int | str, Any]:
    found: dict[int | str, Any] = {
        choice["index"]: {
            "text": choice["message"]["content"],
            "logprobs": (choice["logprobs"] or {}).get("content", []),
            "end": choice["finish_reason"],
        }
        for choice in answer.json["choices"]
    }
    found["usage"] = answer.json["usage"]
    return found
