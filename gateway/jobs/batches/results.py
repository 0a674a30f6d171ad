"""Results of a batch's requests: lines of its output and errors, and the files made of them."""

import contextlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import orjson

from gateway.jobs.batches.batch_records import Task
from gateway.jobs.batches.lines import read_line, requests_of
from gateway.jobs.files.content import PIECE_BYTES, FileContent, Sink

#: Suffixes of the names of a part's two contents.
OUTPUT: Final = ".output"
ERRORS: Final = ".errors"
#: The progress of a finished task.
WHOLE: Final = "*"
_EXPIRED: Final = b'{"code":"batch_expired","message":"The batch expired before this request was executed."}'


def answered(custom_id: str, status: int, request_id: str, body: bytes) -> bytes:
    """Make the line of a request with any answer; `body` is JSON on one line."""
    return b'{"id":%b,"custom_id":%b,"response":{"status_code":%d,"request_id":%b,"body":%b},"error":null}\n' % (
        orjson.dumps("batch_req_" + secrets.token_hex(12)),
        msgspec.json.encode(custom_id),
        status,
        orjson.dumps(request_id),
        body.replace(b"\n", b" "),
    )


def never_sent(custom_id: str) -> bytes:
    """Make the line of a request that was not sent before the batch's time was over."""
    name = msgspec.json.encode(custom_id)
    return b'{"id":%b,"custom_id":%b,"response":null,"error":%b}\n' % (
        orjson.dumps("batch_req_" + secrets.token_hex(12)),
        name,
        _EXPIRED,
    )


def done_of(text: str) -> int:
    """Decode the progress of a task: a bit for each of its requests, the first one's the lowest; -1: all."""
    return -1 if text == WHOLE else int(text, 16) if text else 0


@dataclass(frozen=True, slots=True)
class Leftovers:
    """The requests that were never begun: `name` is the input's content, `done` the progress by task."""

    name: str
    tasks: Sequence[Task]
    done: Mapping[int, str]


@dataclass(slots=True)
class Written:
    """The lengths of the two files, 0 for an absent one, and the number of requests that were never begun."""

    output: int = 0
    errors: int = 0
    expired: int = 0


def write_results(
    content: FileContent, parts: Sequence[str], output: str, errors: str, leftovers: Leftovers | None
) -> Written:
    """Join parts, task by task and within a task in the order of answers. Blocks; may be repeated.

    `parts` are the names of their contents without suffixes, `output` and `errors` those of the files.
    """
    written = Written()
    with contextlib.ExitStack() as ending:
        for end, name in ((OUTPUT, output), (ERRORS, errors)):
            file = _File(content, name)
            ending.callback(file.abort)
            for part in sorted(parts):
                file.copy(part + end)
            if end == ERRORS and leftovers is not None:
                for line in _never_sent(content, leftovers):
                    written.expired += 1
                    file.write(line)
            file.commit()
            if end == OUTPUT:
                written.output = file.size
            else:
                written.errors = file.size
    return written


class _File:
    """One of the two files; it is created with its first byte."""

    def __init__(self, content: FileContent, name: str) -> None:
        self._content = content
        self._name = name
        self._sink: Sink | None = None
        self._gathered = bytearray()
        self.size = 0

    def copy(self, name: str) -> None:
        start = 0
        with contextlib.suppress(FileNotFoundError):
            while piece := self._content.read(name, start, PIECE_BYTES):
                start += len(piece)
                self.write(piece)

    def write(self, data: bytes) -> None:
        self._gathered += data
        self.size += len(data)
        if len(self._gathered) >= PIECE_BYTES:
            self._flush()

    def commit(self) -> None:
        if self.size:
            self._flush()
            assert self._sink is not None
            self._sink.commit()

    def abort(self) -> None:
        if self._sink is not None:
            self._sink.abort()

    def _flush(self) -> None:
        if self._sink is None:
            self._sink = self._content.create(self._name)
        self._sink.write(bytes(self._gathered))
        self._gathered.clear()


def _never_sent(content: FileContent, leftovers: Leftovers) -> Iterator[bytes]:
    for number, task in enumerate(leftovers.tasks):
        done = done_of(leftovers.done.get(number, ""))
        if done == -1:
            continue
        raw = content.read(leftovers.name, task.offset, task.length)
        for position, line in enumerate(requests_of(raw)):
            if not done >> position & 1:
                yield never_sent(read_line(line).custom_id)
