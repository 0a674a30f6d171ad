"""Values of names such as `password` and `api_key` in settings, code and messages."""

import re
from typing import Final

from safety.pii import password_words
from safety.pii.password_words import ALONE_AS_NAMES, EVERY_WORD, PIN, alone, by_first_letter, in_turn, trie
from safety.pii.secrets import ENDS, Secret
from safety.pii.telling import QUIET

#: Names whose value is a secret, from where the rest of the name begins; what stands before it makes no difference.
_OF_KEYS: Final = (
    "api", "access", "account", "secret", "private", "auth", "encryption", "signing", "license", "client",
    "subscription", "master", "storage", "service", "app",
)  # fmt: skip
_KEYS: Final = "|".join(rf"(?<=(?i:{word}).{{3}})|(?<=(?i:{word})[ _\-].{{3}})" for word in _OF_KEYS)
#: And names of secrets that are no passwords.
_OTHER_NAMES: Final = ("secret", "secreta", "segreta", "segreto", "token", "credential", "credentials", "_auth")
_OF_API: Final = "|".join(rf"(?<=(?i:{word})[ _\-].{{3}})" for word in ("clé", "cle", "clave", "chiave", "chave"))
_ALL_NAMES: Final = (*password_words.NAMES, *ALONE_AS_NAMES, PIN, *_OTHER_NAMES, "key", "api")
_FIRST_LETTERS: Final = "".join(sorted({letter for name in _ALL_NAMES for letter in name[0] + name[0].upper()}))
NAMES: Final = f"(?=[{_FIRST_LETTERS}])" + in_turn(
    (
        *by_first_letter((*password_words.NAMES, *_OTHER_NAMES)),
        ("k", rf"(?i:ey(?:{_KEYS}))"),
        ("a", rf"(?i:pi(?:{_OF_API}))"),
        *alone((*ALONE_AS_NAMES, PIN)),
    )
)
#: Those of them that are no words for a password as a whole, whatever stands before them.
ROUGH_NAMES: Final = f"(?i:{trie(name for name in _ALL_NAMES if name not in password_words.EVERY_WORD)})"
_QUOTED: Final = r"[^\s\"'`，。！？；、…]"
_ASSIGNED: Final = re.compile(
    rf"(?P<name>{NAMES})(?P<suffix>(?:[_\-](?:(?:base|value|id|key|prod|dev|live|test)(?:64)?|"
    rf"(?P<further>[a-z0-9]{{1,12}})))?)"
    r"(?:[\"'’`\]\\]{0,3}[ \t]{0,24}(?::=|=>|<-|->(?=[ \t]{0,24}[\"'`])|==?|[:：＝])[ \t]{0,24}"
    r"|>(?:<(?:value|string)>)?)"
    rf"(?:(?P<quote>[NbrfuL@]{{0,2}}\\{{0,3}}[\"'`])(?P<quoted>(?![),;:}}\]>]){_QUOTED}{{4,}})|"
    rf"(?P<value>[^{ENDS}]{{4,}}))",
    re.IGNORECASE,
)
#: The rest of a name that is one of something else.
_ABOUT: Final = re.compile(
    r"hash|field|len|min|max|name|type|ur[il]|path|file|dir|polic|expir|ttl|count|limit|col|label|hint|err|reset|"
    r"regex|pattern|"
    r"requir|enabled|env|ref|var|arn|versi|algo|digest|manager|input|form|confirm|chang|strength|prompt|place|title|"
    r"message|msg|"
    r"text|help|salt|through|encod|set|updat|at$|by$|in$|for|no$|ok$|valid|check|verif|forgot|lost|rule|age$|history|"
    r"attempt|retri|status|"
    r"state|source|provid|store|locat|endpoint|head|param|prefix|suffix|lower|upper|usage|rotat|bytes|size|budget|"
    r"ids?$|num|index"
)
#: Of a shell's variable, whose default or error message follows.
_DEFAULT: Final = re.compile(r"\$\{[A-Za-z_]*$")
_KEYWORDS: Final = re.compile(r"palabras? $", re.IGNORECASE)
#: A place where a secret is kept.
_PATH_LIKE: Final = re.compile(r"/?[a-z\-]+(?:/[a-z\-]+)+$")
#: As Google makes them, in groups; what comes after the first one is not asked for.
_APP_PASSWORD: Final = re.compile(r"[a-z]{4}$")
_NO_WORD: Final = re.compile(r"(?!http|html|xhtm)[b-df-hj-np-tv-xz]{4}$")
_GROUPS: Final = re.compile(r"[a-z ]*")
#: In a query, after a value.
_FOLLOWING: Final = re.compile(r"&[A-Za-z_]\w*=")
_AWS_SECRET: Final = re.compile(r"[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=])")
_AWS_NAME: Final = re.compile(r"aws.{0,40}$|secret.?access.?$", re.IGNORECASE | re.DOTALL)
_AZURE_VALUE: Final = re.compile(r"[A-Za-z0-9+/]{43}|[A-Za-z0-9+/]{30,}$")
#: Before the name of a secret that is kept elsewhere.
_RESOURCE: Final = re.compile(r"[0-9a-z]:[0-9]{12}:$|secrets?manager[^\n]{0,16}:$")
#: Of six figures it would often be an Indian postal code.
_PIN: Final = re.compile(r"(?!(?:19|20)[0-9]{2}$)[0-9]{4,5}#?[.,;]?$")
#: Pins of other kinds, and what is measured of them.
_OTHER_PIN: Final = re.compile(
    r"(?:gpio|led|crank|clevis|dowel|enamel|lapel|connector|drive|signal|opt)[ _.\-]?$", re.IGNORECASE
)
#: Of a telephone conference, for all who were asked to it.
_OF_A_MEETING: Final = re.compile(r"(?:dial-?in|meeting|conference|webinar|zoom|teams|webex)[ _\-]?$", re.IGNORECASE)
_OF_A_PIN: Final = re.compile(r" ?(?:rpm|m[vVmAs]|pcs|pieces|/)")
_SIGN_AMID: Final = re.compile(r"[A-Za-z]{3}[!*#^~][A-Za-z]{3}")
_WORDS: Final = re.compile(r"[^\W\d_]+(?:[\-_.][^\W\d_]+)*$")
_DIGIT: Final = re.compile(r"\d")
_NO_DIGIT: Final = re.compile(r"\D")
_ONLY_LETTERS: Final = re.compile(
    r"[^\W\d_]+$|[a-z]+(?:[_.\-][a-z]+)+$|[A-Za-z]+(?:\.[A-Za-z]+)+$|[A-Z]+(?:_[A-Z]+)+$|[a-z]+(?:[A-Z][a-z]+)+$"
)
#: What is assigned to, of which so many characters are seen; if its own name is, that is an argument.
_IDENTIFIER: Final = re.compile(r"\w+$")
_LONG_NAME: Final = range(24, 64)
_VALUE: Final = re.compile(rf"[^{ENDS}]*")
_QUOTED_RUN: Final = re.compile(f"{_QUOTED}*")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/=_\-]*")


def assigned_at(text: str, position: int, end: int) -> Secret | None:
    """The value of a name such as `password`, which stands at a position; nothing from `end` on is looked at."""
    found = _ASSIGNED.match(text, position, end)
    if found is None:
        return None
    return _assigned(text, position, end, found)


def _assigned(text: str, position: int, last: int, found: re.Match[str]) -> Secret | None:
    name, quoted = found["name"].lower(), found["quote"] is not None
    start, end = found.span("quoted" if quoted else "value")
    value = text[start:end]
    following = None if quoted else _FOLLOWING.search(value)
    if quoted and "\\" in found["quote"]:
        value = value.rstrip("\\")
        end = start + len(value)
    if following is not None:
        value, end = value[: following.start()], start + following.start()
    left = text[max(0, position - 24) : position]
    if (
        (name == "secret" and _RESOURCE.search(left))
        or (name == "token" and left.lower().endswith("publickey"))
        or (name in ("key", "token") and found["suffix"].lower() in ("_id", "-id"))
    ):
        return None
    if _DEFAULT.search(left) or (name == "clave" and _KEYWORDS.search(left)) or _PATH_LIKE.match(value):
        return None
    goes_on = (_QUOTED_RUN if quoted else _VALUE,) if end == last and last - position == 64 else ()
    if name == "key" and left[-7:].lower() in ("account", "_access", "daccess") and _AZURE_VALUE.match(value):
        return Secret("azure_storage_key", start, end, (_BASE64,))
    if name == PIN:
        said = found["further"] in (None, "code") and _PIN.match(value) is not None
        if not said or _OTHER_PIN.search(left) or _OF_A_PIN.match(text, end, last):
            return None
        return Secret("password", start, start + len(value.rstrip(".,;")))
    if len(set(value)) == 1 or (value.rstrip(".#").isdigit() and _OF_A_MEETING.search(left)):
        return None
    if _AWS_SECRET.match(value) and (_AWS_NAME.search(left) or "secret" in left.lower()):
        return Secret("aws_secret_key", start, start + 40)
    if QUIET.match(value) or (not quoted and value[-1:] in "([{") or _says_what(value):
        return None
    if (quoted or text[start - 1] == "=") and _NO_WORD.match(value) and text[end : min(end + 1, last)] == " ":
        return Secret("password", start, end, (_GROUPS,))
    if quoted and value.isalpha() and text[end : min(end + 1, last)] == " ":
        # Else it is a phrase, as translations have it.
        groups = _APP_PASSWORD.match(value) and left.lower().endswith(("app ", "app_", "app-"))
        return Secret("password", start, end, (_GROUPS,)) if groups else None
    named = _IDENTIFIER.search(left + text[position : found.end("suffix")])
    if named is not None and value.endswith(named.group()) and len(named.group()) in (len(value), *_LONG_NAME):
        return None
    bare = value.rstrip(".?:")
    if found["further"] and (_ABOUT.match(found["further"].lower()) or len(bare) < 8 or not _DIGIT.search(bare)):
        return None
    if name in ALONE_AS_NAMES and not (
        (_DIGIT.search(bare) and _NO_DIGIT.search(bare)) or (quoted and len(bare) >= 8 and _SIGN_AMID.search(bare))
    ):
        return None
    if name not in ("key", "api", *_OTHER_NAMES):
        tight = text[start - 1] == "="
        if (quoted and len(bare) >= 4) or _DIGIT.search(bare) or not _ONLY_LETTERS.match(bare):
            good = len(bare) >= 4
        else:
            spelled = tight or bare.count("-") > 1
            good = spelled and len(bare) >= 6 and (left[-1:].isupper() or text[position].isupper())
        if text[end : min(end + 1, last)] in ("(", "[") or not good:
            return None
        return Secret("password", start, start + len(value if quoted else bare), goes_on)
    if len(bare) < 8 or bare.isdigit() or (not _DIGIT.search(bare) and (not quoted or len(bare) < 12)):
        return None
    if text[end : min(end + 1, last)] == "(" or _ONLY_LETTERS.match(bare) or _WORDS.match(bare):
        return None
    return Secret("generic_secret", start, start + len(value if quoted else bare), goes_on)


def _says_what(value: str) -> bool:
    """Whether it is itself a word for a password, as labels and translations have it."""
    return not _DIGIT.search(value) and value.lower().endswith(EVERY_WORD)
