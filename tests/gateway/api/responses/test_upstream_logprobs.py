"""Logprobs that an upstream tells are the response's."""

from typing import Any

import orjson
import pytest

from tests.asgi import gateway_of
from tests.gateway.api.relay.test_relay_answer import NAME, hosted
from tests.upstreams import plain, streamed, upstream

LOGPROBS = [{"token": "hi", "logprob": -0.5, "bytes": [104, 105], "top_logprobs": [{"token": "ho", "logprob": -2.0}]}]
SHOWN = [
    {
        "token": "hi",
        "logprob": -0.5,
        "bytes": [104, 105],
        "top_logprobs": [{"token": "ho", "logprob": -2.0, "bytes": None}],
    }
]
USAGE = {"prompt_tokens": 3, "completion_tokens": 1}


def said(place: str, logprobs: Any, finish: str | None = "stop") -> dict[str, Any]:
    said = {"role": "assistant", "content": "hi"}
    choice = {"index": 0, place: said, "finish_reason": finish, "logprobs": logprobs}
    return {"choices": [choice], "usage": USAGE}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("logprobs", "shown"), [({"content": LOGPROBS}, SHOWN), (None, []), ({"content": "none of ours"}, []), ({}, [])]
)
async def test_they_are_told_as_they_came(store_url: str, stream: bool, logprobs: Any, shown: list[Any]) -> None:
    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)]) as client:
        if stream:
            chunk = orjson.dumps(said("delta", logprobs))
            found.behaves = streamed(b"data: " + chunk + b"\n\n", b"data: [DONE]\n\n")
        else:
            found.behaves = plain(orjson.dumps(said("message", logprobs)))
        body = {"model": NAME, "input": "Hello", "top_logprobs": 1, "stream": stream, "store": False}
        answer = await client.request("POST", "/v1/responses", body)
        assert answer.status == 200
        if stream:
            events = [orjson.loads(part.split(b"data: ")[1]) for part in answer.body.split(b"\n\n") if part]
            (delta,) = [event for event in events if event["type"] == "response.output_text.delta"]
            assert (delta.get("logprobs") or []) == shown
            final = events[-1]["response"]
        else:
            final = answer.json
        assert final["output"][0]["content"][0]["logprobs"] == shown
