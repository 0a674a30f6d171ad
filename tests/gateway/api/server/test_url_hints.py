"""Paths that are nearly right."""

import pytest

from tests.asgi import CHAT, gateway_of
from tests.harness import engine_of


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/v1/chat/completions/", CHAT),
        ("/v1//chat/completions", CHAT),
        ("/v1/v1/chat/completions", CHAT),
        ("/chat/completions", CHAT),
        ("/openai/v1/chat/completions", CHAT),
        ("/api/chat/completions", CHAT),
        ("/openai/deployments/gpt-4o/chat/completions", CHAT),
        ("//v1/models", "/v1/models"),
        ("/models", "/v1/models"),
        ("/v1/healthz", "/healthz"),
        ("/v1", None),
        ("/", None),
        ("/v1/chat/completion", None),
        ("/a" * 2000, None),
    ],
)
async def test_a_path_that_is_nearly_right_gets_a_hint(store_url: str, path: str, meant: str | None) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        answer = await client.request("POST", path)
        assert (answer.status, answer.error["code"]) == (404, "unknown_url")
        message = answer.error["message"]
        assert message.endswith(f"Did you mean {meant}?") if meant else "Did you mean" not in message
        assert len(message) < 300
