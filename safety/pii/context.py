"""Classify a number or code by the words to its left: the label of a kind, or of something else."""

import re
from functools import cache
from typing import Final

import re2

from safety.pii.rule_tables import lines, words

#: The number of characters to the left that are searched.
REACH: Final = 64
_ESCAPED: Final = re.compile(r"\\[nrt]")


def _at_word(expression: str) -> "re2._Regexp":
    return re2.compile(rf"(?i)(?:^|[^a-zß-ſа-яёіїєґў])(?:{expression})")


@cache
def _of_kind(kind: str) -> "re2._Regexp":
    return _at_word(words(kind))


_LABELLED: Final = sorted(
    {kind for kind, _, _, *context in (*lines("numbers.txt"), *lines("codes.txt")) if "label" in context}
)
_ANY: Final = _at_word("|".join(words(kind) for kind in (*_LABELLED, "credit_card", "phone")))
_NUMBER_WORDS: Final = (
    r"(?:[ _-]?(?:numbers?|num|nr|no|ids?|codes?|#|n[º°o]|n\.|nummer|number is|was|is|are|such as|like|号|號|番号|at|"
    r"be|ch|de|dk|es|fr|it|lu|nl|pl))*(?:[.: ]{1,3}(?:(?-i:[A-Z]{2})|CHE)\b)?[.:#=\s\"'(№]*"
)
#: Earlier numbers of a list.
_LIST: Final = r"(?:[0-9][0-9 \-]{5,14}(?:, | and | & |/| und | et | y | e )(?:and )?){0,3}(?:[0-9]{3,6}[ .\-/]){0,3}$"
_OTHER: Final = re2.compile(rf"(?i)(?:^|[^a-z])(?:{words('other_numbers')}){_NUMBER_WORDS}{_LIST}")
_VERSION: Final = re2.compile(
    rf"(?i)(?:(?:{words('version')})(?: [a-z][\w.\-]{{0,20}} (?:to|from))?(?:\s+(?:is|number|no|to|from|of))?"
    r"[ .:=\"'\-_(/v]*|[A-Za-z]/|==|>=|<=|~=|\^|~)$"
)
_VERSIONED: Final = re.compile(
    rf"(?<![^\W\d_])(?:{words('versioned')})[^\W\d_]{{0,3}}(?:[?,]? [^\W\d_]+){{0,6}}[ :=\"'(]*$", re.IGNORECASE
)
#: Versions in a row after one label.
_CHAIN: Final = re.compile(
    r"(?<![^\s(])(?:v?[0-9]+(?:\.[0-9]+)+(?:,| (?:to|->|→|and|or|oder|und|ou|et|of|en|eller|och|og)) )+\Z"
)
_ADDRESS: Final = re2.compile(rf"(?i){words('address')}")
#: The most chapters or sections of a document.
_SECTIONS: Final = 20


#: Letters, signs and digits, as they stand before a number.
_SAMPLE: Final = b" The quick brown fox jumps over the lazy dog's card number: 0123456789, no. 4 (v1.2) = "


def prepare_context() -> None:
    """Compile the labels of all kinds, and let each expression make its first tables, which takes up to 5 ms each."""
    labels = [_of_kind(kind) for kind in (*_LABELLED, "credit_card", "phone")]
    for expression in (_ANY, _OTHER, _VERSION, _ADDRESS, *labels):
        expression.search(_SAMPLE)


def left_of(text: str, position: int, reach: int = REACH) -> bytes:
    """Return the text to the left of a position, in UTF-8, with escaped line breaks and tabs decoded."""
    left = text[max(0, position - reach) : position]
    if "\\" in left:
        left = _ESCAPED.sub("\n ", left)
    return left.encode("utf-8", "surrogatepass")


def has_label(left: bytes) -> bool:
    """Whether the text to the left has a label of a phone, a card or any kind that needs a label."""
    return _ANY.search(left) is not None


def label_end(kind: str, left: bytes) -> int:
    """Return the end of the last label of a kind, or -1."""
    return max((found.end() for found in _of_kind(kind).finditer(left)), default=-1)


def is_labelled_otherwise(text: str, position: int) -> bool:
    """Whether the word just before a position labels an order, a part, a book or other impersonal number."""
    return _OTHER.search(left_of(text, position, 48)) is not None


def is_labelled(kind: str, text: str, position: int, _code: str) -> bool:
    """Whether a label of the kind is near to the left of a position, and no label of another number is."""
    return label_end(kind, left_of(text, position)) >= 0 and not is_labelled_otherwise(text, position)


def is_not_labelled_otherwise(_kind: str, text: str, position: int, _code: str) -> bool:
    """Whether no label of another number stands before a position."""
    return not is_labelled_otherwise(text, position)


def is_address(_kind: str, text: str, position: int, code: str) -> bool:
    """Whether an IPv4 form is an address, not a version or a section of a document."""
    left = _CHAIN.sub("", left_of(text, position).decode("utf-8", "surrogatepass"))[-40:]
    encoded = left.encode("utf-8", "surrogatepass")
    if _VERSION.search(encoded) is not None:
        return False
    if _ADDRESS.search(encoded) is not None:
        return True
    octets = {int(each) for each in code.split(".")}
    return not _VERSIONED.search(left) and (max(octets) > _SECTIONS or len(octets) == 1 or code.startswith("10."))
