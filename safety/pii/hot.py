"""Where something may begin: a rough test of whole texts, and the places that are worth a closer look."""

import re
from typing import Final

import re2

from safety.pii.emails import LOCAL, UNSPACED, WORD
from safety.pii.secrets import NAMES, PREFIXES

_BETWEEN: Final = r"[ .\-/()\u00a0\u2002-\u2014\u202f]{0,3}"
_SEVEN_DIGITS: Final = rf"\d(?:{_BETWEEN}\d){{6}}"

#: A place where something may begin. It looks at no more than 64 characters from there and a few to the left.
#: Group 1: a number, 2: a code, address or disguised e-mail, 3: an e-mail, 4: a key, 5: after a scheme or a word,
#: 6: a name whose value is a secret.
PLACE: Final = re.compile(
    rf"(?<!{WORD})(?:"
    rf"((?<!\d[.,:/\-+])(?<![$€£¥])(?<![A-Za-z_][\-/.])[+(（＋]{{0,2}}(?={_SEVEN_DIGITS})\d)"
    r"|((?<![.:])[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]|(?<![:.])[0-9A-Fa-f]{0,4}:[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]|(?<![\-/.])(?:"
    r"[A-Za-z]{2}(?:[0-9]{2}[ \-]?[A-Za-z0-9]{4}|[ \-]?[0-9]{2}[ \-]?[0-9]{2}[ \-]?[0-9]{2})|[A-Z]{1,2}[ \-]?[0-9]{6}|"
    r"[A-Za-z]{6}[0-9]{2}[A-Za-z][0-9]|[A-Z]{5}[0-9]{4}[A-Z])"
    r"|[A-Za-z0-9][A-Za-z0-9._+-]{0,30}+ ?[\[({<] ?(?:(?:at|AT|At|@) ?[\])}>]|(?:dot|DOT) ?[\])}]))"
    rf"|((?<!\w[.+%&'\-]){LOCAL}[@＠][^\s@]{{2}})"
    rf"|((?<!-)-----BEGIN|{PREFIXES})"
    r"|((?<=://)[^\s/@:]{0,24}:[^\s@/]{1,36}@|(?:(?<=[Bb]earer )|(?<=BEARER ))[A-Za-z0-9]|(?<=[Bb]asic )[A-Za-z0-9]|"
    r"(?:(?<=(?i:sword is) )|(?<=(?i:swort ist) )|(?<=(?i:swort lautet) )|(?<=(?i:passe est) )|(?<=(?i:aseña es) )|"
    r"(?<=(?i:senha é) )|(?<=(?i:senha é:) )|(?<=(?i:assword was) )|(?<=(?i:passcode is) )|(?<=(?i:pwd is) )|(?<=密码是)|(?<=パスワードは))[^\s]))"
    rf"|((?i:{NAMES})(?:[_\-][A-Za-z0-9_\-]{{1,12}}+)?[\"'’`\]]{{0,2}}[ \t]{{0,3}}(?::=|=|[:：＝]))"
)

#: What every text has in which PLACE leads to something, within 64 characters of the place to either side.
_ROUGH: Final = re2.compile(
    r"\pN(?:[ .\-/()\x{a0}\x{2002}-\x{2014}\x{202f}]{0,3}\pN){6}"
    r"|\S[@＠]\S|[\[({<] ?(?i:at|@) ?[\])}>]"
    r"|[0-9]\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]|[0-9A-Fa-f]?:[0-9A-Fa-f]{0,4}:[0-9A-Fa-f]"
    r"|[A-Za-z]{2}[ \-]?[0-9]{2}[ \-]?[0-9]{2}[ \-]?[0-9]{2}|[A-Z][ \-]?[0-9]{6}|[A-Za-z]{2}[0-9]{2}[ \-]?[A-Za-z0-9]{4}"
    r"|[A-Za-z]{6}[0-9]{2}[A-Za-z][0-9]|[A-Z]{5}[0-9]{4}[A-Z]"
    r"|-----BEGIN|" + re.sub(r"\{(\d\d+),?\d*\}", "+", PREFIXES) + r"|(?i:bearer|basic) [A-Za-z0-9+/._~\-]{16}"
    r"|(?i:basic) [A-Za-z0-9+/]{8,16}[ \r\n\"'=]|(?i:basic) [A-Za-z0-9+/]{8,16}$"
    r"|(?i:sword|swort|wd|code) (?i:is|was|ist|lautet) |(?i:passe est|aseña es|senha é):? |密码是|パスワードは"
    r"|(?i:word|wort|phrase|wd|code|pwd|contraseña|contrasena|senha|lösenord|hasło|passe|пароль|密码|密碼|口令|パスワード|비밀번호|"
    r"secret|token|credentials?|key)(?:[_\-][A-Za-z0-9_\-]{1,12})?[\"'’`\]]{0,2}[ \t]{0,3}[:=：＝]"
)

#: What a place has within the characters that may be looked at, if there is anything.
TRIGGER: Final = re.compile(r"[\d@＠=＝:：\[(（{<+＋\-]")
#: The same, less digits.
SIGN: Final = re.compile(r"[@＠=＝:：\[(（{<+＋\-]")
#: After this a new stretch begins: nothing that begins before it depends on what follows.
BREAK: Final = re.compile(
    r"\n|[.,;!?]\s|[，。！？；、…]|(?<=[^\W\d_A-Z])\s(?=[^\W\d_])|(?<=[A-Z])\s(?=[^\W\d_A-Z])",
)
#: The last letter of a script without spaces in a text.
LAST_UNSPACED: Final = re.compile(rf"[{UNSPACED}](?=[^{UNSPACED}]*$)")
#: So many letters of such a script can be part of something that goes on.
UNSPACED_HOLD: Final = 8

_STRIDE: Final = 1024
_AROUND: Final = 64
#: With more hits than this in a stretch, all of the stretch is looked at.
_HITS: Final = 4


def areas(text: str) -> list[tuple[int, int]]:
    """The stretches of a text where PLACE can lead to something, in order; they may touch."""
    if len(text) <= _STRIDE and _ROUGH.search(text.encode("utf-8", "surrogatepass")) is None:
        return []
    found: list[tuple[int, int]] = []
    for start in range(0, len(text), _STRIDE):
        found += _areas(text, max(0, start - _AROUND), min(len(text), start + _STRIDE))
    whole: list[tuple[int, int]] = []
    for first, end in found:
        if whole and first <= whole[-1][1]:
            whole[-1] = (whole[-1][0], max(end, whole[-1][1]))
        else:
            whole.append((first, end))
    return whole


def _areas(text: str, start: int, end: int) -> list[tuple[int, int]]:
    part = text[start:end].encode("utf-8", "surrogatepass")
    plain = len(part) == end - start
    found: list[tuple[int, int]] = []
    for hit in _ROUGH.finditer(part):
        if len(found) == _HITS:
            found.append((found[-1][0], end + _AROUND))
            break
        first, last = hit.span()
        if not plain:
            first = len(part[:first].decode("utf-8", "surrogatepass"))
            last = first + len(part[hit.start() : last].decode("utf-8", "surrogatepass"))
        found.append((max(0, start + first - _AROUND), start + last + _AROUND))
    return found
