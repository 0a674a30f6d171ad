"""The headers of tables, and the columns that count by what they are called."""

import re
from collections.abc import Collection, Set
from functools import cache, lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from safety.patterns import CHARACTERS, Patterns
from safety.pii.column_names import (
    ACCOUNTS,
    BEFORE,
    BESIDE,
    COMPANIES,
    KNOWN,
    OF_THE_POST,
    PERSONS,
    PLACES,
    SPELLED,
    Form,
    Name,
    compact,
)
from safety.pii.password_words import shortest


class Column(NamedTuple):
    """A column whose cells count. `supported`: another one tells that there are persons or accounts."""

    kind: str
    form: Form
    supported: bool


class Header(NamedTuple):
    """A table's first line: the columns that count, with their places, and how many delimiters each line has."""

    delimiter: str
    delimiters: int
    columns: tuple[tuple[int, Column], ...]


#: What says at its end that it is a number, or how it is written.
_AFTER: Final = re.compile(
    r" (?:no|nr|num|number|numbers|nbr|#|nº|n°|№|numero|número|nummer|numer|номер|号|号码|號碼|番号|번호|[0-9]|"
    r"primary|mobile|home|work|office|private|plain|plaintext|temp|current)$"
)
_BRACKETS: Final = re.compile(r"\s?\([^()]*\)$")
_SEPARATORS: Final = re.compile(r"[\s_.\-:/]+|(?<=[a-z])(?=[A-Z0-9#])")
_MARKS: Final = " \t\r\n\"'`*_\ufeff"
#: These are short enough to be part of any word, so that what follows is looked at, too.
_SHORT: Final = 3
_AFTER_SHORT: Final = r"(?:[^a-z\n,;|\t][^\n,;|\t]*)?[,;|\n\t]"

_DELIMITERS: Final = ("\t", "|", ";", ",")
_LONGEST_NAME: Final = 32
_MOST_WORDS: Final = 4
_FEWEST_NAMES: Final = 2
#: So many cells of headers are remembered.
_REMEMBERED: Final = 4096
#: No header is longer.
LONGEST_HEADER: Final = 512
#: What a column may be called: mostly letters.
_CALLED: Final = re.compile(r"(?=\D*(?:\d\D*){0,3}$)[^=<>{}\[\]$@!?;:\\~^…。，！？：；“”「」]+")
#: What is in no header, whatever sets its cells apart.
_IN_NONE: Final = re.compile(r"[=<>{}\[\]$@!?:\\~^]")
_STATEMENT: Final = re.compile(
    r"\s*(?:select|insert|values|from|import|return|def|const|let|var|public|private)\s", re.IGNORECASE
)
#: The end of a line that leads to what follows, and is no line of a table.
_LEADING: Final = (":", ".", "!", "?", "：", "。")
_RULED: Final = re.compile(r"[\s|+\-=:]*")


def ruled(line: str) -> bool:
    """Whether it only sets lines of a table apart."""
    return "-" in line and _RULED.fullmatch(line) is not None


def places_of(delimiter: str, line: str) -> list[int]:
    """Where the delimiters stand in a line, save in quotes that a cell begins with."""
    places: list[int] = []
    walk = Walk(delimiter)
    walk.on(line, 0, places)
    return places


class Walk:
    """Goes over lines, piece by piece."""

    __slots__ = ("_begin", "_inside", "_quote", "_signs", "delimiter")

    def __init__(self, delimiter: str) -> None:
        self.delimiter: Final = delimiter
        self._signs = _SIGNS[delimiter]
        self.begin()

    def begin(self) -> None:
        """A line begins."""
        # Where the cell begins, its quote ("-": it has none), and whether that is open.
        self._begin = 0
        self._quote = ""
        self._inside = False

    def on(self, line: str, place: int, places: list[int]) -> None:
        """The line has more from a place on; adds where delimiters stand there."""
        if not place and '"' not in line and "'" not in line:
            places += [found.start() for found in self._signs.finditer(line)]
            self._begin = places[-1] + 1 if places else 0
            return
        for found in self._signs.finditer(line, place):
            at = found.start()
            sign = line[at]
            if sign == self.delimiter:
                if not self._inside:
                    places.append(at)
                    self._begin, self._quote = at + 1, ""
            elif sign == self._quote:
                self._inside = not self._inside
            elif not self._quote:
                self._inside = not line[self._begin : at].strip()
                self._quote = sign if self._inside else "-"


_SIGNS: Final = {delimiter: re.compile(f"[{delimiter}\"']") for delimiter in _DELIMITERS}


def header_of(line: str, previous: str | None, kinds: Collection[str]) -> Header | None:
    """What a line tells as the header of a table, if it is one that has columns of these kinds.

    `previous` is the line before it: what has as many cells is of the same table, which has another header or none.
    """
    delimiter = next((delimiter for delimiter in _DELIMITERS if delimiter in line), None)
    if delimiter is None or len(line) > LONGEST_HEADER or _IN_NONE.search(line):
        return None
    if len(line.partition(delimiter)[0].strip(_MARKS)) > _LONGEST_NAME or _STATEMENT.match(line):
        return None
    if not rough_headers().any_in(f"{line}\n".encode("utf-8", "replace")) or _continues(previous, line, delimiter):
        return None
    places = places_of(delimiter, line)
    cells = [line[first + 1 : last].strip(_MARKS) for first, last in pairwise((-1, *places, len(line)))]
    names = [_name_of(cell) for cell in cells]
    if None in names or sum(map(bool, names)) < _FEWEST_NAMES:
        return None
    every = {compact(name) for name in names if name}
    columns = tuple(
        (place, column) for place, name in enumerate(names) if name and (column := _column(name, every, kinds))
    )
    return Header(delimiter, len(places), columns) if columns else None


def has_header(data: bytes, kinds: Collection[str]) -> bool:
    """Whether a whole text may have a table that counts."""
    stop = 0
    for _, end in rough_headers().ends(data):
        if end <= stop:
            continue
        start = data.rfind(b"\n", 0, end - 1) + 1
        stop = data.find(b"\n", end - 1)
        line = data[start:] if stop < 0 else data[start:stop]
        if header_of(line.decode("utf-8", "replace"), None, kinds) is not None:
            return True
        if stop < 0:
            return False
    return False


def _continues(previous: str | None, line: str, delimiter: str) -> bool:
    if previous is None or previous.count(delimiter) != line.count(delimiter):
        return False
    return not previous.rstrip().endswith(_LEADING) and not ruled(previous)


@lru_cache(_REMEMBERED)
def _name_of(cell: str) -> str | None:
    """A column's name in small letters, with blanks between words; None where a cell is none."""
    if not cell:
        return ""
    if len(cell) > _LONGEST_NAME or len(cell.split()) > _MOST_WORDS or cell.count("(") != cell.count(")"):
        return None
    if _CALLED.fullmatch(cell) is None:
        return None
    return _SEPARATORS.sub(" ", _BRACKETS.sub("", cell)).strip(_MARKS).lower()


def is_column_name(cell: str) -> bool:
    """Whether it is what a column is called that counts."""
    name = _name_of(cell)
    return bool(name) and _named(name) is not None


@lru_cache(_REMEMBERED)
def _named(name: str) -> Name | None:
    while True:
        rest = name
        while True:
            found = KNOWN.get(compact(rest))
            if found is not None:
                return found
            first, _, rest = rest.partition(" ")
            if not rest or first not in BEFORE:
                break
        shorter = _AFTER.sub("", name)
        if shorter == name:
            return None
        name = shorter


def _column(name: str, every: Set[str], kinds: Collection[str]) -> Column | None:
    named = _named(name)
    if named is None or named.kind not in kinds:
        return None
    others = every - {compact(name)}
    if not others.isdisjoint(BESIDE[named.form]):
        return None
    if named.form in (Form.NUMBER, Form.PHONE):
        supported = not others.isdisjoint(PERSONS)
        if named.form is Form.NUMBER and named.doubtful:
            supported = supported and others.isdisjoint(COMPANIES)
    else:
        supported = not (others.isdisjoint(PERSONS) and others.isdisjoint(ACCOUNTS))
        if compact(name) in OF_THE_POST and not others.isdisjoint(PLACES):
            return None
    if named.doubtful and not supported:
        return None
    return Column(named.kind, named.form, supported)


@cache
def rough_headers() -> Patterns:
    """What is in the bytes of every header and its line's end, and so of every text that has a table that counts."""
    short = sorted(name for name in SPELLED if len(name) <= _SHORT and name.isascii())
    long = shortest(name for name in SPELLED if name not in short)
    expressions = (*map(_apart, long), *(_apart(name) + _AFTER_SHORT for name in short))
    return Patterns([expression.encode() for expression in expressions], CHARACTERS)


def _apart(name: str) -> str:
    """An expression for a name, whatever little stands between its words."""
    return f"(?i:{'.{0,3}'.join(map(re.escape, _WORDS.findall(name)))})"


_WORDS: Final = re.compile(r"[^ '’]+")
