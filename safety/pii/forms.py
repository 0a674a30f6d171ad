"""Where something may begin that its form tells: one pass over a text leaves few of the places that have figures."""

from typing import Final

from safety.patterns import CHARACTERS, STARTS, Patterns
from safety.pii import service_tokens
from safety.pii.announced import CODE
from safety.pii.secrets import DOTTED_PREFIX, SPELLED_PREFIXES

#: What stands before a place: PLACE knows the same, and more of it.
_BEGINS: Final = r"(?:^|[^A-Za-z0-9_]|\\[nrt]|%2[Bb0]|/bot)"
#: Of the scripts in which numbers are recognized.
_FIGURE: Final = "[0-9０-９٠-٩۰-۹०-९০-৯]"
#: Between the figures of a number.
SPACING: Final = r"[ .\-/()\x{a0}\x{2002}-\x{2014}\x{202f}\x{3000}－]{0,3}"
SIX_MORE: Final = r"[ \-]?[0-9](?:[ \-.]?[0-9]){5}"
_HEX: Final = "[0-9A-Fa-f]"
#: A place is where one of these begins, or a few characters behind. To Hyperscan each by itself costs less than two
#: together, and to begin with what stands before it takes twice as long to build, ...
_AT_ONCE: Final = (
    rf"{_BEGINS}[+(（＋]{{0,2}}{_FIGURE}(?:{SPACING}{_FIGURE}){{6}}",
    SPELLED_PREFIXES.replace("(?<!--)", ""),
    DOTTED_PREFIX,
    *service_tokens.SPELLED,
    service_tokens.INNER_PLACES,
)
#: ... or it is somewhere in one of these.
_SOMEWHERE: Final = (
    r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]",
    rf"{_HEX}{{0,4}}(?::{_HEX}{{1,4}}:{_HEX}{{0,4}}:|::{_HEX})",
    rf"[A-ZА-ЯІҮӨΑ-Ω]{{1,3}}{SIX_MORE}",
    r"[0-9]{6}[A-FU-Ya-fu-y][0-9]{3}",
    r"[A-Za-z]{2}(?:[0-9]{2}[ .\-]?[A-Za-z0-9][ ]?[A-Za-z0-9]{3}| [0-9]{2} [A-Z]{4}|"
    r"[A-Za-z]{4}[0-9]{2}[A-Za-z][0-9]|[A-Z]{3}[0-9]{4}[A-Z]|[A-Z]{2}[0-9]{6}[HMX0-9A-Z]|[A-Z9]{3}[0-9]{6}[A-Z])",
    r"[1-9][A-Z][A-Z0-9][0-9]-[A-Z][A-Z0-9][0-9]-",
    rf"[A-Z0-9 \-]{{0,8}}(?:{CODE})",
)
_EXPRESSIONS: Final = (*_AT_ONCE, *(f"{_BEGINS}(?:{form})" for form in _SOMEWHERE))
_patterns: Final = Patterns([expression.encode() for expression in _EXPRESSIONS], CHARACTERS | STARTS)
#: What stands before a number with its signs, and by how much Discord's tokens differ in length.
_FIRST: Final = 6


def formed_areas(text: str, most: int) -> list[tuple[int, int]]:
    """Between which characters, both included, something may begin that its form tells; in no order.

    Of so many and more it is not told where.

    Raises UnicodeEncodeError where the text has half a pair of surrogates.
    """
    data = text.encode()
    spans = _patterns.spans(data, most)
    if len(spans) >= most:
        return [(0, len(text))]
    found = [(start, min(start + _FIRST, end) if number < len(_AT_ONCE) else end) for number, start, end in spans]
    if len(data) == len(text):
        return found
    return [(_characters(data, start), _characters(data, end)) for start, end in found]


def _characters(data: bytes, end: int) -> int:
    return len(data[:end].decode("utf-8", "ignore"))
