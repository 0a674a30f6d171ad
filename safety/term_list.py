"""Read term lists from files with one term a line."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

from safety.terms import WINDOW

#: The most terms of one filter. Each takes about 300 bytes in every worker.
MOST_TERMS: Final = 250_000
_COMMENT: Final = "#"
#: The longest line, white space around the term included.
_MOST_CHARACTERS: Final = 4_096


class TermListError(ValueError):
    """A term list is unusable; the text names the file and the line."""


def read_terms(path: Path) -> list[str]:
    """Read the terms of a UTF-8 file, skipping empty lines and `#` comments. Raises TermListError."""
    terms: list[str] = []
    try:
        # Invalid UTF-8 becomes lone surrogates, which `_lines` rejects.
        with open(path, encoding="utf-8-sig", errors="surrogateescape", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise TermListError(f"{path} is not a regular file")
            for number, term in _lines(file, path):
                if len(terms) == MOST_TERMS:
                    raise TermListError(f"{path}, line {number}: more than {MOST_TERMS} terms")
                terms.append(term)
    except OSError as error:
        raise TermListError(f"{path} cannot be read: {error.strerror or error}") from error
    if not terms:
        raise TermListError(f"{path} has no terms")
    return terms


def _without_waiting(path: str, flags: int) -> int:
    """Open without blocking, even on a pipe that has no writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _lines(file: TextIO, path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number, term); lines end with a line feed, a carriage return, or both."""
    number = 0
    while line := file.readline(_MOST_CHARACTERS):
        number += 1
        try:
            line.encode()
        except UnicodeEncodeError:
            raise TermListError(f"{path}, line {number}: not valid UTF-8") from None
        term = line.strip()
        if term.startswith(_COMMENT):
            while line and not line.endswith("\n"):
                line = file.readline(_MOST_CHARACTERS)
            continue
        if len(term) >= WINDOW or len(line) == _MOST_CHARACTERS:
            raise TermListError(f"{path}, line {number}: longer than {WINDOW - 1} characters")
        if term:
            yield number, term
