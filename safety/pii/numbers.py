"""Numbers: identity numbers, cards and phones, told apart by how their digits are grouped."""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from safety.pii import checks, payment
from safety.pii.announced import announced_at
from safety.pii.context import REACH, left_of, named_otherwise, phone_word
from safety.pii.named_numbers import SEPARATORS, SHAPE, ends_alone, named_number
from safety.pii.phones import DATE, phone_beside_word, phone_in_groups, phone_with_prefix, says_phone
from safety.pii.speaking import says_something

#: A run of groups of digits, of which a number takes all or the first few.
_RUN: Final = re.compile(r"([0-9]+)(?:(?:[ .\-/+]| - |  )[0-9]+){0,6}")
_LONG: Final = re.compile(r"[0-9]{40}")
#: Twelve small groups are a table of numbers. Of larger ones only four are passed over, which may have been a card.
_TABLE: Final = re.compile(r"(?:[0-9]{1,3}[ .\-/]){12}|(?=(?:[0-9]{4}[ .\-/]){12})(?:[0-9]{4}[ .\-/]){4}")
#: Ends of groups that a number would be the rest of.
_INSIDE: Final = re.compile(r"(?:[0-9]{2}|[A-Z][0-9]|[0-9][A-Z]|[0-9]{2} ?[A-Z]{4})[ \u00a0]$|\+$")
_JOINS: Final = (" ", "\u00a0", "+")
#: Of a row, the rest.
_PAIRS: Final = re.compile(r"[0-9]{2}(?: [0-9]{2})+(?![0-9])")
#: An id is of a person or a thing, and no phone's.
_OF_A_THING: Final = re.compile(r"(?<![^\W_])(?:IDs?|Id)(?: (?:no|nr|number|is)\.?)?[:.#= ]{0,3}$")
#: Groups of four, of which one that begins with such a group would be the rest.
_FOURS: Final = re.compile(r"(?<![0-9])[0-9]{4} [0-9]")
_FOURS_BEFORE: Final = re.compile(r"(?<![0-9])(?:[0-9]{4} )+$")
_LETTER: Final = re.compile(r"[^\W\d_]")

#: A day as logs and data have it by the thousand, and a letter for how bad it was: nothing else begins so.
DAY: Final = re.compile(
    r"(?:19|20)[0-9]{2}-[01][0-9]-[0-3][0-9](?=[T ][0-9]{2}:|[\"',;)\]}<\n])"
    r"|[IWEF][01][0-9][0-3][0-9] [0-2][0-9](?=:[0-5][0-9]:)"
)
#: The digits of a run too long for a number.
DIGITS: Final = re.compile(r"[0-9]*")


_Check = Callable[[str], bool]

#: Shapes that need no word beside them, with the kinds that are written so.
_SHAPES: Final[dict[str, tuple[tuple[str, _Check], ...]]] = {
    "000-00-0000": (("us_ssn", checks.us_ssn), ("us_itin", checks.us_itin)),
    "000000-0000": (("se_personnummer", checks.se_personnummer),),
    "000000+0000": (("se_personnummer", checks.se_personnummer),),
    "00000000-0000": (("se_personnummer", checks.se_personnummer),),
    "0000 0000 0000": (("in_aadhaar", checks.verhoeff),),
    "0000-0000-0000": (("in_aadhaar", checks.verhoeff),),
    "000000/0000": (("cz_rodne_cislo", checks.cz_rodne_cislo),),
    "00.00.00-000.00": (("be_nn", checks.be_nn),),
    "000000-000-00": (("be_nn", checks.be_nn),),
    "000.000.000-00": (("br_cpf", checks.br_cpf),),
    "00-00000000-0": (("ar_cuit", checks.ar_cuit),),
    "00.000.000-0": (("cl_rut", checks.cl_rut),),
    "0.000.000-0": (("cl_rut", checks.cl_rut), ("uy_ci", checks.uy_ci)),
    "000.0000.0000.00": (("ch_ahv", checks.ch_ahv),),
    "000 0000 0000 00": (("ch_ahv", checks.ch_ahv),),
    "000000-0000000": (("kr_rrn", checks.kr_rrn),),
    "000-000-000 00": (("ru_snils", checks.ru_snils),),
    "0-0000-00000-00-0": (("th_national_id", checks.th_national_id),),
    "000-0000-0000000-0": (("ae_emirates_id", checks.ae_emirates_id),),
    "0000000000000": (("za_id", checks.za_id),),
    "000000 0000 000": (("za_id", checks.za_id),),
    "000000 0000 00 0": (("za_id", checks.za_id),),
    "0 00 00 00 000 000 00": (("fr_nir", checks.fr_nir),),
    "0-00-00-00-000-000-00": (("fr_nir", checks.fr_nir),),
    "0000000000000 00": (("fr_nir", checks.fr_nir),),
    "000000000000000": (("credit_card", payment.credit_card), ("fr_nir", checks.fr_nir)),
    "000000000000000000": (("cn_resident_id", checks.cn_resident_id),),
    "000000 00000000 0000": (("cn_resident_id", checks.cn_resident_id),),
}

_CARD: Final = ("credit_card", payment.credit_card)
for _groups in (
    *((length,) for length in range(14, 20)),
    (4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (4, 4, 4, 4, 3), (6, 13), (4, 4, 4, 4, 2), (4, 4, 4, 4, 1), (4, 4, 5),
):  # fmt: skip
    for _separator in " -.":
        _shape = _separator.join("0" * length for length in _groups)
        if _CARD not in _SHAPES.get(_shape, ()):
            _SHAPES[_shape] = (*_SHAPES.get(_shape, ()), _CARD)

#: The longest of the shapes.
_KNOWN: Final = re.compile(
    "(?:"
    + "|".join(
        re.sub("0+", lambda digits: rf"[0-9]{{{len(digits[0])}}}", re.escape(shape))
        for shape in sorted(_SHAPES, key=len, reverse=True)
    )
    + r")(?![0-9])"
)


class Number(NamedTuple):
    """What was found at the place: a kind and where it ends there; without a kind, the place to go on at.

    `digits`: not even after the end; the rest of a run of digits is passed over.
    """

    kind: str | None
    end: int
    digits: bool = False


def number_at(text: str, position: int, view: str) -> Number:
    """The number that begins at a position. `view` is what may be looked at from there, with plain digits and signs."""
    if _LONG.match(view):
        return Number(None, 40, True)
    run = _RUN.match(view)
    if run is not None and DATE.match(view):
        return Number(None, run.end(1))
    lettered = _lettered(text, position)
    spoken = lettered and says_something(left_of(text, position))
    if run is not None:
        shape = _KNOWN.match(view)
        found = None if shape is None else _shaped(view, shape.end())
        if (spoken or found is not None) and _is_whole(text, position, view, lettered):
            named = named_number(text, position, view, run.group()) if spoken else None
            if named is not None and not (phone_beside_word(view) and phone_word(text, position) > named.word):
                return Number(named.kind, named.end)
            if found is not None:
                return found
    if spoken and (end := announced_at(text, position, view)):
        return Number("id_number", end)
    if end := _phone(text, position, view, lettered, spoken):
        return Number("phone", end)
    if run is None:
        return Number(None, 1)
    table = _TABLE.match(view)
    return Number(None, table.end() if table else run.end(1))


_ALONE: Final = re.compile(r"[^A-Za-z0-9_+＋]?\(?([1-9][0-9]{6,18})[,;\"')\]}|\n\t]")


def is_nothing(text: str, position: int) -> bool:
    """Whether a number, with a sign before it or none, is surely none of those where no word says anything."""
    alone = _ALONE.match(text, max(0, position))
    return alone is not None and _shaped(alone[1], len(alone[1])) is None


def _is_rest(text: str, position: int, view: str) -> bool:
    """Whether groups of four are the last ones of more, which are not a card and another one."""
    if _FOURS.match(view) is None:
        return False
    before = _FOURS_BEFORE.search(text, max(0, position - 40), position)
    return before is not None and not payment.credit_card(before.group().replace(" ", "")[-16:])


def _is_whole(text: str, position: int, view: str, lettered: bool) -> bool:
    """Whether a number is no order's or part's, and no rest of another one."""
    return not (lettered and named_otherwise(text, position)) and not _is_rest(text, position, view)


def _phone(text: str, position: int, view: str, lettered: bool, spoken: bool) -> int:
    """The end of a phone number, or 0; named as something else it is none, which only a + contradicts.

    `lettered`, `spoken`: whether there is a word to its left, and one that may say what it is.
    """
    before = None
    if text[max(0, position - 1) : position] in _JOINS:
        before = _INSIDE.search(text, max(0, position - 8), position)
    # In a list, the number before one with a sign ends with figures.
    inside = before is not None and (view[0] not in "+(" or before.group() == "+")
    if view[0] in "+(" and not inside and (end := phone_with_prefix(view)):
        return end
    end = (phone_with_prefix(view) if view[0] == "0" and not inside else 0) or phone_in_groups(view, inside)
    if not end and not (inside and _PAIRS.match(view)):
        end = phone_beside_word(view)
        if end and not says_phone(view, end) and not (spoken and phone_word(text, position) >= 0):
            end = 0
    if not end or (lettered and named_otherwise(text, position)):
        return 0
    of_a_thing = _OF_A_THING.search(text, max(0, position - 12), position) is not None
    return 0 if of_a_thing and not (spoken and phone_word(text, position) >= 0) else end


def _shaped(view: str, end: int) -> Number | None:
    """A number of one of the shapes, the longest first."""
    shape = view[:end].translate(SHAPE)
    while len(shape) > 8:
        after = view[end : end + 2]
        digits = view[:end].translate(SEPARATORS)
        for kind, check in _SHAPES.get(shape, ()):
            if ends_alone(shape, after, kind) and check(digits):
                return Number(kind, end)
        shape = shape.rstrip("0").rstrip(" .-/+")
        end = len(shape)
    return None


def _lettered(text: str, position: int) -> bool:
    """Whether any word stands a little to the left, which is a quick answer for tables of numbers."""
    return _LETTER.search(text, max(0, position - REACH), position) is not None
