"""Match identity, card and phone numbers by the grouping of their digits, checksums and the words beside them."""

import re
from itertools import groupby
from typing import Final, NamedTuple

from safety.pii.checksums import CHECKS, Check
from safety.pii.context import REACH, has_label, is_labelled_otherwise, label_end, left_of
from safety.pii.rule_tables import lines, words
from safety.pii.text_window import Found

#: Digits and signs of other scripts, mapped to ASCII character by character.
_PLAIN: Final = str.maketrans(
    {
        **{zero + digit: str(digit) for zero in (0x660, 0x6F0, 0x966, 0x9E6, 0xFF10) for digit in range(10)},
        **dict.fromkeys(map(ord, "‐‑‒–—−－"), "-"),
        **dict.fromkeys(map(ord, "\u00a0\u2002\u2003\u2007\u2009\u202f\u3000"), " "),
        **{ord(wide): plain for wide, plain in zip("＋（）．／", "+()./", strict=True)},
    }
)
_FIGURE: Final = "[0-9０-９٠-٩۰-۹०-९০-৯]"
_SPACE: Final = r"[ .\-/()\x{a0}\x{2002}-\x{2014}\x{202f}\x{3000}－]"
_MORE: Final = rf"(?:[ .\-/()\x{{a0}}\x{{2002}}-\x{{2014}}\x{{202f}}\x{{3000}}－]{{0,3}}{_FIGURE}){{6}}"
#: Expressions for Hyperscan, one of which every number begins with, and an escape that may stand before it.
SIGNS: Final = tuple(
    begin + _MORE
    for begin in (r"\b[0-9]", r"[０-９٠-٩۰-۹०-९০-৯]", rf"[+(（＋]{{1,2}}{_FIGURE}", rf"(?:\\[nrt]|%2[Bb0]){_FIGURE}")
)
BEFORE: Final = re.compile(r"\\[nrt]|%2[Bb0]|")
#: Left contexts that make digits the rest of a date, an amount, a word or a larger number.
_RESTS: Final = re.compile(r"(?:\d[.:/\-+]|[$€£¥]|(?<!wa\.m)[A-Za-z_][\-/.])\Z")
_JOINING: Final = frozenset(",.:/-+$€£¥")
_AFTER_COMMA: Final = re.compile(r"(?<=\d,)\(?\d{1,3}(?![\d-])")
#: Groups of digits; a number takes all or the first few.
_RUN: Final = re.compile(r"[0-9]+(?:(?:[ .\-/+]| - |  )[0-9]+){0,6}")
#: A number without groups, with no sign or word after it.
_ALONE: Final = re.compile(r"([0-9]+)(?:[,;\"')\]}|\n\t]|\Z)")
_GROUP: Final = re.compile(r"[0-9]+")
_SEPARATORS: Final = str.maketrans("", "", " .-/+")
_SHAPE: Final = str.maketrans("123456789", "000000000")
#: Not numbers: dates, spans of years or hours, tables of small numbers.
_NO_NUMBER: Final = re.compile(
    r"(?:19|20)\d\d[ .\-/][01]?\d[ .\-/][0-3]?\d(?!\d)|(?:[0-3]?\d[.\-/ ][01]?\d|[01]?\d/[0-3]?\d)"
    r"[.\-/ ](?:19|20)\d\d(?!\d)|(?:19|20)\d\d ?[-/] ?(?:19|20)\d\d(?!\d)|[0-3]\d[./-][01]\d[./-]\d\d(?![0-9./-])"
    r"|(?:19|20)\d{2}-\d{1,3}(?![0-9-])|0\d{3} ?- ?[012]\d{3}(?!\d)|[012]?\d\.[0-5]\d ?- ?[012]?\d\.[0-5]\d(?!\d)"
    r"|[0-9]{40}|(?:[0-9]{1,3}[ .\-/]){12}",
    re.ASCII,
)
#: Left contexts that make a number the rest of a larger group, and groups of two and four digits.
_INSIDE: Final = re.compile(r"(?:[0-9]{2}|[A-Z][0-9]|[0-9][A-Z]|[0-9]{2} ?[A-Z]{4})[ \u00a0]$|\+$")
_PAIRS: Final = re.compile(r"[0-9]{2}(?: [0-9]{2})+(?![0-9])")
_FOURS: Final = re.compile(r"(?<![0-9])[0-9]{4} [0-9]")
_FOURS_BEFORE: Final = re.compile(r"(?<![0-9])(?:[0-9]{4} )+$")
_LETTER: Final = re.compile(r"[^\W\d_]")
#: The label of an id, which is not a phone number.
_OF_A_THING: Final = re.compile(r"(?<![^\W_])(?:IDs?|Id)(?: (?:no|nr|number|is)\.?)?[:.#= ]{0,3}$")
#: A phone number's extension, and characters that may not follow.
_EXTENSION: Final = r"(?: ?(?:[xX#]|(?i:ext)[. ]?)\d{1,6})?"
_AFTER: Final = r"(?!%s\d|[A-Za-z_%%€$£°]|[:,]\d|[/\-][A-Z](?![A-Za-z]))"
#: Units: a count of something is not a phone number.
_NO_UNIT: Final = (
    r"(?! (?i:times|bytes|people|users|rows|lines|items|units|records|tokens|euros?|dollars?|usd|eur|km|kg|years|"
    r"events|residents|steps|particles|samples|colors|emails|pages|hits|entries|ns|ms|seconds|points|views|copies|inhabitants|"
    r"followers|customers|requests|messages|files|calls|mal|fois|veces|volte)\b)"
)
_SAYS: Final = re.compile(rf"[ \-]?[(\[]?(?:{words('phone_after')})(?=$|[\n)\],;:]|\.(?:\s|$))", re.IGNORECASE)
#: Not a phone number: a postcode, and small numbers in a row.
_NO_PHONE: Final = re.compile(r"[0-9]{5}-[0-9]{3}$|(?:[0-9]{2} ){5,}[0-9]{2}$")


class _Shape(NamedTuple):
    """A line of `numbers.txt`."""

    kind: str
    check: Check
    labelled: bool


class _Phone(NamedTuple):
    """A line of `phones.txt`."""

    form: re.Pattern[str]
    fewest: int
    most: int
    context: str


def _shapes() -> dict[str, tuple[_Shape, ...]]:
    every: list[tuple[str, _Shape]] = []
    for kind, shape, check, context in lines("numbers.txt"):
        spellings = [shape.replace("_", separator) for separator in " -."] if "_" in shape else [shape]
        every += [(spelling, _Shape(kind, CHECKS[check], context == "label")) for spelling in spellings]
    every.sort(key=lambda entry: entry[0])
    return {shape: tuple(entry[1] for entry in group) for shape, group in groupby(every, key=lambda entry: entry[0])}


def _phones() -> tuple[_Phone, ...]:
    every = []
    for _, form, digits, context in lines("phones.txt"):
        fewest, most = digits.split("-")
        # A number in a national grouping may be followed by another one.
        after = _AFTER % (r"[.\-/]?" if context == "national" else r"[ .\-/]?")
        after += _NO_UNIT if context == "label" else ""
        expression = re.compile(rf"(?P<number>{form}){_EXTENSION}{after}", re.ASCII)
        every.append(_Phone(expression, int(fewest), int(most), context))
    return tuple(every)


_SHAPES: Final = _shapes()
#: The lengths of numbers that match without a label and without groups.
_BARE: Final = frozenset(
    len(shape) for shape, rules in _SHAPES.items() if shape.isdigit() and not all(rule.labelled for rule in rules)
)
_PHONES: Final = _phones()


def number_at(text: str, place: int, end: int) -> Found | None:
    """Return the number that begins at a place, with the signs before its first digit; ignore text from `end` on."""
    view = text[place:end]
    if not view.isascii():
        view = view.translate(_PLAIN)
    if (no_number := _NO_NUMBER.match(view)) is not None:
        group = _GROUP.match(view)
        return Found(None, place, place + (group or no_number).end())
    before = text[place - 1 : place] if place else ""
    if before in _JOINING and (_RESTS.search(text, max(0, place - 8), place) or _AFTER_COMMA.match(text, place)):
        return None
    lettered = _LETTER.search(text, max(0, place - REACH), place) is not None
    left = left_of(text, place) if lettered else b""
    if not has_label(left):
        left = b""
    run = _RUN.match(view)
    if not left and view[0] != "0" and (alone := _ALONE.match(view)) and len(alone[1]) not in _BARE:
        return None
    phone_word = label_end("phone", left) if left else -1
    found = None if run is None or _is_rest(text, place, view) else _shaped(view, run[0], left, phone_word)
    if found is not None and not (lettered and is_labelled_otherwise(text, place)):
        return Found(found[0], place, place + found[1])
    end, signed = _phone(text, place, view, phone_word)
    if not end or (not signed and lettered and is_labelled_otherwise(text, place)):
        return None
    return Found("phone", place, place + end)


def _shaped(view: str, run: str, left: bytes, phone_word: int) -> tuple[str, int] | None:
    """Return the kind and end of a number by its shape, the longest first; a label takes precedence over the shape."""
    known: tuple[str, int] | None = None
    zeros = run.translate(_SHAPE)
    for group in reversed(list(_GROUP.finditer(zeros))):
        end = group.end()
        shape = zeros[:end].replace(" - ", "-").replace("  ", " ")
        rules = _SHAPES.get(shape, ())
        if left:
            rules = (*_SHAPES.get(f"{shape.count('0')} digits", ()), *rules)
        best: tuple[str, int] | None = None
        nearest = -1
        for kind, check, labelled in rules:
            digits = run[:end].translate(_SEPARATORS)
            if (labelled and not left) or not _ends(shape, view[end : end + 2], kind) or not check(digits):
                continue
            if not labelled:
                known = known or (kind, end)
            elif (word := label_end(kind, left)) > nearest:
                best, nearest = (kind, end), word
        if best is not None:
            # A nearer label of a phone makes it one, if the form fits.
            return known if phone_word > nearest and _of_phone(view, "label") else best
    return known


def _ends(shape: str, after: str, kind: str) -> bool:
    """Whether a number ends here, not inside a longer word or number. A date or a code may follow a card."""
    if (after[:1].isalnum() and after[:1] <= "\u0e00") or after[:1] == "_":
        return False
    if len(after) < 2 or not after[1].isdigit():
        return True
    if kind == "credit_card":
        return after[0] not in ".-"
    return after[0] not in " .-/+" or (after[0] == " " and " " not in shape)


def _is_rest(text: str, place: int, view: str) -> bool:
    """Whether groups of four digits continue earlier ones that are not a card by themselves."""
    before = _FOURS_BEFORE.search(text, max(0, place - 40), place) if _FOURS.match(view) else None
    return before is not None and not CHECKS["credit_card"](before[0].replace(" ", "")[-16:])


def _of_phone(view: str, context: str) -> int:
    """Return the end of a phone number of the forms with this context, or 0."""
    for phone in _PHONES:
        found = phone.form.match(view) if phone.context == context else None
        if found is None:
            continue
        digits = [digit for digit in found["number"] if digit.isdigit()]
        if phone.fewest <= len(digits) <= phone.most and len(set(digits)) > 1 and not _NO_PHONE.match(found["number"]):
            return found.end()
    return 0


def _phone(text: str, place: int, view: str, word: int) -> tuple[int, bool]:
    """Return the end of a phone number, or 0, and whether it begins with + or (: then no label rules it out."""
    before = _INSIDE.search(text, max(0, place - 8), place)
    # In a list, the number before one with a sign ends with digits.
    inside = before is not None and (view[0] not in "+(" or before[0] == "+")
    if view[0] in "+(0" and not inside and (end := _of_phone(view, "-")):
        return end, view[0] in "+("
    grouped = not view[:7].isdigit() or view[0] == "0"
    end = _of_phone(view, "national") if grouped else 0
    if end and " " in view[:end] and (inside or (view[end : end + 1] == " " and view[end + 1 : end + 2].isdigit())):
        end = 0
    if not end and not (inside and _PAIRS.match(view)):
        end = _of_phone(view, "label") if word >= 0 or _LETTER.search(view) else 0
        if end and word < 0 and not _SAYS.match(view, end):
            end = 0
    return 0 if word < 0 and _OF_A_THING.search(text, max(0, place - 12), place) else end, False
