"""Through the application: tools that no model has are told in a header, wherever they are left out."""

from typing import Any

import pytest

from tests.asgi import gateway_of
from tests.gateway.api.responses.client import PATH
from tests.harness import MODEL, engine_of


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (PATH, {"max_output_tokens": 5}),
        (PATH, {"max_output_tokens": 5, "background": True}),
        (PATH, {"max_output_tokens": 5, "background": True, "stream": True}),
        (f"{PATH}/input_tokens", {}),
    ],
)
async def test_a_header_says_which(store_url: str, path: str, fields: dict[str, Any]) -> None:
    body = {"model": MODEL, "input": "x", "tools": [{"type": "web_search"}], **fields}
    async with gateway_of(store_url, engine_of()) as client:
        answer = await client.request("POST", path, body)
        assert (answer.status, answer.headers["x-penstock-adjusted"]) == (200, "tools[0]=web_search:ignored")
