"""What comes of a batch's requests: lines of its output and of its errors, and the files that they end in."""

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

#: The names of a part's two contents end so.
OUTPUT: Final = ".output"
ERRORS: Final = ".errors"
#: All of a task has been done.
WHOLE: Final = "*"
_EXPIRED: Final = b'{"code":"batch_expired","message":"The batch expired before this request was executed."}'


def answered(custom_id: str, status: int, request_id: str, body: bytes) -> bytes:
    """The line of a request that was answered, whatever with; `body` is JSON on one line."""
    return b'{"id":%b,"custom_id":%b,"response":{"status_code":%d,"request_id":%b,"body":%b},"error":null}\n' % (
        orjson.dumps("batch_req_" + secrets.token_hex(12)),
        msgspec.json.encode(custom_id),
        status,
        orjson.dumps(request_id),
        body.replace(b"\n", b" "),
    )


def never_sent(custom_id: str) -> bytes:
    """The line of a request whose time was over before its turn."""
    name = msgspec.json.encode(custom_id)
    return b'{"id":%b,"custom_id":%b,"response":null,"error":%b}\n' % (
        orjson.dumps("batch_req_" + secrets.token_hex(12)),
        name,
        _EXPIRED,
    )


def done_of(text: str) -> int:
    """What has been done of a task: a bit for each of its requests, the first one's the lowest; -1: all."""
    return -1 if text == WHOLE else int(text, 16) if text else 0


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Where the requests are that nobody has begun: `name` is the input's content, `done` what was done by task."""

    name: str
    tasks: Sequence[Task]
    done: Mapping[int, str]


@dataclass(slots=True)
class Written:
    """The lengths of the two files, 0 for one that there is none of, and how many requests were never begun."""

    output: int = 0
    errors: int = 0
    expired: int = 0


def write_results(
    content: FileContent, parts: Sequence[str], output: str, errors: str, leftovers: Leftovers | None
) -> Written:
    """Put parts together, task by task, in each as its answers came; blocks. It may be done again and again.

    `parts` are the names of their contents less their ends, `output` and `errors` those of the files.
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
    """One of the two files; it is made once there is something in it."""

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
