"""E-mail addresses."""

import re
from typing import Final

#: Scripts that put no spaces between words, so that an address has to begin somewhere within a run of letters.
UNSPACED: Final = (
    r"\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u30ff\u3130-\u318f\u3400-\u9fff"
    r"\uac00-\ud7af\uf900-\ufaff"
)
#: A letter, digit or underscore of all other scripts.
WORD: Final = rf"[^\W{UNSPACED}]"
#: The same, vowel signs and accents that stand for themselves, and the signs that an address may have before its @.
_SIGNS: Final = (
    r"\u060c\u061b\u061f\u2000-\u2bff\u3000-\u303f\ufe00-\uffff\ud800-\uf8ff\U0001f000-\U0001ffff" + UNSPACED
)
_INNER: Final = rf"[^\x00-\x24\x28-\x2a\x2c\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\xbf{_SIGNS}]"
_MARKED: Final = rf"[^\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\xbf{_SIGNS}]"
#: Before an @. At most so many characters of a script without spaces.
LOCAL: Final = rf"(?:{WORD}{_INNER}{{0,61}}+|[{UNSPACED}]{{1,6}})"

_LABEL: Final = rf"{_MARKED}[^\x00-\x2c\x2e\x2f\x3a-\x40\x5b-\x60\x7b-\xbf{_SIGNS}]{{0,62}}"
_ADDRESS: Final = re.compile(
    rf"{LOCAL}[@＠](?:"
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61})\.)+(?:xn--[a-z0-9-]{2,30}|[A-Za-z]{2,24})(?![A-Za-z0-9_-])"
    rf"|(?:{_LABEL}[.．])+[^\W\d_{UNSPACED}](?:[^\W\d_{UNSPACED}]|[\u0900-\u0dff]){{1,23}}"
    rf"|(?:(?:{_MARKED}|[{UNSPACED}])(?:{_MARKED}|[{UNSPACED}]|-){{0,30}}[.．])+[{UNSPACED}]{{2,6}}"
    r")"
)
_CUT: Final = re.compile(rf"{LOCAL}[@＠](?:{_LABEL}\.)*(?:{_LABEL})?\.?$")
_DOT: Final = r"(?:dot|punkt|punto|point|ponto|punt|\.)"
_DISGUISED: Final = re.compile(
    rf"[A-Za-z0-9](?:[A-Za-z0-9_+-]|\.(?!\s)|(?: ?[\[({{] ?{_DOT} ?[\])}}] ?)){{0,40}}(?<=[A-Za-z0-9]) ?"
    r"(?:[\[({<] ?(?:at|@) ?[\])}>]|%40)"
    rf" ?[A-Za-z0-9-]{{1,30}}(?:(?: ?[\[({{<] ?{_DOT} ?[\])}}>] ?|\.)[A-Za-z0-9-]{{2,20}}){{1,3}}(?![A-Za-z0-9])",
    re.IGNORECASE,
)
#: What stands before the user or the password of an address.
_LOGIN: Final = re.compile(r"//(?:[^\s/@:]{0,40}:)?$")
_FILE: Final = re.compile(
    r"\.(?:png|jpe?g|gif|svg|webp|js|ts|py|css|html?|json|service|socket|timer|mount|slice|scope)$", re.IGNORECASE
)

#: What goes on after the end of what may be looked at.
DOMAIN: Final = re.compile(r"[\w.\-]*")


def email_at(text: str, position: int, view: str) -> tuple[int, bool] | None:
    """The end of an address that a view begins with, and whether the domain goes on after the view."""
    found = _ADDRESS.match(view)
    if found is None:
        if len(view) == 64 and (found := _CUT.match(view)) is not None:
            return 64, True
        found = _DISGUISED.match(view)
        return None if found is None else (found.end(), False)
    if found.end() == 64:
        return 64, True
    address = found.group()
    # A name on another server of a network of them.
    if text[max(0, position - 1) : position] == "@":
        return None
    if _LOGIN.search(text[max(0, position - 44) : position]) or _FILE.search(address):
        return None
    if address.startswith("git@") or (
        address.startswith(("hg@", "svn@")) and view[found.end() : found.end() + 1] in (":", "/")
    ):
        return None
    return found.end(), False
