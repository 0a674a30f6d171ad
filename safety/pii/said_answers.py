"""Passwords that stand somewhere after a word for one: those that nothing else looks like, and answers to questions."""

import re
from typing import Final

from safety.pii.password_words import ALONE_IN_WORDS, EVERY_WORD, STEMS, trie
from safety.pii.telling import LEFT, QUOTE

_NAME: Final = rf"(?:{trie((*EVERY_WORD, *STEMS))}|(?<![^\W_]){trie(ALONE_IN_WORDS)}(?![^\W_]))"
#: What is said where no password is told: rules for them, samples, what they are made into or kept in.
_NOT_TOLD: Final = re.compile(
    r"polic|polít|rule|must|should|require|contain|character|zeichen|minimum|at least|mindestens|strength|weak|strong|"
    r"example|e\.g\.|such as|(?<![a-z])like(?![a-z])|beispiel|z\. ?b\.|ejemplo|exemple|esempio|exemplo|przykład|"
    r"например|наприклад|例|hash|bcrypt|salt|regex|pattern|encrypt|verschlüssel|format|never|instead|hint|"
    r"manager|reset (?:link|page|form|mail|e-?mail)|version|firmware|model|driver|http|href|src="
)
#: Letters of both cases, figures and a sign amid them, as in `Dachs!Birke12`: what no name of a thing has.
_UNMISTAKABLE: Final = re.compile(
    r"(?=[^\W_]*+(?:[\W_][^\W_]+)*[\W_]?$)(?=.{8,40}$)(?=.*[a-z]{2})(?=.*[A-Z])(?=.*[0-9])"
    r"(?:.*(?:[^\W_][!^~][^\W_]|[A-Za-z]{3}[%*?][A-Za-z]|[a-z]{2}[#$&][A-Z])"
    r"|[A-Z][A-Za-z]{2,}@[0-9]{2,}$|[A-Z][a-z]{3,}#[0-9]{2,}$|.*[\-_.!].*[a-z][#$&*%][0-9])"
)
#: What an answer to a question has at least: letters, figures and a sign between words, or both cases around figures.
_ANSWER: Final = re.compile(
    r"(?=[^\W_]*+(?:[\W_][^\W_]+)*[\W_]?$)(?=.{7,40}$)(?=.*[^\W\d_]{3})(?=.*[0-9])"
    r"(?:(?=.*[A-ZА-ЯІЇЄҐЁ]).*[^\W_][\-_.!#@$%&*+^~?][^\W_]|.*[^\W_][!#$%*^~][^\W_]|"
    r".*[^\W\d_]{3,}[0-9]{2,}[\-_.!#][^\W\d_]{3})"
)
#: Between words and a figure they make a name of something.
TITLE: Final = re.compile(
    r"(?:windows|win|ubuntu|debian|fedora|office|exchange|outlook|server|sql|iphone|galaxy|pixel|usb|wi-?fi|oauth|face|"
    r"form|html|css|http|kb|cve|fritz|iso|rfc|sha|aes|ticket|case|issue|bug|order|invoice|item|task|build|page|line|"
    r"note|comment|footnote|request|release|number|channel|room|level|version|covid|"
    r"formula)[\W_]?(?:[a-z]*[\W_]?)?[0-9]|(?-i:[A-Z0-9_.\-]+$)",
    re.IGNORECASE,
)
#: When, and who says it.
_TIME: Final = r"[\[(]?[0-9]{1,2}[:.][0-9]{2}(?:[:.][0-9]{2})?(?: ?[ap]\.?m\.?)?[\])]?,? ?(?:[\-–—] ?)?"
_WHO: Final = r"[<\[(*@]{0,2}[^\W\d_][\w.\- ]{0,20}[>\])*]{0,2} ?[:：] {0,2}"
_FEW_WORDS: Final = r"(?:[^\W\d_][^\W\d_'’]{0,11}(?:['’][^\W\d_]{1,5})?[,.!:…]{0,2} ){0,2}"
#: The beginning of an answer.
_SAYS: Final = (
    r"(?:(?:yes|yep|yeah|sure|ja|japp|jep|oui|sí|si|sim|да|так|evet|igen|ano|tak|kyllä|joo)[,.!:…]{0,2} |"
    r"(?:try|it['’]?s|is|this|that['’]?s|here|use|take|es|c['’]est|è|é|это|це|вот|ось|to|je|det är|det er|on|das ist|"
    r"ist|het is|prueba|prova|essaie|versuch|probier(?: mal)?|hier|voilà|ecco|aquí|toma|masz|tady|tu)[,:]? ){1,4}"
)
_PLEASE: Final = (
    r"(?:pls|plz|please|bitte|por ?fa(?:vor)?|stp|svp|s['’]il (?:te|vous) pla[iî]t|per favore|proszę|prosim|tack|"
    r"lütfen|пож|пожалуйста|плиз|будь ласка)"
)
_USER: Final = rf"[`'\"]?[a-z0-9._@\-]{{2,24}}[`'\"]? ?/ ?{QUOTE}"
_ASKED: Final = rf"{_NAME}[^\n]{{0,56}}"
#: What may stand between the word and the answer: a question mark, another speaker, a user before the password.
_ANSWERED: Final = re.compile(
    rf"{_ASKED}(?:"
    rf"(?:[?？؟]|(?<=[ά-ώ]);) (?:[\-–—] ?)?(?:{_WHO})?(?:{_SAYS})?{QUOTE}"
    rf"|(?:[?？؟]|(?<=[ά-ώ]);|{_PLEASE}[.!]{{0,3}})[ ]?\n{{1,2}} ?(?:{_TIME})?(?:[\-–—•>] ?)?(?:{_WHO})?(?:[\-–—] ?)?"
    rf"(?:{_SAYS}|{_FEW_WORDS}){QUOTE}"
    rf"|[^\n]\n{{1,2}} ?(?:{_TIME}(?:{_WHO})?|[–—] ?(?:{_WHO})?){_FEW_WORDS}(?:{_USER}|{QUOTE})"
    rf"|[^\n]\n{{1,2}} ?(?:{_WHO})?(?:{_SAYS}{QUOTE}|{_USER}|(?P<doubtful>{_FEW_WORDS}{QUOTE}))"
    rf")\Z|{_NAME}\n{{1,2}} ?(?P<below>{_FEW_WORDS}{QUOTE})\Z"
)
_ON_A_LINE: Final = re.compile(rf"{_NAME}[^\n]*\Z")
_SIGNED: Final = re.compile(r"[^\W_][!#$%^&*~@+][^\W_]")


def answer_at(left: str, value: str) -> bool:
    """Whether a value is a password for what stands to the left of it, in small letters."""
    surely = _UNMISTAKABLE.match(value) is not None
    if not (surely or _ANSWER.match(value)) or TITLE.match(value) or _NOT_TOLD.search(left):
        return False
    # A word that begins before that may be the rest of another.
    start = max(0, len(left) - LEFT)
    if surely and _ON_A_LINE.search(left, start):
        return True
    told = _ANSWERED.search(left, start)
    return told is not None and (told.group("doubtful", "below") == (None, None) or _SIGNED.search(value) is not None)
