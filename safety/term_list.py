"""Lists of terms in files: a term on each line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from safety.terms import WINDOW

#: Terms of one filter. Each takes about 300 bytes in every worker.
MOST_TERMS: Final = 250_000
_COMMENT: Final = "#"


class TermListError(ValueError):
    """A file that cannot be used as a list; the text names it, and the line."""


def read_terms(path: Path) -> list[str]:
    """The terms of a UTF-8 file, without empty lines and those that begin with `#`. Raises TermListError."""
    terms: list[str] = []
    try:
        with path.open("rb") as file:
            for number, term in _lines(file, path):
                if len(terms) == MOST_TERMS:
                    raise TermListError(f"{path}, line {number}: more than {MOST_TERMS} terms")
                terms.append(term)
    except OSError as error:
        raise TermListError(f"{path} cannot be read: {error.strerror or error}") from error
    if not terms:
        raise TermListError(f"{path} has no terms")
    return terms


def _lines(file: Iterator[bytes], path: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(file, 1):
        try:
            term = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError:
            raise TermListError(f"{path}, line {number}: not valid UTF-8") from None
        if len(term) >= WINDOW:
            raise TermListError(f"{path}, line {number}: longer than {WINDOW - 1} characters")
        if term and not term.startswith(_COMMENT):
            yield number, term
