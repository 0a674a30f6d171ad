"""Match values by the text right before them: the name of a setting, an option or a header."""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from safety.pii.checksums import CHECKS
from safety.pii.rule_tables import expanded, lines, words
from safety.pii.text_window import ENDS, LEFT, RUNS, WINDOW, Found, view_end


class _Value(NamedTuple):
    """A candidate value with its context: the text before and after it, its name's suffix, the text after a label."""

    text: str
    before: str
    suffix: str
    between: str
    quoted: bool
    after: str


_LEFT: Final = 24
_BARE: Final = f"[^{ENDS}]{{4,64}}"
_QUOTED: Final = r"(?![),;:}\]>])[^\s\"'`，。！？；、…]{4,64}"
_Check = Callable[[_Value], int]


def _whole(check: Callable[[str], bool]) -> _Check:
    return lambda value: len(value.text) if check(value.text) else 0


_DIGIT: Final = re.compile("[0-9]")
#: Placeholders in place of a secret: masks, references, types, expressions, words that say what to write there.
_PLACEHOLDER: Final = re.compile(
    r"[*•xX#._\-…]+$|[*•…]{3}|ENC\[|vault:|arn:|op://|ref\+|projects/|/(?:run|etc|var|proc|vault|home|root|usr|opt|tmp|mnt|"
    r"srv)/|\$[{(A-Za-z_]|%[A-Za-z({]|[{\[<@&]|https?://|\.\.\.|n/a$|(?:os|process|env|config|settings|self|this|args|form|"
    r"req|request|user|params|ctx|data|sys|options?|secrets?|credentials?|state|props|event|body)[.\[]|"
    r"[a-z_][\w.]*\[[\w:'\"\-]*\]?$|![a-z]+$|convertto-|new-object|get-|"
    r"(?:your|my|enter|insert|example|change|none|null|nil|true|false|undefined|str|text|required|optional|redacted|"
    r"hidden|secret|password|token|pass|invalid|missing|must|should|expired|incorrect|wrong|reset|placeholder|todo|bearer|"
    r"basic|input|field|get|hash|len|int|varchar|bool|object|type|value|key|new|old|current|default|empty|unset|unknown|"
    r"number|any|the|some)[A-Za-z_.\-\[\]!?]*$|(?:your|my|test|example)?[_\-]?(?:password|passwd|token|secret)\d?$|"
    r"(?:tu|su|mi|ihr|dein|votre|mon|ton|seu|sua|jouw|twoje)[_\-][^\s0-9]*$|"
    r"/?[a-z\-]+(?:/[a-z\-]+)+$|[0-9]+(?:\.[0-9]+){3,}$",
    re.IGNORECASE,
)


def is_placeholder(text: str) -> bool:
    """Whether a value is a placeholder for a secret."""
    return _PLACEHOLDER.match(text) is not None


#: Words as in a path, a constant or an identifier.
_WORDS: Final = re.compile(r"[^\W\d_]+(?:[\-_.][^\W\d_]+)*$|[a-z]+(?:[A-Z][a-z]+)+$")
#: Suffixes of names that are about a secret, such as its length or file.
_ABOUT: Final = re.compile(
    r"[_\-](?:hash|field|len|min|max|name|type|ur[il]|path|file|dir|polic|expir|ttl|count|limit|col|label|hint|err|reset|"
    r"regex|pattern|requir|enabled|env|ref|var|arn|versi|algo|digest|manager|input|form|confirm|chang|strength|prompt|"
    r"place|title|message|msg|text|help|salt|through|encod|set|updat|at$|by$|in$|for|no$|ok$|valid|check|verif|forgot|"
    r"lost|rule|age$|history|attempt|retri|status|state|source|provid|store|locat|endpoint|head|param|prefix|suffix|lower|"
    r"upper|usage|rotat|bytes|size|budget|ids?$|num|index)",
    re.IGNORECASE,
)
#: Left contexts without a secret: a reference to one, a shell variable's default, a public key.
_NO_SECRET: Final = re.compile(
    r"[0-9a-z]:[0-9]{12}:secret|secrets?manager[^\n]{0,16}:|\$\{[A-Za-z_]*[:\-=]+$|public_?key_?token|palabras? clave|"
    r"(?:dial-?in|meeting|conference|webinar|zoom|teams|webex)[ _\-]?pass",
    re.IGNORECASE,
)
_A_PASSWORD: Final = re.compile(rf"(?:{words('passwords')})$", re.IGNORECASE)
_NAME: Final = re.compile(r"[A-Za-z_][\w\-]*(?=\W*$)")
_LONG_NAME: Final = range(20, 64)
#: The separator before a string in a list of strings.
_LISTED: Final = re.compile(r",\s*[\"'`]$")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_]+[0-9]{0,2}$")
_QUERY: Final = re.compile(r"&[A-Za-z_]\w*=")


def _bare(value: _Value) -> str:
    """The value without the rest of a query or sentence after it; empty if it is not a secret."""
    text = value.text
    following = None if value.quoted else _QUERY.search(text)
    if following is not None:
        text = text[: following.start()]
    text = text.rstrip("\\") if value.quoted else text.rstrip(".?:")
    name = _NAME.search(value.before)
    if (
        len(set(text)) < 2
        or _PLACEHOLDER.match(text)
        or value.after in ("(", "[")
        or _NO_SECRET.search(value.before)
        or _ABOUT.search(value.suffix)
        or (name is not None and text.endswith(name[0]) and len(name[0]) in (len(text), *_LONG_NAME))
        or (_LISTED.search(value.before) and _IDENTIFIER.match(text))
    ):
        return ""
    return text


def _password(value: _Value) -> int:
    text = _bare(value)
    if len(text) < 4 or (not _DIGIT.search(text) and _A_PASSWORD.search(text)):
        return 0
    if value.quoted:
        # A phrase is a translation, or the text of a form.
        return 0 if value.after == " " and text.isalpha() else len(text)
    if _DIGIT.search(text) or not _WORDS.match(text):
        return len(text)
    # A setting in capitals, as in `DB_PASSWORD=swordfish`.
    spelled = value.before[-1:] == "=" or text.count("-") > 1
    return len(text) if len(text) >= 6 and spelled and value.before.rstrip(" :=")[-1:].isupper() else 0


def _short_password(value: _Value) -> int:
    """Check a value after an ambiguous name, such as `pass`: it must look random."""
    text = _bare(value)
    random = (_DIGIT.search(text) and not text.isdigit()) or (
        value.quoted and len(text) >= 8 and _SIGN_AMID.search(text)
    )
    return _password(value) if random else 0


_SIGN_AMID: Final = re.compile(r"[A-Za-z]{3}[!*#^~][A-Za-z]{3}")


def _argument(value: _Value) -> int:
    text = _bare(value)
    return len(text) if not text.isdigit() and (_DIGIT.search(text) or not _WORDS.match(text) or value.quoted) else 0


def _secret(value: _Value) -> int:
    text = _bare(value)
    if len(text) < 8 or text.isdigit() or _WORDS.match(text):
        return 0
    if value.suffix.lower() in ("_id", "-id") or not (_DIGIT.search(text) or (value.quoted and len(text) >= 12)):
        return 0
    return len(text)


#: 4 or 5 digits but no year: six digits are often an Indian postal code.
_PIN: Final = re.compile(r"(?!(?:19|20)[0-9]{2}$)[0-9]{4,5}[.;]?$")
_OTHER_PIN: Final = re.compile(
    r"(?:gpio|led|dowel|connector|drive|signal|meeting|conference|dial-?in)[ _.\-]?pin", re.IGNORECASE
)


def _pin(value: _Value) -> int:
    return len(value.text.rstrip(".;")) if _PIN.match(value.text) and not _OTHER_PIN.search(value.before) else 0


_OF_A_SAMPLE: Final = re.compile(
    r"(?-i:[A-Z_]+):(?-i:[A-Z_]+)$|(?:user(?:name)?|usr|login|name):(?:password|passwd|pass|pwd|pw|secret)$|[^:@]{0,24}:[*x•.]+$",
    re.IGNORECASE,
)
_NOT_BEFORE_ID: Final = re.compile(rf"(?<![^\W\d_])(?:{words('no_id_number')})", re.IGNORECASE)
_OF_A_YEAR: Final = re.compile(r"[0-9]{1,5}/(?:19|20)[0-9]{2}$|(?:19|20)[0-9]{2}[/\-][0-9]{1,5}$")
_LENGTHS: Final = range(6, 21)


def _id_number(value: _Value) -> int:
    signs = [sign for sign in value.text if sign.isalnum()]
    digits = sum(map(str.isdigit, signs))
    if len(signs) not in _LENGTHS or digits < 5 or (digits == len(signs) == 6) or _OF_A_YEAR.match(value.text):
        return 0
    return 0 if _NOT_BEFORE_ID.search(value.between) else len(value.text)


_CHECKS: Final[dict[str, _Check]] = {
    "password": _password,
    "short_password": _short_password,
    "argument": _argument,
    "secret": _secret,
    "pin": _pin,
    "url": lambda value: 0 if _OF_A_SAMPLE.match(value.text) else len(value.text),
    "id_number": _id_number,
}


class ValueRule:
    """A rule of `values.txt`."""

    reach: Final = LEFT

    def __init__(self, kind: str, before: str, form: str, check: str, run: str) -> None:
        self.kind: Final = kind
        self._before = re.compile(expanded(before.replace("¦", "")))
        #: The expression for Hyperscan.
        self.sign: Final = expanded(before.partition("¦")[0])
        plain, quoted = (form, form) if form != "{value}" else (_BARE, _QUOTED)
        self._forms = re.compile(plain), re.compile(quoted)
        self._check = _CHECKS.get(check) or _whole(CHECKS[check])
        self._runs = RUNS[run]
        self._in_quotes = RUNS["quoted"] if run == "value" else self._runs

    def place(self, text: str, start: int) -> int:
        """Return where a value may begin after its name, which begins at `start`; -1 if nowhere."""
        found = self._before.match(text, start)
        return -1 if found is None else found.end()

    def at(self, text: str, start: int, place: int) -> Found | None:
        """Return the value that begins at `place`, or None."""
        end = view_end(text, place)
        before = self._before.match(text, start)
        quoted = before is not None and bool(before.groupdict().get("quote"))
        found = self._forms[quoted].match(text, place, end)
        if before is None or found is None:
            return None
        groups = before.groupdict()
        between = text[before.end("label") : place] if "label" in groups else ""
        left = text[max(0, start - _LEFT) : place]
        after = text[found.end() : min(found.end() + 1, end)]
        length = self._check(_Value(found[0], left, groups.get("suffix") or "", between, quoted, after))
        if not length:
            return None
        goes_on = self._runs is not RUNS["value"] or length == WINDOW
        return Found(self.kind, place, place + length, (self._in_quotes if quoted else self._runs) if goes_on else ())


VALUES: Final = tuple(ValueRule(*fields) for fields in lines("values.txt"))
