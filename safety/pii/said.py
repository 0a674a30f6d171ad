"""Secrets that a text tells after a name, whichever they are."""

import re
from typing import Final

from safety.pii import one_time_codes, said_passwords, said_pins, said_tokens
from safety.pii.secrets import Secret
from safety.pii.telling import QUIET

#: What stands before a value that is told.
BEFORE: Final = "\n '\"`“”„‘‚«»›「『(:：=/*是为為はをが는은가이번码碼令ド호"
#: Where PLACE looks for a value: after one of these, mostly with a digit soon.
PLACES: Final = (
    rf"(?<=[{BEFORE}])(?![“”„‘‚«»›])(?:"
    r"(?=[^\s\"'`<>()，。！？；、…]{6})"
    r"(?=[^\s]{0,24}?[^\W\d_])"
    r"[^\s0-9=:>\"'`()\[\]{}<\\|，。！？；、…]{0,28}+[0-9]"
    # Figures alone, as PINs and codes are, ...
    r"|[0-9](?=[0-9]{3}|[0-9][A-Z#*К][0-9]{2}|[0-9]?-[0-9]{1,2}-[0-9]|[0-9]{2}[ \-][0-9]{3}(?![0-9]))"
    # ... words alone, ...
    r"|[^\W\d_]{3,14}+-[^\W\d_]{3,14}+-[^\W\d_]{3}"
    # ... and in quotes any signs, as arguments of programs have them.
    r"|(?<=[ ,(=][\"'])(?:(?<=, .)|(?<=[,(=].))(?=[^\s\"'`]{6})[^\s\"'`0-9]{1,29}+[0-9]"
    r")"
)
#: What every text has in which there is one.
ROUGH: Final = (*said_passwords.ROUGH, *said_tokens.ROUGH)
#: What one of figures alone looks like.
FIGURES: Final = re.compile(rf"{said_pins.FORM.pattern}|{one_time_codes.FORM.pattern}")
_QUOTES: Final = ("'", '"', "`", "“", "”", "„", "‘", "‚", "«", "»", "›")
_SIGNED: Final = re.compile(r"[A-Za-z0-9_+/%=\-]*")


def said_at(left: str, view: str) -> Secret | None:
    """A secret that is told so by what stands to the left of a view: `the password is ...`, `--token ...`."""
    if view[0].isdigit() and (end := said_pins.pin_at(left, view) or one_time_codes.one_time_code_at(left, view)):
        return Secret("password", 0, end)
    end = said_passwords.password_at(left, view, left[-1:] in _QUOTES)
    if end:
        return None if QUIET.match(view[:end]) else Secret("password", 0, end)
    end = said_tokens.token_at(left, view)
    if end == 0 or QUIET.match(view[:end]):
        return None
    return Secret("generic_secret", 0, end, (_SIGNED,) if end == 64 else ())
