"""Find where the end of a text may be the beginning of a match, by expressions derived from those of the rules.

A match begins where an expression of the tables matches, as Hyperscan finds it (`places.candidates`), so it can only
begin where the text up to its end is a prefix of such a match. Lookaround is dropped: that finds more beginnings, never
fewer.
"""

import re
from functools import cache
from typing import Final

import re2

from safety.expression_syntax import parse
from safety.pii import emails, numbers
from safety.pii.loosened import loosened
from safety.pii.rule_tables import lines
from safety.pii.text_window import BEGINS, WINDOW

#: A value of `id_number` until its first digit: the only one whose place is told by what follows.
_ID_NUMBER: Final = "[A-ZА-ЯІҮӨΑ-Ω]{1,5}[ \\-]?"
#: Characters that no local part of an address has: an expression without them begins where a word does that is held as
#: one.
_NOT_OF_LOCALS: Final = re.compile(r"[ /:=~!$@&]|\\[x()]|^-")
_ENDLESS: Final = re.compile(r"(?<!\\x)\{(?P<least>\d+),\}|(?:(?<=\])|(?<=\\d))(?P<sign>[*+])")
_ESCAPED: Final = re.compile(r"\\u([0-9a-f]{4})|\\U([0-9a-fA-F]{8})")
#: Where an expression of a rule may begin, but for words of letters that a space or a sign ends: none of the rules has
#: a match that goes on after them.
_FIRST: Final = re.compile(rf"{BEGINS}(?![A-Z]?[a-z]{{1,12}}[ \n,;.)\]}}\"'’”|*?])[\w+(（＋:.~&\-]")
#: Whether texts that were asked for lately may be beginnings.
_KNOWN: Final[dict[str, bool]] = {}
_MOST_KNOWN: Final = 16_384
_SHORT: Final = 24
_MEMORY: Final = 64 << 20


@cache
def _rules() -> "re2._Regexp":
    expressions = [_ID_NUMBER, *numbers.SIGNS]
    for table in ("tokens.txt", "codes.txt"):
        expressions += [each for _, form, *_ in lines(table) for each in loosened(form) if _NOT_OF_LOCALS.search(each)]
    begin = "|".join(f"(?:{parse(_bounded(each)).head.begin})" for each in expressions)
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    return re2.compile(begin, options)


def prepare_beginnings() -> None:
    """Compile the expressions, once."""
    _rules()


def begun(text: str, start: int) -> int:
    """Return the first place from `start` on where a match may begin that goes on after the text's end."""
    word = emails.email_begun(text, start)
    for first in _FIRST.finditer(text, start, word):
        rest = text[first.start() :]
        may = _KNOWN.get(rest)
        if may is None:
            may = _may_go_on(rest)
        if may:
            return first.start()
    return word


def _may_go_on(text: str) -> bool:
    """Whether a match of a rule may begin with this text; short texts are remembered, as they recur."""
    try:
        may = _rules().fullmatch(text) is not None
    except UnicodeEncodeError:
        may = True
    if len(text) <= _SHORT:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[text] = may
    return may


def _bounded(expression: str) -> str:
    """Bound repetitions by the window, and write escapes as RE2 reads them."""
    expression = _ENDLESS.sub(lambda found: f"{{{found['least'] or int(found['sign'] == '+')},{WINDOW}}}", expression)
    return _ESCAPED.sub(lambda found: rf"\x{{{found[1] or found[2]}}}", expression)
