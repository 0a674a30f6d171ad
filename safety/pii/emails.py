"""Match e-mail addresses, international and simply obfuscated ones too."""

import re
from typing import Final

from safety.pii.text_window import BEGINS, RUNS, UNSPACED, WINDOW, WORD, Found, view_end

#: Signs that no address has; separate vowel signs and accents are allowed.
_SIGNS: Final = (
    r"\u060c\u061b\u061f\u2000-\u2bff\u3000-\u303f\ufe00-\uffff\ud800-\uf8ff\U0001f000-\U0001ffff" + UNSPACED
)
_INNER: Final = rf"[^\x00-\x24\x28-\x2a\x2c\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\xbf{_SIGNS}]"
_MARKED: Final = rf"[^\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\xbf{_SIGNS}]"
#: The local part, before the @; in a script without spaces at most six characters.
_LOCAL: Final = rf"(?:{BEGINS}(?<!{WORD}[.+%&'\-]){WORD}{_INNER}{{0,61}}|[{UNSPACED}]{{1,6}})"
_LABEL: Final = rf"{_MARKED}[^\x00-\x2c\x2e\x2f\x3a-\x40\x5b-\x60\x7b-\xbf{_SIGNS}]{{0,62}}"
_ADDRESS: Final = re.compile(
    rf"{_LOCAL}[@＠](?:"
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61})\.)+(?:xn--[a-z0-9-]{2,30}|[A-Za-z]{2,24})(?![A-Za-z0-9_-])"
    rf"|(?:{_LABEL}[.．])+[^\W\d_{UNSPACED}](?:[^\W\d_{UNSPACED}]|[\u0900-\u0dff]){{1,23}}"
    rf"|(?:(?:{_MARKED}|[{UNSPACED}])(?:{_MARKED}|[{UNSPACED}]|-){{0,30}}[.．])+[{UNSPACED}]{{2,6}}"
    r")"
)
#: An address that goes on after the window.
_CUT: Final = re.compile(rf"{_LOCAL}[@＠](?:{_LABEL}\.)*(?:{_LABEL})?\.?\Z")
_DOT: Final = r"(?:dot|punkt|punto|point|ponto|punt|\.)"
#: Beginnings of `_DOT` and of the substitutes of an @.
_BEGUN_SIGN: Final = r"(?:@|at?|do?t?|pu?n?k?t?|pu?n?t?o?|poi?n?t?|po?n?t?o?|\.)"
_DISGUISED: Final = re.compile(
    rf"{BEGINS}[A-Za-z0-9](?:[A-Za-z0-9_+-]|\.(?!\s)|(?: ?[\[({{] ?{_DOT} ?[\])}}] ?)){{0,40}}(?<=[A-Za-z0-9]) ?"
    r"(?:[\[({<] ?(?:at|@) ?[\])}>]|%40)"
    rf" ?[A-Za-z0-9-]{{1,30}}(?:(?: ?[\[({{<] ?{_DOT} ?[\])}}>] ?|\.)[A-Za-z0-9-]{{2,20}}){{1,3}}(?![A-Za-z0-9])",
    re.IGNORECASE,
)
#: The text before the user or password in a URL, and file names and repositories that look like addresses.
_LOGIN: Final = re.compile(r"//(?:[^\s/@:]{0,40}:)?\Z")
_FILE: Final = re.compile(
    r"\.(?:png|jpe?g|gif|svg|webp|js|ts|py|css|html?|json|service|socket|timer|mount|slice|scope)\Z", re.IGNORECASE
)
_REPOSITORY: Final = re.compile(r"git@|(?:hg|svn)@[^\s/:]*[/:]")
_BEFORE_AT: Final = re.compile(rf"{_LOCAL}\Z")
_BEFORE_SIGN: Final = re.compile(
    rf"{BEGINS}[A-Za-z0-9](?:[A-Za-z0-9_.+-]| ?[\[({{<] ?[A-Za-z.]{{1,6}} ?[\])}}>] ?){{0,40}} ?\Z"
)
#: Expressions for Hyperscan, one of which every text with an address has.
SIGNS: Final = ("@", "＠", r"[\[({<] ?(?i:at|@|dot) ?[\])}>]", "%40")

#: All of a text up to its last character that only begins a local part, or that none has; and what may not begin one.
_BEFORE_LOCAL: Final = re.compile(rf"(?:.*(?:(?={WORD})(?!{_INNER})|(?!{_INNER}).))?[%&'+.\-]*", re.DOTALL)
_UNSPACED_LOCAL: Final = re.compile(rf"[{UNSPACED}]{{1,6}}\Z")
_LONGEST_LOCAL: Final = WINDOW - 1
#: The end of a text that may be the beginning of a disguised address, and characters one of which it has.
_BEGUN_DISGUISED: Final = re.compile(
    rf"[A-Za-z0-9](?:[A-Za-z0-9_.+\-]| ?[\[({{<] ?{_DOT} ?[\])}}>] ?){{0,40}} ?"
    rf"(?:[\[({{<](?: ?{_BEGUN_SIGN})? ?|%4?)?\Z",
    re.IGNORECASE,
)
_DISGUISING: Final = re.compile(r"[\[({<]|%4?\Z")


def email_place(text: str, sign: int) -> int:
    """Return where an address with its @, or a substitute, at `sign` would begin; -1 if nowhere."""
    before = _BEFORE_AT if text[sign] in "@＠" else _BEFORE_SIGN
    found = before.search(text, max(0, sign - WINDOW), sign)
    return -1 if found is None else found.start()


def email_begun(text: str, start: int) -> int:
    """Return the first place from `start` on where an address may begin, if its @ is not yet in the text."""
    length = len(text)
    before = _BEFORE_LOCAL.match(text, start, length - text.endswith(" "))
    place = max(start if before is None else before.end(), length - _LONGEST_LOCAL)
    if text[-1:] > "\u0e00" and (found := _UNSPACED_LOCAL.search(text, max(start, length - 6))) is not None:
        place = min(place, found.start())
    if _DISGUISING.search(text, start) and (found := _BEGUN_DISGUISED.search(text, start)) is not None:
        place = min(place, found.start())
    # A space begins none.
    return length if place >= length - text.endswith(" ") else place


def email_at(text: str, place: int) -> Found | None:
    """Return the address that begins at a place, or None."""
    end = view_end(text, place)
    found = _ADDRESS.match(text, place, end)
    if found is None:
        if end == place + WINDOW and _CUT.match(text, place, end):
            return Found("email", place, end, RUNS["domain"])
        found = _DISGUISED.match(text, place, end)
        return None if found is None else Found("email", place, found.end())
    if found.end() == place + WINDOW:
        return Found("email", place, found.end(), RUNS["domain"])
    if text[max(0, place - 1) : place] == "@" or _REPOSITORY.match(text, place, min(found.end() + 1, end)):
        return None
    if _LOGIN.search(text, max(0, place - 44), place) or _FILE.search(found[0]):
        return None
    return Found("email", place, found.end())
