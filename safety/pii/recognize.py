"""What begins at a place of a text, if anything does."""

import re
from typing import Final, NamedTuple

from safety.pii.codes import address_at, code_at
from safety.pii.emails import DOMAIN, email_at
from safety.pii.numbers import DIGITS, number_at
from safety.pii.secrets import Secret, assigned_at, authorization_at, said_at, secret_at, user_at

#: From a place on, so much decides.
WINDOW: Final = 64
#: To the left of a place, so much is looked at.
LEFT: Final = 64

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
_AT: Final = re.compile(r"[@\[({<]")
_NUMBER, _CODE, _EMAIL, _KEY, _AFTER, _NAME = range(1, 7)


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
    view = seen if seen.isascii() else seen.translate(_PLAIN)
    if group == _NAME:
        found = assigned_at(text, at, seen)
        if found is None or (found.kind in _GENERAL and _has_own_form(seen[found.start :])):
            return Found(None, at, at + 1)
        return Found(found.kind, at + found.start, at + found.end, found.goes_on)
    if group == _EMAIL and (email := email_at(text, at, view)):
        return Found("email", at, at + email[0], (DOMAIN,) if email[1] else ())
    secret = secret_at(view)
    if secret is None and group == _AFTER:
        secret = _after(text, at, seen)
    if secret is not None:
        return Found(secret.kind, at + secret.start, at + secret.end, secret.goes_on)
    if _AT.search(view) and (email := email_at(text, at, view)):
        return Found("email", at, at + email[0], (DOMAIN,) if email[1] else ())
    if group in (_CODE, _NUMBER) and view[0] not in "+(":
        address = address_at(text, at, view)
        if address is not None:
            return Found("ip_address", at, at + address)
        code = code_at(text, at, view)
        if code is not None:
            return Found(code[0], at, at + code[1])
    if group == _NUMBER:
        number = number_at(text, at, view)
        return Found(number.kind, at, at + number.end, (DIGITS,) if number.digits else ())
    return Found(None, at, at + 1)


_GENERAL: Final = ("password", "generic_secret")


def _has_own_form(view: str) -> bool:
    return secret_at(view) is not None


def _after(text: str, at: int, view: str) -> Secret | None:
    if view[0] == ":":
        return user_at(view)
    left = text[max(0, at - 12) : at].lower()
    if left.endswith("bearer "):
        return authorization_at("bearer", view)
    if left.endswith("basic "):
        return authorization_at("basic", view)
    return said_at(view)
