"""Secrets that a text tells after a name, whichever they are."""

import re
from typing import Final

from safety.patterns import Patterns
from safety.pii import one_time_codes, said_codes, said_passwords, said_pins, said_tokens
from safety.pii.said_passwords import Hints
from safety.pii.secrets import Secret
from safety.pii.telling import QUIET

#: What stands before a value that is told.
BEFORE: Final = "\n '\"`“”„‘‚«»›「『(:：=/*是为為はをが는은가이번码碼令ド호"
#: Where PLACE looks for a value: after one of these, mostly with a digit soon.
PLACES: Final = (
    rf"(?:(?<=[{BEFORE}])|\A)(?![“”„‘‚«»›])(?:"
    r"(?=[^\s\"'`<>()，。！？；、…]{6})"
    r"(?=[^\s]{0,24}?[^\W\d_])"
    r"[^\s0-9=:>\"'`()\[\]{}<\\|，。！？；、…]{0,28}+[0-9]"
    # Figures alone, as PINs and codes are, ...
    r"|[0-9](?=[0-9]{3}|[0-9][A-Z#*К][0-9]{2}|[0-9]?-[0-9]{1,2}-[0-9]|[0-9]{2}[ \-][0-9]{3}(?![0-9])"
    r"|[0-9] [0-9]{2} [0-9]{2}(?![0-9]))"
    # ... of a card three of them, ...
    rf"|[0-9](?=[0-9]{{2}}(?![0-9]))(?:{said_codes.AFTER_CARDS})"
    # ... words alone, ...
    r"|[^\W\d_]{3,14}+-[^\W\d_]{3,14}+-[^\W\d_]{3}"
    # ... and in quotes any signs, as arguments of programs have them.
    r"|(?<=[ ,(=][\"'])(?:(?<=, .)|(?<=[,(=].))(?=[^\s\"'`]{6})[^\s\"'`0-9]{1,29}+[0-9]"
    r")"
)
#: What every text has in which there is one.
ROUGH: Final = (*said_passwords.ROUGH, *said_tokens.ROUGH)
#: What one of figures alone looks like.
FIGURES: Final = re.compile(rf"{said_pins.FORM.pattern}|{one_time_codes.FORM.pattern}|{said_codes.FORM.pattern}")
_QUOTES: Final = ("'", '"', "`", "“", "”", "„", "‘", "‚", "«", "»", "›")
_SIGNED: Final = re.compile(r"[A-Za-z0-9_+/%=\-]*")


_FIGURES, _WORDS, _SIGNS, _BEFORE_COLONS, _BEFORE_SLASHES, _TOKENS, _CODES = (1 << bit for bit in range(7))
#: What is looked for to the left, with the ways of telling a secret that it stands for.
_WAYS: Final = (
    (_FIGURES, (*said_pins.HINTS, *one_time_codes.HINTS)),
    (_CODES, said_codes.HINTS),
    (_WORDS | _FIGURES, said_passwords.WORDS),
    (_SIGNS, said_passwords.SIGNS),
    (_BEFORE_COLONS, said_passwords.BEFORE_COLONS),
    (_BEFORE_SLASHES, said_passwords.BEFORE_SLASHES),
    (_TOKENS, said_tokens.HINTS),
)
_HINTS: Final = [(hint.encode(), ways) for ways, hints in _WAYS for hint in hints]
#: All of them in one pass, as looking for each way's by itself would take longer than all else.
_ends: Final = Patterns([hint for hint, _ in _HINTS], numbers=[ways for _, ways in _HINTS], literal=True).ends
#: After these one may be told whatever else stands there.
_SIGNS_OF_THEMSELVES: Final = ("'", '"', ":")


def said_at(left: str, view: str) -> Secret | None:
    """A secret that is told so by what stands to the left of a view: `the password is ...`, `--token ...`."""
    small = left.lower()
    ways = 0
    for number, _ in _ends(small.encode("utf-8", "surrogatepass")):
        ways |= number
    end = said_codes.told_after(small, view)
    if not end and ways & _FIGURES:
        end = said_pins.pin_at(left, view) if view[0].isdigit() else 0
        end = end or one_time_codes.one_time_code_at(left, view)
    if not end and ways & (_FIGURES | _CODES):
        end = said_codes.code_at(small, view)
    if end:
        return Secret("password", 0, end)
    if not ways and small[-1:] not in _SIGNS_OF_THEMSELVES:
        return None
    hints = Hints(
        signs=ways & _SIGNS != 0,
        before_colons=ways & _BEFORE_COLONS != 0,
        before_slashes=ways & _BEFORE_SLASHES != 0,
        words=ways & _WORDS != 0,
    )
    end = said_passwords.password_at(small, view, left[-1:] in _QUOTES, hints)
    if end:
        return None if QUIET.match(view[:end]) else Secret("password", 0, end)
    if not (ways & _TOKENS or said_tokens.has_short_name(small)):
        return None
    end = said_tokens.token_at(small, view)
    if end == 0 or QUIET.match(view[:end]):
        return None
    return Secret("generic_secret", 0, end, (_SIGNED,) if end == 64 else ())
