"""How the words that matter are disguised: misspelt, spelled out, split, in digits for letters, or in a code.

The disguises of each word are written out here once, so that finding them costs no more than finding the word.
"""

import base64
import codecs
import re
from collections.abc import Iterator
from itertools import combinations, product
from typing import Final, NamedTuple

#: Words of attacks, and how much it says of a text that one of them stands there in disguise.
KEYWORDS: Final = {
    "ignore": 0.5, "disregard": 0.5, "override": 0.5, "bypass": 0.5, "jailbreak": 0.5, "instructions": 0.3,
    "previous": 0.3,
        "reveal": 0.3,
        "system": 0.25,
        "prompt": 0.25,
        "forget": 0.3,
        "uncensored": 0.3,
        "unrestricted": 0.3,
    "password": 0.25, "restriction": 0.25,
}  # fmt: skip

_DIGITS: Final = {"a": "4@", "e": "3", "i": "1!|", "o": "0", "s": "5$", "t": "7", "g": "9", "l": "1|"}
_ACCENTED: Final = {
    "a": "áàâäãåā",
    "e": "éèêëēęě",
    "i": "íìîïīí",
    "o": "óòôöõōő",
    "u": "úùûüūů",
    "n": "ñńň",
    "c": "çć",
    "s": "śš",
    "g": "ğģ",
}
_LETTERS: Final = str.maketrans("430157$@!|9", "aeoistsaiig")
_SPELLED: Final = (
    " ",
    "  ",
    ".",
    "-",
    "_",
    "*",
    "/",
    "|",
    "+",
    "~",
    ",",
    ", ",
    "·",
    "•",
    "\u00a0",
    "\n",
    " . ",
    " - ",
    "__",
    "--",
)
_SPLIT: Final = ("-", ".", "_", "*", "|", "~", "\u00a0", "/")
_MORSE: Final = {
    "ignore": ".. --. -. --- .-. .",
    "disregard": "-.. .. ... .-. . --.",
    "prompt": ".--. .-. --- -- .--. -",
}
#: Disguises that are none in the middle of a word.
OPENING: Final = frozenset({"digits", "accents", "spelled", "split"})
#: A code's part that may stand for a word: long enough not to turn up by chance.
_PART: Final = 5
_LOOKING_LIKE_WORDS: Final = 0.85


class Disguise(NamedTuple):
    """A word of attacks in one disguise. `length` is that of the text that shows it, `offset` where its code begins."""

    keyword: str
    technique: str
    length: int
    offset: int = 0


def misspelt(*words: str) -> str:
    """The words with two letters swapped, one left out or one doubled, divided by `|`."""
    found: dict[str, None] = {}
    for word in words:
        for place in range(1, len(word) - 1):
            found[word[:place] + word[place + 1] + word[place] + word[place + 2 :]] = None
            found[word[:place] + word[place + 1 :]] = None
            found[word[:place] + word[place] + word[place:]] = None
        found[word + word[-1]] = None
        found.pop(word, None)
    return "|".join(found)


def letters(text: str) -> str:
    """The text with digits and signs inside words as the letters that they look like; as long as before."""
    if not MIXING.search(text):
        return text
    return _MIXED.sub(lambda word: word[0].translate(_LETTERS), text)


def joined(text: str) -> str:
    """The text without signs between two letters."""
    return _JOINT.sub("", text)


_JOINT: Final = re.compile(r"(?<=[^\W\d_])[-._*|~/\u00a0](?=[^\W\d_])")
#: Where a digit or sign may stand for a letter; begins with one set of characters, which `re` skips to.
MIXING: Final = re.compile(r"[013457@$9!|](?:(?=[a-z])|(?<=[a-z][013457@$9]))")
_MIXED: Final = re.compile(r"[013457@$!|9]*[a-z][a-z013457@$!|9]*(?<![!|])")


def _in_digits(word: str) -> Iterator[str]:
    head = word[:5]
    places = [place for place, letter in enumerate(head) if letter in _DIGITS]
    for count in range(1, len(places) + 1):
        for chosen in combinations(places, count):
            for signs in product(*(_DIGITS[head[place]] for place in chosen)):
                spelling = list(head)
                for place, sign in zip(chosen, signs, strict=True):
                    spelling[place] = sign
                yield "".join(spelling)


def _accented(word: str) -> Iterator[str]:
    for place, letter in enumerate(word[:5]):
        following = word[place + 1]
        for sign in _ACCENTED.get(letter, ""):
            # Many words of other languages begin with a letter that has an accent.
            for more in (following, *_ACCENTED.get(following, "")):
                yield word[:place] + sign + more


def _split(word: str) -> Iterator[str]:
    for place in range(1, len(word)):
        for sign in _SPLIT:
            yield word[:place] + sign + word[place:]


def _cased(word: str) -> tuple[str, ...]:
    return word, word.capitalize(), word.upper()


def _base64(word: str) -> Iterator[tuple[str, int]]:
    """The characters that a word has in base64 wherever it stands, and how many of its own are before them."""
    for cased in _cased(word):
        for before in range(3):
            code = base64.b64encode(b"\0" * before + cased.encode()).decode().rstrip("=")
            start = (0, 2, 3)[before]
            whole = (before + len(cased)) * 8 // 6
            yield code[start:whole], start


def disguises() -> Iterator[tuple[str, Disguise]]:
    """Every disguise as it begins in a text in lower case, shortest parts that tell it."""
    for word in KEYWORDS:
        for spelling in _in_digits(word):
            yield spelling, Disguise(word, "digits", len(spelling))
        for spelling in _accented(word):
            yield spelling, Disguise(word, "accents", len(spelling))
        for spelling in _split(word):
            yield spelling, Disguise(word, "split", len(spelling))
        for sign in _SPELLED:
            spelling = sign.join(word[:3])
            yield spelling, Disguise(word, "spelled", len(spelling))
        for part, start in _base64(word):
            yield part.lower(), Disguise(word, "base64", len(part), start)
        for cased in _cased(word):
            codes = [f"{ord(letter):02x}" for letter in cased[:_PART]]
            for sign in ("", " ", "\\x", "%", ":", "-", ", 0x", " 0x"):
                yield sign.join(codes), Disguise(word, "hex", len(sign.join(codes)))
            for spelling in (
                "".join(f"&#{ord(letter)};" for letter in cased[:_PART]),
                " ".join(str(ord(letter)) for letter in cased[:_PART]),
                " ".join(f"{ord(letter):08b}" for letter in cased[:2]),
                "".join(f"{ord(letter):08b}" for letter in cased[:2]),
            ):
                yield spelling, Disguise(word, "codes", len(spelling))
        yield codecs.encode(word, "rot13"), Disguise(word, "rot13", len(word))
        yield word[::-1], Disguise(word, "reversed", len(word))
        if word in _MORSE:
            yield _MORSE[word], Disguise(word, "morse", len(_MORSE[word]))


_SEEN: Final = {word: re.compile(r"[\W_]{1,3}".join(word)) for word in KEYWORDS}
_BASE64_RUN: Final = re.compile(r"[A-Za-z0-9+/_-]{4,64}")
_HEX_RUN: Final = re.compile(r"(?:[0-9A-Fa-f]{2}(?:\\x|, ?0x|[ %:-]| ?0x)?){3,64}")
_HEX: Final = re.compile(r"(?:0x|\\x)?([0-9A-Fa-f]{2})[ %:,-]*")


def spelled_out(keyword: str, text: str) -> int:
    """Length of the keyword spelled out with something between its letters at the text's beginning, or 0."""
    found = _SEEN[keyword].match(text)
    return found.end() if found else 0


def decoded(disguise: Disguise, text: str, place: int, end: int) -> str | None:
    """What the code says from `place` on, in lower case; None if that is no text with the keyword."""
    if disguise.technique == "base64":
        run = _BASE64_RUN.match(text, place - disguise.offset, end) if place >= disguise.offset else None
        if run is None:
            return None
        code = run[0][: len(run[0]) // 4 * 4].replace("-", "+").replace("_", "/")
        said = base64.b64decode(code)
    else:
        hexes = _HEX_RUN.match(text, place, end)
        if hexes is None:
            return None
        said = bytes.fromhex("".join(_HEX.findall(hexes[0])))
    shown = said.decode("latin-1").lower()
    if disguise.keyword[:_PART] not in shown or sum(
        32 <= sign < 127 or sign in (9, 10, 13) for sign in said
    ) < _LOOKING_LIKE_WORDS * len(said):
        return None
    return shown
