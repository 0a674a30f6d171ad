"""Read and check the lines of a batch's input one at a time, so that no file is ever in memory whole."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from gateway.jobs.batches.batch_records import LineProblem, Task
from gateway.jobs.files.content import PIECE_BYTES, FileContent

#: Bounds on a task's requests and bytes: it is what a worker may have to do again.
TASK_REQUESTS: Final = 64
TASK_BYTES: Final = 1 << 20
#: After so many problems the rest of the file is not checked.
MOST_PROBLEMS: Final = 50
_LONGEST_ID: Final = 512
_BOM: Final = b"\xef\xbb\xbf"


class LineBody(msgspec.Struct, frozen=True):
    """The part of a request's body that must be known here; its endpoint checks the rest."""

    model: str
    stream: bool | None = None


class Line(msgspec.Struct, frozen=True):
    """One request of a batch."""

    custom_id: str
    method: str
    url: str
    body: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules for a batch's lines; `refuses_model` describes what is wrong with a model's name, or is empty."""

    endpoint: str
    max_requests: int
    max_body_bytes: int
    refuses_model: Callable[[str], str]

    @property
    def longest(self) -> int:
        """The bound on a line's bytes: those of its body and of the members around it."""
        return self.max_body_bytes + 4096


@dataclass(slots=True)
class Checked:
    """The tasks of a file, or its problems. `model` is that of all lines, or empty."""

    tasks: list[Task]
    problems: list[LineProblem]
    requests: int = 0
    model: str = ""


_LINE: Final = msgspec.json.Decoder(Line)
_BODY: Final = msgspec.json.Decoder(LineBody)


def read_line(raw: bytes) -> Line:
    """Decode a line that has been checked. Raises msgspec.DecodeError."""
    return _LINE.decode(raw)


def model_of(line: Line) -> str:
    """Return the model of a line."""
    return _BODY.decode(line.body).model


def requests_of(raw: bytes) -> list[bytes]:
    """Split a task into the lines that are requests, in order."""
    return [text for line in raw.split(b"\n") if (text := line.strip(b" \t\r"))]


def check(content: FileContent, name: str, size: int, rules: Rules) -> Checked:
    """Check every line. Blocks; memory is bounded by the longest line and the number of requests."""
    checker = _Checker(rules)
    for offset, raw in lines_of(content, name, size, rules.longest):
        checker.take(offset, raw)
        if checker.full:
            break
    return checker.end()


def lines_of(content: FileContent, name: str, size: int, longest: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield each line's offset and its bytes without the end; None for one longer than `longest`."""
    rest, start, offset = bytearray(), 0, 0
    skipping = False
    while offset < size:
        piece = content.read(name, offset, min(PIECE_BYTES, size - offset))
        if not piece:
            raise FileNotFoundError(name)
        offset += len(piece)
        rest += piece
        begin = 0
        while (end := rest.find(b"\n", begin)) >= 0:
            yield start, None if skipping or end - begin > longest else bytes(rest[begin:end])
            skipping = False
            start += end + 1 - begin
            begin = end + 1
        del rest[:begin]
        if len(rest) > longest:
            # The bytes of a line that is too long are dropped as they come.
            skipping, start = True, start + len(rest)
            rest.clear()
    if rest or skipping:
        yield start, None if skipping else bytes(rest)


class _Checker:
    """Checks the lines of one file in order."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._found = Checked([], [])
        self._number = 0
        # Digests, since the ids themselves may be long.
        self._ids: set[bytes] = set()
        self._models: set[str] = set()
        self._refused: dict[str, str] = {}
        self._task: list[int] | None = None

    @property
    def full(self) -> bool:
        """Whether no further problem is reported."""
        return len(self._found.problems) >= MOST_PROBLEMS or self._found.requests > self._rules.max_requests

    def take(self, offset: int, raw: bytes | None) -> None:
        """Check one more line."""
        self._number += 1
        if raw is None:
            self._problem("line_too_long", f"The line is longer than {self._rules.longest} bytes.")
            return
        skipped = len(_BOM) if self._number == 1 and raw.startswith(_BOM) else 0
        text = raw[skipped:].strip(b" \t\r")
        if not text:
            return
        self._found.requests += 1
        if self._found.requests > self._rules.max_requests:
            self._found.problems.append(
                LineProblem("too_many_requests", f"The file has more than {self._rules.max_requests} requests.")
            )
            return
        self._check_line(text)
        self._place(offset + skipped, offset + len(raw))

    def end(self) -> Checked:
        """Return the result."""
        found = self._found
        self._close()
        if not found.requests and not found.problems:
            found.problems.append(LineProblem("empty_file", "The file has no requests."))
        if found.problems:
            found.tasks.clear()
        if len(self._models) == 1:
            (found.model,) = self._models
        return found

    def _check_line(self, text: bytes) -> None:
        try:
            text.decode()
            line = _LINE.decode(text)
        except UnicodeDecodeError:
            self._problem("invalid_encoding", "The line is not UTF-8.")
            return
        except msgspec.ValidationError as error:
            self._invalid(str(error))
            return
        except (msgspec.DecodeError, RecursionError):
            self._problem("invalid_json_line", "The line is not valid JSON.")
            return
        self._check_members(line)
        self._check_body(line.body)

    def _check_members(self, line: Line) -> None:
        rules = self._rules
        if not 1 <= len(line.custom_id) <= _LONGEST_ID:
            self._problem("invalid_custom_id", f"Expected 1 to {_LONGEST_ID} characters.", "custom_id")
        else:
            digest = hashlib.blake2b(line.custom_id.encode("utf-8", "surrogatepass"), digest_size=12).digest()
            if digest in self._ids:
                shown = line.custom_id[:64]
                self._problem("duplicate_custom_id", f"The custom_id '{shown}' is used on another line.", "custom_id")
            self._ids.add(digest)
        if line.method != "POST":
            self._problem("invalid_method", "Expected 'POST'.", "method")
        if line.url != rules.endpoint:
            self._problem("mismatched_url", f"Expected '{rules.endpoint}', which the batch is for.", "url")

    def _check_body(self, raw: msgspec.Raw) -> None:
        rules = self._rules
        if len(raw) > rules.max_body_bytes:
            self._problem("line_too_long", f"The body is longer than {rules.max_body_bytes} bytes.", "body")
            return
        try:
            body = _BODY.decode(raw)
        except msgspec.ValidationError as error:
            self._invalid(str(error), "body")
            return
        if body.stream:
            self._problem("invalid_request", "Requests of a batch cannot be streamed.", "body.stream")
        name = body.model[:256]
        self._models.add(name)
        if name not in self._refused:
            self._refused[name] = rules.refuses_model(name)
        if refusal := self._refused[name]:
            self._problem("invalid_model", refusal, "body.model")

    def _invalid(self, text: str, inside: str = "") -> None:
        """Add the problem of a line that is JSON but no request, from msgspec's message."""
        name = text.partition("required field `")[2].partition("`")[0]
        path = text.partition(" - at `$")[2].rstrip("`").lstrip(".")
        param = ".".join(part for part in (inside, name or path) if part) or None
        if name:
            self._problem("missing_required_parameter", f"Missing required parameter: '{param}'.", param)
        else:
            reason = text.partition(" - at ")[0]
            self._problem("invalid_request", f"{reason[:256]}.", param)

    def _place(self, begin: int, end: int) -> None:
        """Add a request, from byte `begin` to `end`, to a task."""
        if self._found.problems:
            return
        task = self._task
        if task is not None and (task[3] >= TASK_REQUESTS or end - task[0] > TASK_BYTES):
            self._close()
            task = None
        if task is None:
            self._task = [begin, end - begin, self._number, 1]
        else:
            task[1] = end - task[0]
            task[3] += 1

    def _close(self) -> None:
        if self._task is not None:
            self._found.tasks.append(Task(*self._task))
            self._task = None

    def _problem(self, code: str, message: str, param: str | None = None) -> None:
        if len(self._found.problems) < MOST_PROBLEMS:
            self._found.problems.append(LineProblem(code, message, param, self._number))
