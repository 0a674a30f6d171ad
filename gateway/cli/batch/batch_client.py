"""The files and batches API of a running gateway, for `penstock batch`; files are streamed, never whole in memory."""

import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from gateway.cli.live_gateway import LiveGateway, LiveGatewayError

_PIECE_BYTES: Final = 1 << 18
#: Bytes: more than any error takes.
_LONGEST_ERROR: Final = 1 << 20


class BatchClient:
    """Calls the API; every method raises LiveGatewayError."""

    def __init__(self, gateway: LiveGateway) -> None:
        self._gateway = gateway

    def upload(self, path: Path, sent: Callable[[int], object]) -> str:
        """Upload a local file and return its id; `sent` gets each piece's length."""
        boundary = secrets.token_hex(16)
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{_quoted(path.name)}"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        ).encode()
        tail = f"\r\n--{boundary}--\r\n".encode()
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                headers = {
                    "content-type": f"multipart/form-data; boundary={boundary}",
                    "content-length": str(len(head) + size + len(tail)),
                }
                body = _pieces(head, file, tail, sent)
                with self._gateway.open_response("POST", "/v1/files", body, headers) as response:
                    status, answer = response.status, response.read(_LONGEST_ERROR)
        except OSError as error:
            raise LiveGatewayError(f"cannot read {path}: {error.strerror or error}") from error
        if status != 200:
            raise self._gateway.refusal(status, answer)
        return str(self._object(answer)["id"])

    def create(self, file_id: str, endpoint: str, metadata: Mapping[str, str]) -> dict[str, Any]:
        """Create a batch."""
        body: dict[str, Any] = {"input_file_id": file_id, "endpoint": endpoint, "completion_window": "24h"}
        if metadata:
            body["metadata"] = metadata
        headers = {"idempotency-key": secrets.token_hex(16)}
        return self._object(self._gateway.call("POST", "/v1/batches", body, headers))

    def get(self, batch_id: str) -> dict[str, Any]:
        """Return a batch's current state."""
        return self._object(self._gateway.call("GET", f"/v1/batches/{_id(batch_id)}"))

    def cancel(self, batch_id: str) -> dict[str, Any]:
        """Begin to cancel a batch."""
        return self._object(self._gateway.call("POST", f"/v1/batches/{_id(batch_id)}/cancel"))

    def newest(self, count: int) -> list[dict[str, Any]]:
        """List the batches that were created last."""
        answer = self._object(self._gateway.call("GET", f"/v1/batches?limit={count}"))
        return cast("list[dict[str, Any]]", answer["data"])

    def download(self, file_id: str, write: Callable[[bytes], object]) -> None:
        """Pass a file's content to `write`, piece by piece."""
        with self._gateway.open_response("GET", f"/v1/files/{_id(file_id)}/content", None, {}) as response:
            if response.status != 200:
                raise self._gateway.refusal(response.status, response.read(_LONGEST_ERROR))
            while piece := response.read(_PIECE_BYTES):
                write(piece)

    def _object(self, answer: bytes) -> dict[str, Any]:
        try:
            found = json.loads(answer)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise LiveGatewayError(f"what answers at {self._gateway.shown_url} is no Penstock gateway")
        return found


def _pieces(head: bytes, file: BinaryIO, tail: bytes, sent: Callable[[int], object]) -> Iterator[bytes]:
    yield head
    while piece := file.read(_PIECE_BYTES):
        yield piece
        sent(len(piece))
    yield tail


def _quoted(name: str) -> str:
    return "".join(char if char.isprintable() and char not in '"\\' else "_" for char in name)


def _id(text: str) -> str:
    """Return the id if it is fit for a path."""
    if not text or not all(char.isalnum() or char in "_-" for char in text) or not text.isascii():
        raise LiveGatewayError(f"{text[:64]!r} is no id")
    return text
