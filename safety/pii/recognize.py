"""What begins at a place of a text, if anything does."""

import re
from typing import Final, NamedTuple

from safety.pii.announced import announced_at, announced_code_at
from safety.pii.assigned import assigned_at
from safety.pii.codes import address_at, code_at, named_code_at
from safety.pii.context import unbroken
from safety.pii.emails import DOMAIN, UNSPACED, email_at
from safety.pii.hot import TRIGGER
from safety.pii.numbers import DAY, DIGITS, number_at
from safety.pii.said import BEFORE, FIGURES, said_at
from safety.pii.secrets import Secret, authorization_at, secret_at, user_at
from safety.pii.telling import LEFT

#: From a place on, so much decides.
WINDOW: Final = 64

_PLAIN: Final = str.maketrans(
    {
        **{ord("０") + digit: str(digit) for digit in range(10)},
        **{0x660 + digit: str(digit) for digit in range(10)},
        **{0x6F0 + digit: str(digit) for digit in range(10)},
        **{0x966 + digit: str(digit) for digit in range(10)},
        **{0x9E6 + digit: str(digit) for digit in range(10)},
        **dict.fromkeys(map(ord, "‐‑‒–—−－"), "-"),
        **dict.fromkeys(map(ord, "\u00a0\u2002\u2003\u2007\u2009\u202f\u3000"), " "),
        **{ord(wide): plain for wide, plain in zip("＋（）．／＠", "+()./@", strict=True)},
    }
)
#: What all e-mails have.
_MAILED: Final = re.compile(r"[@\[({<%]")
#: A number that nothing is joined to.
_ALONE: Final = re.compile(r"[0-9]{7,}[,;\"')\]}|\n\t]")
#: What all secrets and addresses have that begin with a digit.
_SIGNED: Final = re.compile(r"[:/.@\[({<]")
#: What all codes begin with that begin with a digit: a Finnish one may have no letter.
_LETTERED: Final = re.compile(r"[0-9][0-9.+ \-]{4,18}[A-Za-z]|[0-9]{6}[+\-][0-9]{4}")
#: And this, of those that begin with a digit.
_LONG: Final = re.compile(r"[A-Za-z0-9_\-]{34}")
_NUMBER, _CODE, _EMAIL, _KEY, _AFTER, _NAME, _USER = range(1, 8)
_ASSIGNING: Final = re.compile("[:=：＝>]|<-")
#: What a secret that is told by a name looks like at least.
_TOLD: Final = re.compile(rf"(?=[^\s0-9]{{0,28}}+[0-9])[^\sA-Za-z\"'`<>，。！？；、…{UNSPACED}]{{0,20}}+[A-Za-z]")


class Found(NamedTuple):
    """`kind` is at `start` to `end`, and `goes_on` with these runs; without a kind, the place to go on at is `end`."""

    kind: str | None
    start: int
    end: int
    goes_on: tuple[re.Pattern[str], ...] = ()


def recognize(text: str, place: re.Match[str]) -> Found:
    """What begins at a match of PLACE; all of it follows from WINDOW characters from there, and LEFT before it."""
    at = place.start()
    group = place.lastindex or 0
    seen = text[at : at + WINDOW]
    if group == _USER:
        user = user_at(seen)
        if user is None:
            return Found(None, at, at + 1)
        return Found(user.kind, at + user.start, at + user.end, user.goes_on)
    if group == _NAME:
        found = assigned_at(text, at, at + WINDOW)
        if found is None or (found.kind in _GENERAL and secret_at(text[found.start : at + WINDOW]) is not None):
            return Found(None, at, at + 1)
        return Found(*found)
    if group == _AFTER:
        told = _after(text, at, seen)
        if told is not None:
            return Found(told.kind, at + told.start, at + told.end, told.goes_on)
        named = assigned_at(text, at, at + WINDOW) if seen[0].isalpha() and _ASSIGNING.search(seen) else None
        if named is not None:
            return Found(*named)
        card = named_code_at(text, at, seen)
        if card is not None:
            return Found(card[0], at, at + card[1])
        end = announced_code_at(text, at, seen)
        return Found("id_number", at, at + end) if end else Found(None, at, at + 1)
    number = group == _NUMBER
    if group in (_NUMBER, _CODE) and (day := DAY.match(seen)):
        return Found(None, at, at + day.end())
    # A stream would not have looked.
    if group == _KEY and TRIGGER.search(seen) is None:
        return Found(None, at, at + 1)
    view = seen if seen.isascii() else seen.translate(_PLAIN)
    alone = number and _ALONE.match(view) is not None
    signed = not number or (not alone and _SIGNED.search(view) is not None)
    secret = secret_at(view) if signed or (not alone and _LONG.match(view)) else None
    if secret is not None and not (secret.kind == "jwt" and text.endswith("base64,", 0, at)):
        return Found(secret.kind, at + secret.start, at + secret.end, secret.goes_on)
    if not alone and _MAILED.search(view) is not None and (email := email_at(text, at, view)):
        return Found("email", at, at + email[0], (DOMAIN,) if email[1] else ())
    if text[max(0, at - 1) : at] in _BEFORE_TOLD and _TOLD.match(seen):
        told = _after(text, at, seen)
        if told is not None:
            return Found(told.kind, at + told.start, at + told.end, told.goes_on)
    if group in (_CODE, _NUMBER) and view[0] not in "+(" and not alone:
        if signed and (address := address_at(text, at, view)):
            return Found("ip_address", at, at + address)
        if (view[0] != ":" if not number else _LETTERED.match(view)) and (code := code_at(text, at, view)):
            return Found(code[0], at, at + code[1])
        if not number and (end := announced_at(text, at, view) or announced_code_at(text, at, view)):
            return Found("id_number", at, at + end)
    if number:
        found_number = number_at(text, at, view)
        if found_number.kind is None and text[max(0, at - 1) : at] in _BEFORE_TOLD and FIGURES.match(view):
            told = _after(text, at, view)
            if told is not None:
                return Found(told.kind, at + told.start, at + told.end, told.goes_on)
        return Found(found_number.kind, at, at + found_number.end, (DIGITS,) if found_number.digits else ())
    return Found(None, at, at + 1)


_BEFORE_TOLD: Final = frozenset((*BEFORE, ""))
_GENERAL: Final = ("password", "generic_secret")


def _after(text: str, at: int, view: str) -> Secret | None:
    # One more: a word that begins before all that is looked at is not one of its own.
    left = unbroken(text[max(0, at - LEFT - 1) : at])
    last = left[-7:].lower()
    if last.endswith("bearer "):
        return authorization_at("bearer", view)
    if last.endswith("basic "):
        return authorization_at("basic", view)
    if view.startswith(_ATTACHED):
        told = said_at(left + _ATTACHED, view[len(_ATTACHED) :])
        return None if told is None else told._replace(start=len(_ATTACHED), end=len(_ATTACHED) + told.end)
    return said_at(left, view)


#: An option that a value follows without a space.
_ATTACHED: Final = "-p"


def run_end(run: re.Pattern[str], text: str, place: int) -> int:
    """Where a run that goes on from a place ends; such a pattern matches everywhere, if need be nothing."""
    found = run.match(text, place)
    return place if found is None else found.end()
