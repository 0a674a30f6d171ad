"""The forms of phone numbers."""

import re
from typing import Final

#: An extension. Nothing in it is where a stream would think that a new stretch begins (`safety.pii.hot.BREAK`).
_EXTENSION: Final = r"(?: ?(?:[xX#]|(?i:ext)[. ]?)\d{1,6})?"
_END: Final = r"(?![ .\-/]?\d|[A-Za-z_%€$£°]|[:,]\d|[/\-][A-Z](?![A-Za-z]))"
#: The same, for numbers that one without spaces may follow after a space.
_END_OF_ONE: Final = r"(?![.\-/]?\d|[A-Za-z_%€$£°]|[:,]\d|[/\-][A-Z](?![A-Za-z]))"

#: What is counted is no number of a phone.
NO_UNIT: Final = (
    r"(?! (?i:times|bytes|people|users|rows|lines|items|units|records|tokens|euros?|dollars?|usd|eur|km|kg|years|"
    r"events|residents|steps|particles|samples|colors|emails|pages|hits|entries|ns|ms|seconds|points|views|copies|"
    r"inhabitants|followers|customers|requests|messages|files|calls|mal|fois|veces|volte)\b)"
)

_PLUS: Final = re.compile(
    r"\(?(?:\+|00(?=[1-9]\d{0,2}[ .\-/(]))\)? ?"
    r"(?P<country>1|7|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|2[1-689]\d|3[578]\d|42\d|5[09]\d|6[789]\d|"
    r"8[0578]\d|9[679]\d)"
    r"(?P<rest>(?:(?: [\-/] |[ .\-/]\(?| ?\(|\)[ \-]?)?+\d){6,13}+\)?)" + _EXTENSION + _END,
    re.ASCII,
)

#: National groupings that no context is needed for. Every one is followed by `_END_OF_ONE`.
_NATIONAL: Final = re.compile(
    r"(?P<number>"
    # North America
    r"(?:1[ .\-])?(?:\([2-9]\d\d\)[ .\-]?|[2-9]\d\d[.\-/])\d{3}[ .\-]\d{4}"
    r"|(?:1[ .\-])?[2-9]\d\d [2-9]\d\d[ \-]\d{4}"
    # A trunk prefix 0 and an area or mobile code: much of Europe, Asia, Africa and Oceania
    r"|\(0\d{1,5}\)[ \-]?\d{2,8}(?:[ .\-]\d{2,4}){0,4}"
    r"|0[1-9]\d{0,4}(?: ?/ ?|-| - )\d{3,8}(?:[ \-]\d{2,5}){0,3}"
    r"|0[1-9]\d{0,4}(?: ?/ ?|-)\d{2}(?: \d{2,4}){1,4}(?:-\d{1,4})?"
    r"|0[1-9]\d{0,3} \d{5,8}|0[6-9]\d{4} \d{5}"
    r"|(?!0\d(?: \d{2}){5})0[1-9]\d{0,3} \d{2,4}(?: \d{2,4}){1,4}"
    r"|0[567]\d{8}|0[6-9]\d{9}|010\d{8}|0[1-9]\d{0,2}\.\d{3,4}\.\d{3,4}|0[1-9](?:\.\d\d){4}|0\d{2,3}(?:\.\d\d){3}"
    r"|0[1-9](?:-\d\d){4}(?!-)|0[1-9]\d{0,2}/\d{2,3}\.\d\d\.\d\d|0 ?\([2-5]\d\d\) ?\d{3} ?\d\d ?\d\d"
    r"|06[ \-/]\d{1,2}[ \-/]\d{3}[ \-]\d{3,4}"
    # Italy, Spain, Portugal, India, Brazil, China, Mexico, Australia
    r"|3[2-9]\d[ .\-/]\d{3}[ .\-]\d{3,4}|3[2-9]\d[ .\-/]\d{6,7}"
    r"|[6789]\d\d \d\d \d\d \d\d|9[1-8] \d{3} \d\d \d\d"
    r"|(?:91[ \-])?[6-9]\d{4}[ \-]\d{5}"
    r"|\([1-9]\d\) ?(?:9 )?\d{4,5}[ .\-]\d{4}|[1-9]\d 9\d{4}[ \-]\d{4}|[1-9]\d [2-5]\d{3}-\d{4}"
    r"|1[3-9]\d[ \-]\d{4}[ \-]\d{4}"
    r"|\(?[2-9]\d\)? \d{4} \d{4}"
    r"|1[38]00[ \-]\d{3}[ \-]\d{3}"
    # Norway, Chile, Budapest, Lithuania
    r"|[49]\d\d \d\d \d{3}|9 [3-9]\d{3} \d{4}|\(1\) ?[2-4]\d\d[ \-]\d{4}|8[ \-]6\d\d[ \-]\d{5}"
    r"|\(8[ \-]?[3-6]\d{0,2}\) ?\d{2,3} ?\d{3,5}"
    # Russia, Kazakhstan, Belarus
    r"|8[ \-]?\([03-9]\d\d\)[ \-]?\d{3}[ \-]\d\d[ \-]\d\d|8[ \-][03-9]\d\d[ \-]\d{3}[ \-]\d\d[ \-]\d\d"
    r")" + _EXTENSION + _END_OF_ONE,
    re.ASCII,
)

#: What counts beside a word such as "phone".
_NAMED: Final = re.compile(
    r"(?P<number>(?:\(\d{1,5}\)[ ./\-]?)?\d{1,13}+(?:[ .\-/]\d{1,8}+){0,6}+)" + _EXTENSION + _END + NO_UNIT, re.ASCII
)
#: As Brazil has it.
_POSTCODE: Final = re.compile(r"[0-9]{5}-[0-9]{3}$")
#: Small numbers in a row, as are drawn in lotteries.
_ROW: Final = re.compile(r"(?:[0-9]{2} ){5,}[0-9]{2}$")
#: So many digits the shortest of the national groupings have, with a trunk prefix and without.
_FEWEST, _FEWEST_BARE = 9, 8
#: The one word after a number that says what it is.
_SAYS: Final = re.compile(
    r"[ \-]?[(\[]?(?:office|fax|mobile|cell|cellphone|phone|telephone|landline|direct|voice|switchboard|whatsapp|"
    r"telefon|handy|móvil|celular|cel|telemóvel|portable|cellulare|mobiel|komórka|tlf|τηλ|κινητό|тел|моб|мобильный|"
    r"мобільний|モバイル|携帯)(?=$|[\n)\],;:]|\.(?:\s|$))",
    re.IGNORECASE,
)
#: Dates and spans of years or hours, which phone numbers look like.
DATE: Final = re.compile(
    r"(?:19|20)\d\d[ .\-/][01]?\d[ .\-/][0-3]?\d(?!\d)|(?:[0-3]?\d[.\-/ ][01]?\d|[01]?\d/[0-3]?\d)[.\-/ ](?:19|"
    r"20)\d\d(?!\d)"
    r"|(?:19|20)\d\d ?[-/] ?(?:19|20)\d\d(?!\d)|[0-3]\d[./-][01]\d[./-]\d\d(?![0-9./-])"
    r"|(?:19|20)\d{2}-\d{1,3}(?![0-9-])|0\d{3} ?- ?[012]\d{3}(?!\d)"
    r"|[012]?\d\.[0-5]\d ?- ?[012]?\d\.[0-5]\d(?!\d)",
    re.ASCII,
)


def phone_with_prefix(view: str) -> int:
    """The end of an international number that a text begins with, or 0."""
    found = _PLUS.match(view)
    if found is None:
        return 0
    digits = sum(map(str.isdigit, found["rest"]))
    country = found["country"]
    if country == "1" and digits != 10:
        return 0
    return found.end() if digits + len(country) <= 15 else 0


def phone_in_groups(view: str, inside: bool) -> int:
    """The end of a number in a national grouping that a text begins with, or 0.

    `inside`: other digits and a space stand before it, so that one with spaces may be part of something longer.
    """
    found = _NATIONAL.match(view)
    if found is None:
        return 0
    end = found.end()
    if " " in found["number"] and (inside or (view[end : end + 1] == " " and view[end + 1 : end + 2].isdigit())):
        return 0
    fewest = _FEWEST if found["number"].lstrip("(").startswith("0") else _FEWEST_BARE
    return end if fewest <= sum(map(str.isdigit, found["number"])) <= 12 else 0


def phone_beside_word(view: str) -> int:
    """The end of a number that counts only because of a word before or after it, or 0."""
    found = _NAMED.match(view)
    if found is None:
        return 0
    if _POSTCODE.match(found["number"]):
        return 0
    if _ROW.match(found["number"]):
        return 0
    digits = [digit for digit in found["number"] if digit.isdigit()]
    return found.end() if 7 <= len(digits) <= 13 and len(set(digits)) > 1 else 0


def says_phone(view: str, end: int) -> bool:
    """Whether the word after a number that ends there says that it is a phone's."""
    return _SAYS.match(view, end) is not None
