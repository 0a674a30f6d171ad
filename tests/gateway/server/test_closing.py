"""Answers that end their connections."""

import pytest
from starlette.types import Message, Receive, Scope, Send

from gateway.server.closing import closing


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"x", "more_body": False})


async def nothing() -> Message:
    raise AssertionError("nobody asks")


@pytest.mark.parametrize(("version", "closes"), [("1.1", True), ("1", True), ("2", False)])
async def test_every_answer_ends_its_connection_where_the_protocol_has_a_header_for_it(
    version: str, closes: bool
) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await closing(answer)({"type": "http", "http_version": version}, nothing, send)
    assert ((b"connection", b"close") in sent[0]["headers"]) is closes
    assert sent[1]["body"] == b"x"
