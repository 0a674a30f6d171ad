"""Words for a password, from which all is made that looks for one: a word that is added here is known everywhere."""

import re
from collections.abc import Iterable
from typing import Final

#: In small letters. What stands before them makes no difference, as in `db_password`.
WORDS: Final = (
    "password", "passwort", "passwrt", "passwd", "passwrd", "pwd", "pswd", "pasword", "passphrase",
    "passcode", "passord",
    "kennwort", "wachtwoord", "lösenord", "adgangskode", "kodeord", "salasana", "contraseña", "contrasena",
    "senha", "mot de passe", "parola", "hasło", "haslo", "heslo", "jelszó", "lozinka", "şifre", "sifre",
    "geslo", "slaptažodis", "fjalëkalimi", "lykilorð", "contrasenya", "pasahitza", "palavra-passe", "palavra passe",
    "wagwoord", "nenosiri", "şifrə",
    "пароль", "парола", "лозинка", "құпиясөз", "нууц үг", "κωδικός", "κωδικό", "գաղտնաբառ",
    "كلمة السر", "كلمة سر", "كلمة المرور", "كلمة مرور", "باسورد", "رمز عبور", "کلمه عبور",
    "گذرواژه", "پسورد", "پاس ورڈ", "پاسورڈ", "סיסמה", "סיסמא", "पासवर्ड", "পাসওয়ার্ড", "પાસવર્ડ",
    "ਪਾਸਵਰਡ", "పాస్‌వర్డ్", "ಪಾಸ್‌ವರ್ಡ್", "പാസ്‌വേഡ്", "கடவுச்சொல்", "รหัสผ่าน", "พาสเวิร์ด",
    "mật khẩu", "kata sandi", "kata laluan",
)  # fmt: skip
#: Of scripts that put no spaces between words.
UNSPACED_WORDS: Final = ("密码", "密碼", "口令", "パスワード", "パスコード", "비밀번호", "비번", "패스워드")
EVERY_WORD: Final = (*WORDS, *UNSPACED_WORDS)
#: Beginnings of those whose last letters change; others get some more at their end.
STEMS: Final = (
    "hasł",
    "hasl",
    "hesl",
    "jelsz",
    "lozink",
    "парол",
    "лозинк",
    "gesl",
    "slaptažod",
    "fjalëkalim",
    "κωδικ",
)
#: Too short or too common to count within other words: where they are named, as in `pw=`, and where a text tells them.
ALONE_AS_NAMES: Final = ("pass", "pw", "psk", "mdp", "clave", "parole", "parool")
#: Its value is a number, and of few figures.
PIN: Final = "pin"
ALONE_IN_WORDS: Final = ("pw", "psk", "mdp", "clave", "parole", "parool")
#: Of each the word that a value follows at once.
NAMES: Final = tuple(dict.fromkeys(word.rsplit(" ", 1)[-1] for word in EVERY_WORD))
#: What every text has after such a word in which it tells a password: a figure, or three words that are joined, ...
TOLD_ON_A_LINE_ROUGH: Final = r"[^\n]*?(?:[0-9]|[^\s0-9]-[^\s\-]+-)"
#: ... up to the second line after a question for it.
TOLD_ROUGH: Final = rf"[^\n]*?\n?[^\n]*?\n?{TOLD_ON_A_LINE_ROUGH}"


def shortest(signs: Iterable[str]) -> tuple[str, ...]:
    """Without those that have another one in them: a text with any of them has one of these."""
    every = tuple(dict.fromkeys(signs))
    return tuple(sign for sign in every if not any(other in sign for other in every if other != sign))


def trie(words: Iterable[str]) -> str:
    """An expression for any of these, the longest that there is, which shares what they begin with."""
    by_first: dict[str, list[str]] = {}
    for word in words:
        by_first.setdefault(word[:1], []).append(word[1:])
    may_end = by_first.pop("", None) is not None
    branches = [re.escape(first) + trie(rests) for first, rests in by_first.items()]
    if not branches:
        return ""
    if len(branches) == 1 and not may_end:
        return branches[0]
    return f"(?:{'|'.join(branches)}){'?' if may_end else ''}"


def by_first_letter(words: Iterable[str]) -> list[tuple[str, str]]:
    """First letters, and expressions for what may come after each in any case."""
    by_first: dict[str, list[str]] = {}
    for word in words:
        by_first.setdefault(word[0], []).append(word[1:])
    return [(first, f"(?i:{trie(rests)})") for first, rests in by_first.items()]


def alone(words: Iterable[str]) -> list[tuple[str, str]]:
    """The same where no letter or digit stands before one, which is looked at last."""
    return [(word[0], f"(?i:{word[1:]})(?<![^\\W_]{'.' * len(word)})") for word in words]


def in_turn(branches: Iterable[tuple[str, str]]) -> str:
    """An expression for any of these: letters, in either case, and what comes after each.

    A class tells most places apart, which is what an expression is quick at: so letters stand once, a few of them
    behind another class, and those of all other scripts behind one.
    """
    by_first: dict[str, list[str]] = {}
    for first, rest in branches:
        by_first.setdefault(first, []).append(rest)
    plain = [first for first in by_first if first.isascii()]
    groups = [plain[start : start + _FEW] for start in range(0, len(plain), _FEW)]
    groups.append([first for first in by_first if not first.isascii()])
    return f"(?:{'|'.join(_behind_a_class(group, by_first) for group in groups if group)})"


_FEW: Final = 4


def _behind_a_class(letters: list[str], rests: dict[str, list[str]]) -> str:
    guard = "".join(dict.fromkeys(case for letter in letters for case in (letter, letter.upper())))
    return f"(?=[{guard}])(?:{'|'.join(f'{_either_case(each)}(?:{_OR.join(rests[each])})' for each in letters)})"


_OR: Final = "|"


def _either_case(letter: str) -> str:
    return letter if letter == letter.upper() else f"[{letter}{letter.upper()}]"
