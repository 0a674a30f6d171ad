"""Recognise table headers, sensitive columns by their names, and values that fit such a column."""

import re
from collections.abc import Collection
from functools import cache, lru_cache
from typing import Final, NamedTuple

from safety.patterns import CHARACTERS, Patterns
from safety.pii.rule_tables import lines, words
from safety.pii.values import is_placeholder

DELIMITERS: Final = ("\t", "|", ";", ",")
#: The kinds of personal data and secrets that columns may hold.
KINDS_OF_CELLS: Final = frozenset(kind for kind, form, *_ in lines("columns.txt") if form != "-" and kind != "against")
LONGEST_HEADER: Final = 512
_LONGEST_NAME: Final = 32
_MOST_WORDS: Final = 4
_REMEMBERED: Final = 4096
#: Suffixes of column names that do not change the kind.
_AFTER: Final = re.compile(
    r" (?:no|nr|num|number|numbers|nbr|#|nº|n°|№|numero|número|nummer|numer|номер|号|号码|號碼|番号|번호|[0-9]|"
    r"primary|mobile|home|work|office|private|plain|plaintext|temp|current)$"
)
_BRACKETS: Final = re.compile(r"\s?\([^()]*\)$")
_BETWEEN: Final = re.compile(r"[\s_.\-:/]+|(?<=[a-z])(?=[A-Z0-9#])")
_MARKS: Final = " \t\r\n\"'`*_\ufeff"
#: A column's name: mostly letters.
_COLUMN_NAME: Final = re.compile(r"(?=\D*(?:\d\D*){0,3}$)[^=<>{}\[\]$@!?;:\\~^…。，！？：；“”「」]+")
#: Characters that no column name has: this rejects most lines quickly.
_IN_NONE: Final = re.compile(r"[=<>{}\[\]$@!?:\\~^]")
_STATEMENT: Final = re.compile(
    r"\s*(?:select|insert|values|from|import|return|def|const|let|var|public|private)\s", re.IGNORECASE
)
_RULED: Final = re.compile(r"[\s|+\-=:]*-[\s|+\-=:]*")


class Column(NamedTuple):
    """A sensitive column; `supported`: another column shows that the table is of persons or accounts."""

    kind: str
    form: str
    supported: bool


class Header(NamedTuple):
    """A table's header: its delimiter, the number of delimiters a line, and the sensitive columns by index."""

    delimiter: str
    delimiters: int
    columns: dict[int, Column]


class _Name(NamedTuple):
    kind: str
    form: str
    beside: bool


def _compact(name: str) -> str:
    return re.sub("[ '’]", "", name)


_NAMES: Final = {
    _compact(name): _Name(kind, form, needs == "beside")
    for kind, form, needs, name in lines("columns.txt")
    if kind in KINDS_OF_CELLS
}


def _listed(what: str, form: str = "-") -> frozenset[str]:
    return frozenset(_compact(row[3]) for row in lines("columns.txt") if row[0] == what and row[1] in (form, "-"))


_SUPPORT: Final = _listed("person") | _listed("account")
_PERSONS: Final = _listed("person")
_BEFORE: Final = _listed("before")
_AGAINST: Final = {form: _listed("against", form) for form in {name.form for name in _NAMES.values()}}


def is_ruled(line: str) -> bool:
    """Whether a line is only a rule between lines of a table."""
    return _RULED.fullmatch(line) is not None


def header_of(line: str, kinds: Collection[str]) -> Header | None:
    """Parse a line as a table's header; None if it is none or has no columns of these kinds."""
    delimiter = next((delimiter for delimiter in DELIMITERS if delimiter in line), None)
    if delimiter is None or len(line) > LONGEST_HEADER or _IN_NONE.search(line) or _STATEMENT.match(line):
        return None
    names: list[str] = []
    for cell in line.split(delimiter):
        name = _name_of(cell.strip(_MARKS))
        if name is None:
            return None
        names.append(name)
    every = {_compact(name) for name in names if name}
    if len(every) < 2:
        return None
    columns = {place: column for place, name in enumerate(names) if name and (column := _column(name, every, kinds))}
    return Header(delimiter, len(names) - 1, columns) if columns else None


@lru_cache(_REMEMBERED)
def _name_of(cell: str) -> str | None:
    """A column's name in lower case, with spaces between words; None if the cell is not a name."""
    if not cell:
        return ""
    if len(cell) > _LONGEST_NAME or len(cell.split()) > _MOST_WORDS or _COLUMN_NAME.fullmatch(cell) is None:
        return None
    return _BETWEEN.sub(" ", _BRACKETS.sub("", cell)).strip(_MARKS).lower()


@lru_cache(_REMEMBERED)
def _named(name: str) -> _Name | None:
    while True:
        rest = name
        while rest:
            found = _NAMES.get(_compact(rest))
            if found is not None:
                return found
            first, _, rest = rest.partition(" ")
            if first not in _BEFORE:
                break
        shorter = _AFTER.sub("", name)
        if shorter == name:
            return None
        name = shorter


def _column(name: str, every: Collection[str], kinds: Collection[str]) -> Column | None:
    named = _named(name)
    others = set(every) - {_compact(name)}
    if named is None or named.kind not in kinds or not others.isdisjoint(_AGAINST[named.form]):
        return None
    support = _PERSONS if named.form in ("number", "phone") else _SUPPORT
    supported = not others.isdisjoint(support)
    return None if named.beside and not supported else Column(named.kind, named.form, supported)


@cache
def header_signs() -> Patterns:
    """Compile patterns that match in the bytes of every header with a sensitive column."""
    names = [name for _, form, _, name in lines("columns.txt") if form in _AGAINST]
    short = [name for name in names if len(name) <= _SHORT and name.isascii()]
    long = [name for name in names if name not in short]
    long = [name for name in long if not any(other != name and other in name for other in long)]
    expressions = (*map(_spaced, long), *(_spaced(name) + _AFTER_SHORT for name in short))
    return Patterns([expression.encode() for expression in expressions], CHARACTERS)


def has_header(text: str, data: bytes, kinds: Collection[str]) -> bool:
    """Whether a text, with its UTF-8 in `data`, has a table header with a column of these kinds."""
    stop = 0
    for _, end in header_signs().ends(data) if "\n" in text else ():
        if end > stop:
            start = data.rfind(b"\n", 0, end - 1) + 1
            stop = data.find(b"\n", end - 1) % (len(data) + 1)
            if header_of(data[start:stop].decode(), kinds) is not None:
                return True
    return False


#: Names up to this length may be part of any word, so the text after them is matched too.
_SHORT: Final = 3
_AFTER_SHORT: Final = r"(?:[^a-z\n,;|\t][^\n,;|\t]*)?[,;|\n\t]"


def _spaced(name: str) -> str:
    """An expression for a name with up to three characters between its words."""
    return f"(?i:{'.{0,3}'.join(map(re.escape, re.findall(_WORD, name)))})"


_WORD: Final = "[^ '’]+"
_AMOUNT: Final = re.compile(
    r"(?:19|20)\d\d[.\-/ ]?(?:0?[1-9]|1[0-2])[.\-/ ]?(?:0?[1-9]|[12]\d|3[01])(?:[T ].*)?$|"
    r"(?:0?[1-9]|[12]\d|3[01])[.\-/ ](?:0?[1-9]|1[0-2])[.\-/ ](?:19|20)?\d\d(?: .*)?$|"
    r"(?:19|20)\d\d[.\-/–](?:0?[1-9]|1[0-2]|(?:19|20)\d\d)$|"
    r"(?:0?[1-9]|1[0-2])[.\-/](?:19|20)\d\d$|\d+[.,]\d{1,2}$|\d{1,3}\.\d+$"
)
#: Types, sizes, versions, paths, methods, and masked values.
_TECHNICAL: Final = re.compile(
    r"[A-Za-z ]+\(\s?\d+(?:, ?\d+)?\)$|[(\[<{].*[)\]>}]$|[a-z]+://|/|\d{1,3}(?:[.,]\d+)*[%a-zA-Z]{0,6}\+?$|[$€£¥]|"
    r"(?i:1password|(?:sha-?\d|md\d|pbkdf|argon2|[sb]crypt|saml|ldap|oauth|azuread|entra|kerberos)[\w\-]*$)|"
    r"\d+(?:[.\-/:x]\d+)+$|v?\d+(?:\.\d+)+|[^@\s]+@[\w\-]+(?:\.[\w\-]+)+$|.*(?:\.\.\.|…|\*\*|••|[xX]{4}|##)|(.)\1*$"
)
_WORD_AND_NUMBER: Final = re.compile(
    r"(?:[^\W\d_]+|\d{1,4})(?:[-_./+]?(?:[^\W\d_]+|\d{1,4}))?(?:[-_./+](?:[^\W\d_]+|\d{1,4}))*$"
)
_LETTERS: Final = re.compile(r"[^\W\d_]+(?:[\-_./+&][^\W\d_]+)*$")
_DESCRIPTION: Final = re.compile(rf"(?i)(?:{words('said_of_passwords')}|.*(?:{words('passwords')}))$")
_NUMBER: Final = re.compile(r"(?![A-Z]{2}U?\d{8,12}$)(?=(?:\D*\d){4})(?!.*[^\W\d_]{6})[^\W_]+(?:[ .\-/]{1,3}[^\W_]+)*$")
_PHONE: Final = re.compile(r"(?=(?:\D*\d){6,16}\D*$)[+(\d][\d ()./\-\u00a0\u2010-\u2014]*\d$")
_CODE: Final = re.compile(r"[*#]?(?=(?:\D*\d){3})[A-Za-z0-9\-]{4,12}[*#]?$")
_APP_PASSWORD: Final = re.compile(r"[a-z]{4}(?: [a-z]{4}){3}$")


def counts(value: str, column: Column) -> bool:
    """Whether a cell's value, without spaces and quotes around it, fits its column."""
    form, supported = column.form, column.supported
    if len(value) < 4 or (_AMOUNT.match(value) and not (form == "phone" and supported and value[0] in "0+")):
        return form == "code" and len(value) in (4, 6, 8) and value.isdigit()
    if form == "code":
        return _CODE.match(value) is not None
    if form == "number":
        return 5 <= len(value) <= 24 and _NUMBER.match(value) is not None
    if form == "phone":
        fewest = 7 if supported else 9
        return _PHONE.match(value) is not None and (value[0] in "+(0" or not value.isdigit() or len(value) >= fewest)
    if form == "password" and supported and (_APP_PASSWORD.match(value) or value.isdigit()):
        return True
    if any(map(str.isspace, value)) or is_placeholder(value) or _TECHNICAL.match(value):
        return False
    if form == "key":
        mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
        return len(value) >= 8 and mixed and not _WORD_AND_NUMBER.match(value)
    word = value.rstrip("*?!.,:;†")
    if not _LETTERS.match(word):
        return supported or (len(value) >= 6 and not _WORD_AND_NUMBER.match(word))
    spelled = word.isascii() and (word.isalpha() or word.count("-") > 1)
    return supported and spelled and len(word) >= 6 and not _DESCRIPTION.match(word) and not _named(word.lower())
