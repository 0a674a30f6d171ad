"""Tokens and keys that a text tells after a name: in words, on command lines, as arguments and in settings."""

import re
from typing import Final

from safety.pii.password_words import shortest
from safety.pii.telling import ABOUT, ARGUMENT, IS, LEFT, NEW_ONE, QUOTE, WORD

#: What a secret is that a `key` or `token` may be; alone, both have to be words of their own.
_OF: Final = (
    r"(?:api|access|secret|auth|license|licence|encryption|signing|activation|account|master|shared|client|app|"
    r"private|service|"
    r"bearer|refresh|session|personal|bot|oauth2?|deploy|unseal|recovery|root|webhook|preshared)"
)
_ROMANCE: Final = ("clave", "chiave", "clé", "cle", "chave")
_NAME: Final = (
    rf"(?:{_OF}[ _\-]?(?:key|token|secret)(?: [0-9]{{1,2}})?|(?<![^\W_])(?:key|token|secret|jeton)|"
    rf"(?:{'|'.join(_ROMANCE)})[ _\-](?:d['’e] ?)?(?:api|secr[eè]t[aeo]?|segret[ao]|privad[ao]|privée)|"
    r"(?:api|geheimer?|privater?|zugriffs)[ \-]?schlüssel|(?:секретн|закрыт|приватн)\w{2,3} ключ|"
    r"ключ\w{0,2} (?:api|доступ\w)|токен\w{0,3}|klucz (?:api|tajny|prywatny)|(?<=[^\W\d_] )secreta|"
    r"секрет|密钥|秘钥|令牌|トークン|シークレット|api ?キー|토큰|비밀 ?키)"
)
#: Those of its words that have none of the English ones in them.
_FOREIGN: Final = (
    "schlüssel", "ключ", "секрет", "токен", "klucz", "jeton",
    "密钥", "秘钥", "令牌", "トークン", "シークレット", "キー", "토큰", "키",
)  # fmt: skip
#: A session, in the name of a cookie or beside a log line.
_SESSION: Final = (
    r"(?:session(?:_?id)?|session_token|(?<![a-z])sess(?:_?id)?|(?<![a-z])sid|phpsessid|jsessionid|aspxauth|\.cookies|"
    r"remember(?:_me|_user)?(?:_token)?|auth\.user\.info|logged_in_[0-9a-f]{0,40})"
)
#: A header for whose scheme there is no kind.
_HEADER: Final = r"authorization[\"']?[:=,] ?[\"']?(?!bearer|basic|aws4)[a-z][a-z\-]{1,15} "
_AT_ONCE: Final = rf"{_NAME}(?:(?:[:：]| ?\|)? {{1,2}}| \(){QUOTE}"
_IN_A_SENTENCE: Final = rf"{_NAME}(?P<subject>{WORD}{{0,6}}?),? (?:{IS} ?:?|:) ?{QUOTE}"
_BEFORE_A_COLON: Final = rf"{_NAME}(?P<heading>{WORD}{{1,3}}?)[:：] ?{QUOTE}"
_OPTION: Final = r"(?<![^\s\"'])--?[\w\-]{0,20}(?:token|secret|key)(?:[ =]['\"]?|['\"], ?['\"])"
#: How ids of clouds' keys begin.
_CLOUDS: Final = ("akia", "asia", "ltai", "akid")
#: After such an id, whatever is said between them.
_PAIR: Final = rf"(?:{'|'.join(_CLOUDS)})[a-z0-9]{{12,32}}(?:[^a-z0-9]{{1,12}}|[^a-z0-9\n][^\n]{{0,26}}[ \"'`:=])"
#: Names that are in too many words to be looked for.
_SHORT: Final = r"(?<![a-z0-9])[as]k[\"'\]]{0,2} {0,3}(?:=>|:=|=|:) {0,3}[\"']"
_ARGUMENTS: Final = (
    rf"(?:key|token|secret){ARGUMENT}",
    r"(?:key|name)=\"[^\"\n]{0,24}(?:secret|token|key)\" value=\"",
    r"\"(?:key|name)\": ?\"[^\"\n]{0,24}(?:secret|token|key|session|sid|auth)\", ?\"value\": ?\"",
    r"name: ['\"]?[a-z_]{0,32}(?:key|token|secret)['\"]?\n[ ]{1,16}value: ['\"]?",
    r"\"auth\": ?\"",
    r"x-[a-z\-]{0,24}(?:auth|key|token|secret)[\"']?[ :,]{1,3}[\"']?",
    r"(?<![a-z])(?:bot|client)\.(?:run|login|start)\([\"']",
    r"secret[^\n]{0,50} --(?:body|value|secret-string|data)[ =][\"']?",
    r"(?<![a-z])client\([\"']",
    r"(?<![a-z0-9])pat=[\"']?",
    _SHORT,
    r"(?:algoliasearch|twilio[\"']?\)?|new [a-z]{0,20}client)\([\"'][^\"'\n]{1,40}[\"'], ?[\"']",
    r"(?<!don|mon|tur|hoc|joc)key(?:\\?[\"'\]]){0,2} {0,3}(?::=|=>|<-|==?|:) {0,3}b?(?:\\?[\"'`])?",
)
_TOLD: Final = re.compile(
    rf"(?:(?P<at_once>{_AT_ONCE})|{_IN_A_SENTENCE}|{_BEFORE_A_COLON}|{_OPTION}|(?P<pair>{_PAIR})|"
    rf"(?P<setting>[?&](?:x-amz-)?sig(?:nature)?=|{_HEADER}|{_SESSION}=[\"']?)"
    rf"|(?P<argument>{'|'.join(_ARGUMENTS)}))\Z"
)
#: The new one, after what is said of the old one.
_ANOTHER: Final = re.compile(rf"{NEW_ONE}(?:,? {IS} ?:?| ?[:：]) ?{QUOTE}\Z")
_NAMED: Final = re.compile(rf"{_NAME}{WORD}{{0,6}}?\Z")
_SHORT_NAME: Final = re.compile(rf"{_SHORT}\Z")
_LONGEST_SHORT: Final = 14
#: One of these stands to the left of every token, in small letters, but for those with a short name.
HINTS: Final = (
    "key", "token", "secret", "auth", "twilio", "client(", "algolia",
    "sig=", "signature=", "sess", "sid=", "remember", "aspxauth", "cookies", "logged_in",
    "user.info", ".run(", ".login(", ".start(", "pat=",
    *_CLOUDS, *_ROMANCE, *_FOREIGN,
)  # fmt: skip
#: What every text has in which one is told.
ROUGH: Final = (
    r"(?i:key|token|secret)[^\n]*?[^A-Za-z0-9][A-Za-z0-9_+/\-]{16}",
    # A part of ordinary words, such as `clear`, is not to send the search to the end of the line.
    rf"(?i:(?:{'|'.join(_ROMANCE)})[ _\-](?:d['’e] ?)?(?:api|secr|segr|priv))[^\n]*?[A-Za-z0-9_+/\-]{{16}}",
    rf"(?i:{'|'.join(shortest(_FOREIGN))})[^\n]*?[A-Za-z0-9_+/\-]{{16}}",
    rf"(?i:{'|'.join(_CLOUDS)})[A-Za-z0-9]{{12}}",
    r"\"(?i:value)\": ?\"[A-Za-z0-9_+/\-]{16}",
    r"(?i:name): [^\n]*(?:\n|\\n) +(?i:value): [\"']?[A-Za-z0-9_+/\-]{16}",
    r"\"(?i:auth)\": ?\"[A-Za-z0-9_+/\-]{16}",
    r"(?i:authorization)[\"']?[:=,] ?[\"']?[A-Za-z][A-Za-z\-]{1,15} [A-Za-z0-9_+/\-]{16}",
    r"(?i:x-[a-z\-]{0,24}auth|algoliasearch\(|twilio[\"']?\)?\(|client\()[^\n]*?[\"' :,][A-Za-z0-9_+/\-]{16}",
    r"(?i:(?:bot|client)\.(?:run|login|start))\([\"'][A-Za-z0-9_+/\-]{16}",
    r"(?i:pat)=[\"']?[A-Za-z0-9_+/\-]{16}",
    r"(?:^|[^A-Za-z0-9])(?i:[as]k)[\"'\]]{0,2} {0,3}(?:=>|:=|=|:) {0,3}[\"'][A-Za-z0-9_+/\-]{16}",
    r"[?&](?i:(?:x-amz-)?sig(?:nature)?)=[A-Za-z0-9%+/_\-]{16}",
    r"(?i:sess[a-z_]{0,8}|sid|remember[a-z_]{0,12}|_me|_token|aspxauth|cookies|user\.info|"
    r"logged_in_[0-9a-f]{0,40})=[\"']?[A-Za-z0-9%._+/:\-]{16}",
)

#: Keys that are told to everybody, and names of things.
_OPEN: Final = re.compile(
    r"using key|(?<![a-z])(?:eddsa|rsa|dsa|ecdsa|ecdh|ed25519|gpg|pgp) key|"
    r"(?:public|publishable|primary|foreign|cache|sort|hash|partition|idempotency|object|row|host|ssh|pub|site|anon|"
    r"message|"
    r"group|map|project|csrf|xsrf|authenticity|continuation|page|next|sync|pagination|device|etag|md5|sha\d*|commit|"
    r"digest|"
    r"checksum|s3|react)[ _\-.]?(?:key|token)|contract|token address"
)
_RANDOM: Final = re.compile(r"(?=[A-Za-z_+/\-]{0,28}[0-9])[A-Za-z0-9_+/\-]{16}[A-Za-z0-9_+/=.~\-]*")
_SIGNATURE: Final = re.compile(r"(?=[A-Za-z_+/%\-]{0,15}[0-9])[A-Za-z0-9_+/%\-]{40}[A-Za-z0-9_+/%=\-]*")
_COOKIE: Final = re.compile(r"(?=[A-Za-z_+/%.:\-]{0,15}[0-9])[A-Za-z0-9_+/%.:\-]{16}[A-Za-z0-9_+/%=.:~\-]*")
_COOKIES: Final = re.compile(rf"{_SESSION}=[\"']?\Z")
#: What everybody may know: an account or contract of a blockchain, an account of Twilio; and a file's name.
_ADDRESS: Final = re.compile(r"(?:0x[0-9a-f]{40}|ac[0-9a-f]{32})$", re.IGNORECASE)
_FILE: Final = re.compile(r"\.[a-z]{2,4}$")
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-", re.IGNORECASE)
_SWITCH: Final = re.compile(r"(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])")
_CHANGE: Final = re.compile(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[a-z0-9])|(?<=[0-9])(?=[A-Za-z])")
_WORDED: Final = re.compile(r"[a-z]{5}|[A-Z]{5}")
_UNSPOKEN: Final = re.compile(r"[b-df-hj-np-tv-xz]{5}", re.IGNORECASE)


def has_short_name(left: str) -> bool:
    """Whether the end of that, in small letters, is such a name with what stands between it and its value."""
    return left.endswith(("'", '"')) and _SHORT_NAME.search(left, max(0, len(left) - _LONGEST_SHORT)) is not None


def token_at(left: str, view: str) -> int:
    """The end of a token or key that a view begins with, told so by what stands to the left of it, or 0.

    To the left, in small letters, is one of `HINTS` or a short name.
    """
    form = (
        _SIGNATURE
        if left.endswith(("sig=", "signature="))
        else _COOKIE
        if left.endswith(("=", "'", '"')) and _COOKIES.search(left)
        else _RANDOM
    )
    found = form.match(view)
    if found is None:
        return 0
    value = found.group().rstrip(".")
    if not (form is _SIGNATURE or _looks_random(value)) or _ADDRESS.match(value) or _FILE.search(value):
        return 0
    start = max(0, len(left) - LEFT)
    another = _ANOTHER.search(left, start)
    if another is not None and (named := _NAMED.search(left, start, another.start())):
        return 0 if _OPEN.search(named.group()) or _OPEN.search(left[-24:]) else len(value)
    told = _TOLD.search(left, start)
    if told is None:
        return 0
    if told["pair"]:
        return len(value) if len(value) in (30, 32, 40) else 0
    if told["setting"]:
        return len(value)
    about = told["subject"] or told["heading"]
    if (about and ABOUT.search(about)) or _OPEN.search(told.group()) or _OPEN.search(left[-24:]):
        return 0
    strict = bool(told["at_once"] or told["argument"])
    if strict and (len(value) < 20 or (_UUID.match(value) and "secret" not in told.group())):
        return 0
    return len(value)


def _looks_random(value: str) -> bool:
    """Whether letters and digits are mixed as no words and no numbers are."""
    switches, changes = len(_SWITCH.findall(value)), len(_CHANGE.findall(value))
    if len(set(value)) < 8:
        return False
    return (switches >= 3 and changes >= 6) or (
        switches > 0 and changes >= 10 and (_WORDED.search(value) is None or _UNSPOKEN.search(value) is not None)
    )
