"""The answers of a run, as a file of JSON lines that is added to: the first line is a `RunHead`, each further one a
`Result`. A run that was ended in any way goes on where it was.
"""

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final

import msgspec

from gateway.rollouts.comparison.answer import Answer
from gateway.rollouts.replay.corpus import BadLines, Corpus, decoded, lines_of

FORMAT: Final = 1


class RunHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The head of a run: `corpus` is its digest; an empty `version` is whichever the gateway chooses."""

    penstock_run: int = FORMAT
    corpus: str
    entries: int
    model: str
    version: str


class Failure(msgspec.Struct, frozen=True):
    """An error in place of an answer; `code` is the API's, or empty."""

    status: int
    code: str
    message: str


class Result(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The result of one entry: an `answer` or a `failure`. `seconds` is the whole time until the answer was there."""

    id: str
    answer: Answer | None = None
    failure: Failure | None = None
    version: str = ""
    seconds: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Run(msgspec.Struct, frozen=True):
    """A run that was read."""

    head: RunHead
    results: Mapping[str, Result]


_HEAD: Final = msgspec.json.Decoder(RunHead)
_RESULT: Final = msgspec.json.Decoder(Result)


def read_run(path: Path) -> Run:
    """Read a run, ended or not. Raises BadLines."""
    head: RunHead | None = None
    results: dict[str, Result] = {}
    for number, line in lines_of(path):
        if head is None:
            head = decoded(_HEAD, line, path, number)
            if head.penstock_run != FORMAT:
                raise BadLines(path, number, f"format {head.penstock_run} is not known here, only {FORMAT}")
            continue
        result = decoded(_RESULT, line, path, number)
        if (result.answer is None) is (result.failure is None):
            raise BadLines(path, number, "expected an answer or a failure")
        if result.id in results:
            raise BadLines(path, number, f"the id {result.id[:64]!r} stands there twice")
        results[result.id] = result
    if head is None:
        raise BadLines(path, 0, "it is empty: the first line of a run says what it is")
    return Run(head, results)


class RunFile:
    """A run's file while it is written; a context manager, and one process's at a time."""

    def __init__(self, path: Path, corpus: Corpus, model: str, version: str) -> None:
        """Begin, or go on. Raises BadLines where the file is another run's, broken, or in use."""
        head = RunHead(corpus=corpus.digest, entries=len(corpus.entries), model=model, version=version)
        self._path = path
        try:
            self._file: BinaryIO = path.open("ab+")
        except OSError as error:
            raise BadLines(path, 0, error.strerror or str(error)) from error
        try:
            self.results = self._begin(head)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "RunFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            os.fsync(self._file.fileno())

    def add(self, result: Result) -> None:
        """Add a result. Raises OSError."""
        self._file.write(msgspec.json.encode(result) + b"\n")
        self._file.flush()

    def _begin(self, head: RunHead) -> Mapping[str, Result]:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BadLines(self._path, 0, "another process writes this run") from error
        self._drop_unfinished()
        if not self._file.tell():
            self._file.write(msgspec.json.encode(head) + b"\n")
            self._file.flush()
            return {}
        run = read_run(self._path)
        for name, given, wanted in zip(
            head.__struct_fields__, msgspec.structs.astuple(run.head), msgspec.structs.astuple(head), strict=True
        ):
            if given != wanted:
                raise BadLines(self._path, 1, f"it is another run: its {name} is {given!r}, not {wanted!r}")
        return run.results

    def _drop_unfinished(self) -> None:
        """Cut off a last line without an end: the process was killed while it wrote."""
        size = self._file.seek(0, os.SEEK_END)
        end = size
        while end:
            start = max(0, end - (1 << 16))
            self._file.seek(start)
            found = self._file.read(end - start).rfind(b"\n")
            if found >= 0:
                end = start + found + 1
                break
            end = start
        if end < size:
            self._file.truncate(end)
        self._file.seek(0, os.SEEK_END)
