"""Files and batches for tests: forms as clients send them, and lines of requests."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from openai.types import Batch

from tests.asgi import Answer, Client
from tests.harness import MODEL
from tests.loops import until

FILES, BATCHES = "/v1/files", "/v1/batches"
CHAT = "/v1/chat/completions"
_BOUNDARY = "a-boundary"


def form(data: bytes | None, *, filename: str = "in.jsonl", **fields: str) -> bytes:
    """A form with a file, behind its fields."""
    parts = [f'Content-Disposition: form-data; name="{name}"\r\n\r\n{text}'.encode() for name, text in fields.items()]
    if data is not None:
        head = f'Content-Disposition: form-data; name="file"; filename="{filename}"\r\nContent-Type: text/plain\r\n\r\n'
        parts.append(head.encode() + data)
    return b"".join(b"--%b\r\n%b\r\n" % (_BOUNDARY.encode(), part) for part in parts) + f"--{_BOUNDARY}--\r\n".encode()


def headers_of(client: Client, **more: str) -> list[tuple[bytes, bytes]]:
    """A client's, with the content type of `form`."""
    given = {"content-type": f"multipart/form-data; boundary={_BOUNDARY}"} | more
    found = [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()]
    return [(b"authorization", b"Bearer " + client.key.encode()), *found]


async def upload(client: Client, data: bytes, **fields: str) -> Answer:
    return await client.request("POST", FILES, form(data, **{"purpose": "batch"} | fields), headers_of(client))


async def file_id(client: Client, data: bytes) -> str:
    answer = await upload(client, data)
    assert answer.status == 200, answer.body
    return str(answer.json["id"])


def request_line(custom_id: str, **body: Any) -> bytes:
    messages = [{"role": "user", "content": f"Say {custom_id}"}]
    fields = {"model": MODEL, "messages": messages, "max_tokens": 4} | body
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": CHAT, "body": fields}).encode() + b"\n"


def request_lines(count: int, **body: Any) -> bytes:
    return b"".join(request_line(f"line-{number}", **body) for number in range(count))


async def create(client: Client, file: str, **fields: Any) -> Answer:
    body = {"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"} | fields
    return await client.request("POST", BATCHES, body)


async def batch_of(client: Client, data: bytes, **fields: Any) -> str:
    """The id of a batch that has just been made."""
    answer = await create(client, await file_id(client, data), **fields)
    assert answer.status == 200, answer.body
    return str(answer.json["id"])


async def once(client: Client, batch_id: str, condition: Callable[[Any], bool]) -> Any:
    """The batch as soon as the condition holds; it is always what openai-python says it is."""
    found: list[Any] = []

    async def look() -> bool:
        found[:] = [(await client.request("GET", f"{BATCHES}/{batch_id}")).json]
        Batch.model_validate(found[0], strict=True)
        return condition(found[0])

    async with asyncio.timeout(15):
        while not await look():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return found[0]


async def over(client: Client, batch_id: str) -> Any:
    """The batch once it has ended."""
    ended = ("completed", "failed", "expired", "cancelled")
    return await once(client, batch_id, lambda batch: batch["status"] in ended)


async def results(client: Client, of: str | None) -> dict[str, Any]:
    """What a file of results has, by custom id; each is there once."""
    if of is None:
        return {}
    answer = await client.request("GET", f"{FILES}/{of}/content")
    assert answer.status == 200
    found = [json.loads(line) for line in answer.body.splitlines()]
    by_id = {line["custom_id"]: line for line in found}
    assert len(by_id) == len(found)
    return by_id


async def idle(client: Client) -> None:
    """No request runs any more."""
    await until(lambda: not client.active)
