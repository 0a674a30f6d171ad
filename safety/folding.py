"""Fold text for comparison: remove case, compatibility forms and invisible characters.

`fold` treats each character independently of its neighbours, so the folds of a text's pieces join to the fold of the
whole.
"""

import re
import unicodedata
from bisect import bisect_right
from functools import cache
from typing import Final

from safety.patterns import Patterns

#: Invisible characters: control characters other than white space, soft hyphen, joiners, direction marks,
#: the braille blank, variation selectors, marks of shorthand and music, tags and the like.
INVISIBLE: Final = (
    "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
#: Every combining mark, with the scripts around them: decomposing puts marks in order across characters.
_MARKS: Final = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u1cff\u1dc0-\u1dff\u20d0-\u20ff\u2cef-\u2cf1\u2d7f\u2de0-\u2dff\u302a-\u302f"
    "\u3099\u309a\ua66f-\uabff\ufb1e\ufe20-\ufe2f\uff9e\uff9f\U00010000-\U0001ffff"
)
_IS_INVISIBLE: Final = re.compile(f"[{INVISIBLE}]").search
_ONE_BY_ONE: Final = re.compile(f"[{INVISIBLE}{_MARKS}]").search
#: The invisible characters of ASCII.
_CONTROLS: Final = bytes([*range(9), *range(14, 32), 127])
_WITHOUT_CONTROLS: Final = dict.fromkeys(_CONTROLS)
#: Characters that may fold to something else than their lower-case form.
_FOLDABLE: Final = re.compile(r"[^\x09-\x0d\x20-\x7e]+")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_VISIBLE_ASCII: Final = bytes(range(128)).translate(None, _CONTROLS)
#: Up to this length testing `str` is faster than encoding the text.
_SHORT: Final = 64
#: A cache of one entry: the text that was folded last, and its fold.
_LAST: Final[list[tuple[str, str]]] = [("", "")]
#: With at most one non-ASCII character in so many, only the non-ASCII ones are folded in Python.
_FEW: Final = 16


@cache
def _controls() -> Patterns:
    """Compile the expression on first use: a worker without filters needs none of Hyperscan's memory."""
    return Patterns([rb"[\x00-\x08\x0e-\x1f\x7f]"])


def has_controls(data: bytes) -> bool:
    """Whether UTF-8 text has ASCII control characters."""
    return _controls().any_in(data)


def fold(text: str) -> str:
    """Case-fold a text, decompose it (NFKD) and drop invisible characters; the fold may be longer or shorter."""
    if text.isascii():
        if (len(text) <= _SHORT and text.isprintable()) or not has_controls(text.encode()):
            return text.lower()
        return text.translate(_WITHOUT_CONTROLS).lower()
    last = _LAST[0]
    if text is last[0]:
        return last[1]
    folded = _fold(text)
    # Several filters fold the same text, one after the other.
    _LAST[0] = text, folded
    return folded


def _fold(text: str) -> str:
    data = text.encode("utf-8", "surrogatepass")
    if (len(data) - len(text)) * _FEW <= len(text):
        if _SAME.issuperset(data.translate(None, _VISIBLE_ASCII).decode("utf-8", "surrogatepass")):
            # `lower` of bytes knows ASCII alone.
            return data.lower().decode("utf-8", "surrogatepass")
    else:
        folded = text.casefold()
        if not _ONE_BY_ONE(folded):
            if unicodedata.is_normalized("NFKD", folded):
                return folded
            return _decomposed(_decomposed(folded).casefold())
    return _FOLDABLE.sub(_fold_run, data.lower().decode("utf-8", "surrogatepass"))


class Places:
    """A map from the characters of a `fold` to the characters of the text that they come from."""

    __slots__ = ("_runs", "_starts")

    def __init__(self, text: str) -> None:
        #: For each run whose fold differs in length or order: its start in the fold, ...
        self._starts: list[int] = []
        #: ... its end in the text, and the source index of each folded character.
        self._runs: list[tuple[int, list[int]]] = []
        shift = 0
        for run in _FOLDABLE.finditer(text):
            start, end = run.span()
            origins = [index for index, char in enumerate(run[0], start) for _ in _FOLDS[char]]
            if origins != list(range(start, end)):
                self._starts.append(start + shift)
                self._runs.append((end, origins))
                shift += len(origins) - (end - start)

    @property
    def are_same(self) -> bool:
        """Whether the map is the identity."""
        return not self._starts

    def source(self, at: int) -> int:
        """The source index of the folded character at `at`; the text's length if `at` is the fold's length."""
        index = bisect_right(self._starts, at) - 1
        if index < 0:
            return at
        end, origins = self._runs[index]
        inside = at - self._starts[index]
        return origins[inside] if inside < len(origins) else end + inside - len(origins)


def has_invisible(text: str) -> bool:
    """Whether a text has characters that fold to nothing."""
    return _IS_INVISIBLE(text) is not None


def without_surrogates(text: str) -> str:
    """Replace each lone surrogate, which has no UTF-8, by U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _fold_run(run: re.Match[str]) -> str:
    return "".join(map(_FOLD_ONE, run[0]))


def _decomposed(text: str) -> str:
    return unicodedata.normalize("NFKD", text)


class _Folds(dict[str, str]):
    """A cache of the fold of each character; filled on first use, so bounded by Unicode."""

    def __missing__(self, char: str) -> str:
        folded = _decomposed(_decomposed(char.casefold()).casefold())
        self[char] = folded = "".join(part for part in folded if not _IS_INVISIBLE(part))
        if folded == char:
            _SAME.add(char)
        return folded


#: Characters that were seen and fold to themselves, such as quotation marks and dashes.
_SAME: Final[set[str]] = set()
_FOLDS: Final = _Folds()
_FOLD_ONE: Final = _FOLDS.__getitem__
