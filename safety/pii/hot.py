"""Where something may begin: a rough test of whole texts, and the places that are worth a closer look."""

import re
from collections.abc import Iterable
from functools import cache
from itertools import chain, islice
from typing import Final

import re2

from safety.patterns import CHARACTERS, Patterns, Sign
from safety.pii import one_time_codes, said, said_codes, said_pins, service_tokens
from safety.pii.announced import CODE
from safety.pii.assigned import NAMES, ROUGH_NAMES
from safety.pii.codes import NAMED_ROUGH
from safety.pii.emails import LOCAL, UNSPACED, WORD
from safety.pii.forms import SIX_MORE, SPACING, formed_areas
from safety.pii.numbers import is_nothing
from safety.pii.password_words import EVERY_WORD, STEMS, TOLD_ON_A_LINE_ROUGH, TOLD_ROUGH, shortest
from safety.pii.secrets import LONG_USER_ROUGH, PREFIXES, SPELLED_PREFIXES, USER_PLACE
from safety.pii.speaking import says_something
from safety.plain_text import plain_ones

_BETWEEN: Final = r"(?:[ \-/()\u00a0\u2002-\u2014\u202f\u3000－]|\.(?!\s)){0,3}"
_MORE: Final = rf"(?:{_BETWEEN}\d){{6}}"


def _simple(prefixes: str) -> str:
    """Without bounded repetitions, which cost a machine many states."""
    return re.sub(r"\(\?<!.*?\)", "", re.sub(r"\{(\d\d+),?\d*\}", "+", prefixes))


def _early(expression: str) -> str:
    """An expression that ends earlier, and finds more: without counts from nothing on and what may come after a while.

    RE2 has a state for each combination of what may still come.
    """
    expression = re.sub(r"\{0,\d\d\}", "*?", expression)
    return next((expression.removesuffix(tail) for tail in _TAILS if expression.endswith(tail)), expression)


_LONE: Final = r"(?<!\d[.:/\-+].)(?:(?<!\d,.)|(?=\d{3}[\d-]))(?<![$€£¥].)(?:(?<![A-Za-z_][\-/.].)|(?<=wa\.me/.))"
_HEX: Final = "[0-9A-Fa-f]"
_ASSIGNS: Final = r"(?:[_\-][A-Za-z0-9_\-]{1,12})?(?:[\"'’`\]\\]{0,3}[ \t]{0,24}(?:[:=：＝]|<-|->)|>)"

#: A place where something may begin. It looks at no more than 64 characters from there and a few to the left.
#: Group 1: a number, 2: a code, address or disguised e-mail, 3: an e-mail, 4: a key, 5: after a word,
#: 6: a name whose value is a secret, 7: user and password of an address.
#: Branches begin with a class or a letter, which lets most fail at once.
#: A backslash with an n, r or t is white space, as JSON has it within strings.
PLACE: Final = re.compile(
    rf"(?:(?<!{WORD})(?!(?<=\\)[nrt])|(?<=\\[nrt])|(?<=%2[Bb0])|(?<=/bot))(?:"
    rf"(\d{_LONE}(?={_MORE})|[+(（＋]{_LONE}(?=[+(（＋]?\d{_MORE}))"
    rf"|([0-9](?<!\..)(?<![0-9:]:.)[0-9]{{0,2}}\.[0-9]{{1,3}}\.[0-9]{{1,3}}\.[0-9]"
    rf"|[0-9A-Fa-f:](?<![:.].)(?:{_HEX}{{0,3}}(?<!:):{_HEX}{{1,4}}:(?:{_HEX}{{1,4}}:|:)|{_HEX}{{0,3}}(?<!:)::{_HEX}|"
    rf"(?<=:):{_HEX})"
    r"|[0-9]{6}[A-FU-Ya-fu-y][0-9]{3}"
    r"|[A-ZА-ЯІҮӨΑ-Ω](?<![\-/.].)[A-ZА-ЯІҮӨΑ-Ω]{0,2}[ \-]?[0-9](?:[ \-.]?[0-9]){5}"
    r"|[A-Za-z](?<![\-.].)(?<![^:]/.)[A-Za-z](?:[0-9]{2}[ .\-]?[A-Za-z0-9][ ]?[A-Za-z0-9]{3}| [0-9]{2} [A-Z]{4}|"
    r"[A-Za-z]{4}[0-9]{2}[A-Za-z][0-9]|[A-Z]{3}[0-9]{4}[A-Z]|[A-Z]{2}[0-9]{6}[HMX0-9A-Z]|[A-Z9]{3}[0-9]{6}[A-Z])"
    r"|[1-9][A-Z][A-Z0-9][0-9]-[A-Z][A-Z0-9][0-9]-"
    r"|[A-Za-z0-9][A-Za-z0-9._+-]{0,30}+(?<=[A-Za-z0-9])"
    r"(?:%40[A-Za-z0-9]| ?[\[({<] ?(?:(?:at|AT|At|@) ?[\])}>]|(?:dot|DOT) ?[\])}])))"
    rf"|((?<!\w[.+%&'\-]){LOCAL}[@＠][^\s@，。！？；、…]{{2}})"
    rf"|((?=[A-Za-z0-9_.+~:/\-]{{10}})(?:{PREFIXES}|{service_tokens.PLACES}))"
    r"|([^\s](?<= .)(?:(?<=[Rr] .)(?:(?<=[Bb]earer .)|(?<=BEARER .))|(?<=[Bb]asic .))"
    rf"|{said.PLACES}))"
    rf"|({NAMES}{_ASSIGNS})"
    rf"|({USER_PLACE})"
)


def _words(words: Iterable[str]) -> str:
    """Words for a password with what makes one a place.

    They stand here once, and in plain texts' expressions only those that such a text can have: from some 250 strings
    on, Hyperscan's search takes three times as long.
    """
    # Both engines know only ASCII's letters as such.
    return rf"(?i:{'|'.join(shortest(words))})[^\x00-\x40\x5b-\x60\x7b-\x7f]{{0,2}}(?:{_ASSIGNS}|{TOLD_ROUGH})"


_TAILS: Final = (TOLD_ROUGH, TOLD_ON_A_LINE_ROUGH, r"[^\n]*?[0-9]")
_EVERY_WORD: Final = (*EVERY_WORD, *STEMS)
#: What every text has in which PLACE leads to something, near that place; an @ aside, and what a form tells.
_ROUGH_SIGNS: Final = (
    r"[\[({<] ?(?i:at|@|dot) ?[\])}>]",
    r"%40[A-Za-z0-9]",
    r"(?i:bearer) [A-Za-z0-9+/._~\-]{16}",
    r"(?i:basic) [A-Za-z0-9+/]{8}",
    *said.ROUGH,
    LONG_USER_ROUGH,
    NAMED_ROUGH,
    ROUGH_NAMES + _ASSIGNS,
)
_ROUGH_CODES: Final = (
    rf"{CODE}|[A-Za-z]{{2}}[0-9]{{2}}[ .\-]?[A-Za-z0-9][ ]?[A-Za-z0-9]{{3}}|[A-Z]{{2}} [0-9]{{2}} [A-Z]{{4}}"
)
_MEMORY: Final = re2.Options()
# With the 8 MiB of its own, it would build its states again and again.
_MEMORY.max_mem = 64 << 20
_ROUGH: Final = re2.compile(
    "|".join(
        (
            *map(_early, _ROUGH_SIGNS),
            f"(?i:{'|'.join(shortest(_EVERY_WORD))})",
        )
    ),
    _MEMORY,
)
#: PINs and codes of things, whose many words would slow that down, and what few texts have that stands for all of them.
_ROUGH_PINS: Final = re2.compile(
    "|".join(
        (
            *map(_early, said_pins.ROUGH),
            # As a word of everyday language `code` leads to nothing without a figure after it.
            *said_codes.ROUGH_OF_PLAIN,
            *(said_pins.ROUGH_OF_OTHERS, said_codes.ROUGH_OF_OTHERS, one_time_codes.ROUGH),
        )
    ),
    _MEMORY,
)
_MAY_HAVE_PINS: Final = re2.compile(f"{said_pins.STEMS_OF_WORDS}|{one_time_codes.STEMS}|{said_codes.STEMS}")
#: To Python these are an i in another case, as in Turkish; to the engines of the rough tests they are not.
_DOTLESS: Final = "ı"
_DOTTED: Final = "İ"
#: ... as plain texts have them, and some more: what begins with a figure or a sign, and not with any letter, costs
#: next to nothing to look for.
_PLAIN_ROUGH: Final = (
    *_ROUGH_SIGNS,
    *said_pins.ROUGH,
    *one_time_codes.ROUGH_OF_PLAIN,
    *said_codes.ROUGH_OF_PLAIN,
    _words(plain_ones(_EVERY_WORD)),
    _simple(SPELLED_PREFIXES),
    *service_tokens.ROUGH,
    r"[A-Za-z0-9_\-]{8}\.[A-Za-z0-9_\-]{6}\.",
    rf"[0-9](?:{SPACING}[0-9]){{6}}|[0-9]{{6}}[A-FU-Ya-fu-y][0-9]{{3}}|[0-9]{{2}}[A-Za-z][0-9]"
    r"|[0-9]\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]|[0-9]{4}[A-Z]|::|:[0-9A-Fa-f]{1,4}:",
    rf"{_ROUGH_CODES}|[A-Z]{SIX_MORE}",
    _DOTLESS,
)

#: What a place has within the characters that may be looked at, if there is anything.
TRIGGER: Final = re.compile(r"[\d@＠=＝:：\[(（{<>+＋\-_]")
#: The same, less digits.
SIGN: Final = re.compile(r"[@＠=＝:：\[(（{<>+＋\-_]")
#: After this a new stretch begins: nothing that begins before it depends on what follows.
BREAK: Final = re.compile(
    r"\n|[.,;!?]\s|[，。！？；、…]|(?<=[^\W\d_A-Z])\s(?=[^\W\d_])|(?<=[A-Z])\s(?=[^\W\d_A-Z])",
)
#: The last letter of a script without spaces in a text.
LAST_UNSPACED: Final = re.compile(rf"[{UNSPACED}](?=[^{UNSPACED}]*$)")
#: So many letters of such a script can be part of something that goes on.
UNSPACED_HOLD: Final = 8

_STRIDE: Final = 1024
#: A place is at most so far before a rough hit, if that can stand amid what is found, or before an @.
_BEFORE: Final = 44
_BEFORE_AT: Final = 64
_INNER: Final = re.compile(r"[0-9\-]|^[\[({<.%]")
_SHORT: Final = 10
#: A rough hit may hide the beginning of another one, or name a value, so far behind.
_HIDDEN: Final = 64
#: With more hits than this in a stretch, or so many forms, all of the stretch is looked at.
_HITS: Final = 4
_FORMS: Final = 200


@cache
def rough_of_plain() -> Patterns:
    """What is in the bytes of every plain text in which `areas` finds any; an @ aside."""
    return Patterns([expression.encode() for expression in _PLAIN_ROUGH], CHARACTERS)


@cache
def signs_of_plain() -> tuple[Sign, ...]:
    """The same, an @ too."""
    return (Sign(b"@"), *(Sign(expression.encode(), CHARACTERS) for expression in _PLAIN_ROUGH))


def areas(text: str) -> list[tuple[int, int]]:
    """The stretches of a text, in order, where PLACE can lead to something that begins there."""
    every: list[tuple[int, int]] = []
    for start in range(0, len(text), _STRIDE):
        offset = max(0, start - _BEFORE_AT)
        every += (
            (first + offset, last + offset) for first, last in _areas(text[offset : start + _STRIDE + _BEFORE_AT])
        )
    every.sort()
    joined: list[tuple[int, int]] = []
    for first, last in every:
        if joined and first <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], last)
        else:
            joined.append((max(0, first), last))
    return joined


def _areas(part: str) -> list[tuple[int, int]]:
    """The same of a part of it, in no order; those that begin before it or reach beyond it do so."""
    try:
        found = formed_areas(part, _FORMS)
    except UnicodeEncodeError:
        return [(0, len(part))]
    if _DOTLESS in part or _DOTTED in part:
        return [(0, len(part))]
    encoded = part.encode()
    pins = _MAY_HAVE_PINS.search(encoded) is not None and _ROUGH_PINS.search(encoded) is not None
    if not pins and "@" not in part and "＠" not in part and _ROUGH.search(encoded) is None:
        if len(found) <= _HITS or says_something(encoded):
            return found
        return [each for each in found if not is_nothing(part, each[0])]
    signs: list[tuple[int, int]] = []
    for at in islice(_AT.finditer(part), _HITS + 1):
        end = at.end()
        signs.append((max(end - _BEFORE_AT, part.rfind(" ", max(0, end - _BEFORE_AT), end)), end))
    plain = len(part) == len(encoded)
    hits = islice(_ROUGH.finditer(encoded), _HITS + 1)
    for hit in chain(hits, islice(_ROUGH_PINS.finditer(encoded), _HITS + 1)) if pins else hits:
        first, last = hit.span()
        if not plain:
            last = len(encoded[:last].decode())
            first = len(encoded[:first].decode())
        before = _BEFORE if _INNER.search(part[first:last]) else _SHORT
        signs.append((first - before, last + _HIDDEN))
    if len(signs) > _HITS:
        return [(0, len(part))]
    return found + signs


_AT: Final = re.compile("[@＠]")
