"""A corpus: requests to replay, with the answers that they had, as a file of JSON lines.

The first line is a `CorpusHead`, each further one an `Entry`. The format's versions are whole numbers, and a reader
refuses those that it does not know.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from gateway.rollouts.comparison.answer import Answer

FORMAT: Final = 1
#: Bytes of a line: more than the longest body that a gateway takes by default.
LONGEST_LINE: Final = 64 << 20
#: What a request of a corpus may be sent to.
Path_ = Literal["/v1/chat/completions", "/v1/completions"]

T = TypeVar("T")


class BadLines(ValueError):
    """A file of lines cannot be read. The text names file, line and problem."""

    def __init__(self, path: Path, line: int, problem: str) -> None:
        super().__init__(f"{path}:{line}: {problem}" if line else f"{path}: {problem}")


class CorpusHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The first line. `redacted`: personal data was taken out; `created` is seconds since 1970."""

    penstock_corpus: int = FORMAT
    model: str
    source: Literal["live", "chats"]
    redacted: bool
    created: int = 0


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One request: its body as the API takes it, and the answer and version that it had, where they are known."""

    id: Annotated[str, Meta(min_length=1, max_length=512)]
    path: Path_ = "/v1/chat/completions"
    body: dict[str, Any]
    answer: Answer | None = None
    version: str = ""


class Corpus(msgspec.Struct, frozen=True):
    """A corpus that was read; `digest` is of its lines."""

    head: CorpusHead
    entries: Sequence[Entry]
    digest: str


_HEAD: Final = msgspec.json.Decoder(CorpusHead)
_ENTRY: Final = msgspec.json.Decoder(Entry)


def read_corpus(path: Path) -> Corpus:
    """Read and check a whole corpus. Raises BadLines."""
    digest = hashlib.sha256()
    head: CorpusHead | None = None
    entries: list[Entry] = []
    seen: dict[str, int] = {}
    for number, line in lines_of(path):
        digest.update(line)
        if head is None:
            head = decoded(_HEAD, line, path, number)
            if head.penstock_corpus != FORMAT:
                raise BadLines(path, number, f"format {head.penstock_corpus} is not known here, only {FORMAT}")
            continue
        entry = decoded(_ENTRY, line, path, number)
        if entry.id in seen:
            raise BadLines(path, number, f"the id {entry.id[:64]!r} stands on line {seen[entry.id]}, too")
        seen[entry.id] = number
        if "messages" not in entry.body and entry.path == "/v1/chat/completions":
            raise BadLines(path, number, "body: it has no messages")
        entries.append(entry)
    if head is None:
        raise BadLines(path, 0, "it is empty: the first line of a corpus says what it is")
    if not entries:
        raise BadLines(path, 0, "it has no requests")
    return Corpus(head, entries, digest.hexdigest())


def corpus_line(value: CorpusHead | Entry) -> bytes:
    """Write one line, with its end."""
    return msgspec.json.encode(value) + b"\n"


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file that are not empty, with their numbers from 1. Raises BadLines."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(_pieces(file), 1):
                if len(line) > LONGEST_LINE:
                    raise BadLines(path, number, f"it is longer than {LONGEST_LINE} bytes")
                if text := line.strip():
                    yield number, text
    except OSError as error:
        raise BadLines(path, 0, error.strerror or str(error)) from error


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(LONGEST_LINE + 1):
        yield line


def decoded(decoder: "msgspec.json.Decoder[T]", line: bytes, path: Path, number: int) -> T:
    """Decode a line. Raises BadLines."""
    try:
        return decoder.decode(line)
    except msgspec.ValidationError as error:
        raise BadLines(path, number, str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadLines(path, number, f"it is no JSON: {error}") from error
