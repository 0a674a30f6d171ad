"""HTTP as bytes on a socket: what a test sends is what the gateway gets, and what it answers is what a test sees."""

import http.client
import json
import re
import socket
from collections.abc import Iterator
from typing import Any

import orjson

from tests.e2e.stack import HANGS_SECONDS, MODEL, Stack

#: What must never be in an answer: paths, tracebacks and the names of what the gateway is built from.
INTERNAL = re.compile(rb"Traceback|File \"|\.py\b|/tmp/|/home/|site-packages|msgspec|granian|unix:|valkey", re.I)
Answer = tuple[int, dict[str, str], bytes]
#: Streams that are not closed yet: a test that fails leaves some, and conftest.py closes them.
OPEN: set["Stream"] = set()


def connect(stack: Stack, timeout: float = HANGS_SECONDS) -> socket.socket:
    return socket.create_connection(("127.0.0.1", stack.port), timeout=timeout)


def request_bytes(
    stack: Stack,
    body: bytes = b"",
    *,
    method: str = "POST",
    path: str = "/v1/chat/completions",
    headers: dict[str, str] | None = None,
) -> bytes:
    """A whole request; a header that is given as empty is left out."""
    fields = {
        "Host": "localhost",
        "Authorization": f"Bearer {stack.key}",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **(headers or {}),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


def read_answer(connection: socket.socket, method: str = "POST") -> Answer:
    response = http.client.HTTPResponse(connection, method=method)
    try:
        response.begin()
        body = response.read()
    finally:
        response.close()
    return response.status, {name.lower(): value for name, value in response.getheaders()}, body


def ask(stack: Stack, body: bytes | dict[str, Any] = b"", **request: Any) -> Answer:
    """One request on a connection of its own."""
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    with connect(stack) as connection:
        connection.sendall(request_bytes(stack, data, **request))
        return read_answer(connection, request.get("method", "POST"))


def error_of(answer: Answer, status: int) -> dict[str, Any]:
    """The error object of an answer that must be one in OpenAI's form, and must give nothing away."""
    assert answer[0] == status, answer
    assert not INTERNAL.search(answer[2]), answer[2]
    assert answer[1]["content-type"] == "application/json"
    assert answer[1]["x-request-id"].startswith("req_")
    body = json.loads(answer[2])
    assert list(body) == ["error"]
    error: dict[str, Any] = body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert error["message"]
    assert isinstance(error["type"], str)
    return error


def chat(content: str = "Hello!", **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": content}], **fields}


def endless(**fields: Any) -> dict[str, Any]:
    """A request that the paced engine answers for a minute."""
    return chat(**{"stream": True, "max_tokens": 30_000, "ignore_eos": True, **fields})


class Stream:
    """A streamed answer, read as it arrives."""

    def __init__(
        self, stack: Stack, body: dict[str, Any], *, receive_buffer: int = 0, headers: dict[str, str] | None = None
    ) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(HANGS_SECONDS)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(("127.0.0.1", stack.port))
        self.worker = 0
        self.socket.sendall(request_bytes(stack, orjson.dumps(body), headers=headers))
        self.response = http.client.HTTPResponse(self.socket, method="POST")
        OPEN.add(self)

    def begin(self) -> int:
        self.response.begin()
        return self.response.status

    def events(self) -> Iterator[bytes]:
        """The payload of each event, until the end of the answer."""
        while line := self.response.readline():
            if line.startswith(b"data: "):
                yield line.removeprefix(b"data: ").rstrip(b"\n")

    def until_token(self) -> None:
        """Read up to the first chunk with text."""
        for event in self.events():
            if event != b"[DONE]" and json.loads(event)["choices"][0]["delta"].get("content"):
                return
        raise AssertionError("the stream ended without a token")

    def rest(self) -> list[bytes]:
        """What is left, however it ends."""
        found: list[bytes] = []
        try:
            found.extend(self.events())
        except (OSError, http.client.HTTPException):
            found.append(b"cut")
        return found

    def close(self) -> None:
        OPEN.discard(self)
        self.response.close()
        self.socket.close()


def begun(stack: Stack, *, headers: dict[str, str] | None = None, **fields: Any) -> Stream:
    """An endless stream whose first token is there."""
    stream = Stream(stack, endless(**fields), headers=headers)
    assert stream.begin() == 200
    stream.until_token()
    return stream
