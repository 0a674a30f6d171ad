"""Passwords that a text tells after a name: in words, on command lines, as arguments and in settings."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from safety.pii.password_values import (
    AMID,
    JOINED_WORDS,
    LIKE_A_NAME,
    NO_PASSPHRASE,
    QUOTED,
    SIGNED,
    TERM,
    VALUE,
)
from safety.pii.password_words import (
    ALONE_IN_WORDS,
    EVERY_WORD,
    STEMS,
    TOLD_ON_A_LINE_ROUGH,
    TOLD_ROUGH,
    UNSPACED_WORDS,
    shortest,
    trie,
)
from safety.pii.said_answers import TITLE, answer_at
from safety.pii.telling import ABOUT, ARGUMENT, DOUBT, IS, LEFT, NEW_ONE, QUOTE, SHOULD_BE, WORD, WORD_BEGINS

_UNSPACED_WORD: Final = trie(UNSPACED_WORDS)
_NAME: Final = rf"(?:{trie((*EVERY_WORD, *STEMS))}[^\W\d_]{{0,4}}|(?<![^\W_]){trie(ALONE_IN_WORDS)})"
#: What a heading that names a password's use has, and none of a field.
_FOR: Final = re.compile(
    r" (?:for|of|to|für|fürs|vom|zum|de|del|du|da|do|dla|pour|para|voor|van|til|till|för|от|для|від|na|pro|per|di|için|"
    r"a|az|untuk|cho|wi-?fi|wlan)(?: |$)"
)
#: Codes of networks, which are called by other words.
_WIFI: Final = r"(?:wi-?fi|wlan|wpa[23]?|вай-?фа[йяю])"
_CODE: Final = (
    r"(?:code|key|clé|clef|clave|pass|kod|koda|kode|kód|klíč|koodi|chave|código|codigo|codice|chiave|schlüssel|"
    r"sleutel|klucz|"
    r"şifresi|ключ)"
)


#: What RE2 does not know: that nothing stands before.
_UNBOUND: Final = re.compile(r"\(\?<![^)]*\)")


class _Way(NamedTuple):
    """`left` stands to the left of a password, in small letters; one of the `signs` is part of it.

    `rough` is what every text has with such a password; without one, a sign and a digit later on the same line.
    """

    left: str
    signs: tuple[str, ...]
    rough: str = ""


#: What stands before a user and a password.
_ACCOUNT: Final = (
    r"(?:(?:(?<![a-z])(?:login|inlog|user|username|sign-?in|creds|credentials|user/pass(?:word)?|zugangsdaten|usuario|identifiants|utente|"
    r"логин): ?|"
    r"(?:(?:log|sign)(?:ged)? ?in (?:as|with)|(?:credentials|creds|logins?) (?:are|is)) )"
    r"[`'\"]?[a-z0-9._@\-]{2,24}[`'\"]? ?/ ?[`'\"]?|"
    r"(?<![a-z])(?:with|using|as|mit|als|con|avec|via|user|login) (?:admin|administrator|root) / )"
)
_LONG_USER: Final = r"://[0-9a-f]{32}:"
_OF_ADDRESS: Final = re.compile(rf"{_LONG_USER}\Z")
#: A function or header that takes a user and a password.
_CALL: Final = (
    r"(?:getconnection|mysqli(?:_connect)?|new pdo|dbi->connect|networkcredential|httpbasicauth|(?<![a-z])basicauth|"
    r"(?<![a-z])auth ?= ?|"
    r"(?<![a-z])(?:(?:smtp|server|imap|mail|ftp|s)\.|\$?(?:mail|smtp|imap|pop|ftp|sftp|ssh|client)\w{0,6}(?:\.|"
    r"->))login|(?<![a-z])ssh\w{0,8}\.connect)"
)
#: Without a word of what it is the password of: a value that might be a name, too, is none.
_AT_ONCE: Final = (
    _Way(rf"{_NAME}[\"*]{{0,2}}(?: [0-9]{{1,2}})?(?:[:：](?:\n{{1,2}})?| ?\|| \()? {{0,2}}{QUOTE}", ()),
    _Way(_ACCOUNT, ("/",), rf"(?i:{_UNBOUND.sub('', _ACCOUNT)})[^\n]*?[0-9]"),
    _Way(
        r"(?<![a-z])(?:u|un|usr|user(?:name)?)[:=] ?[\w.@\-]{2,24},? (?:p|pw)[:=] ?['\"]?",
        (" p:", " p=", " pw"),
        r"(?i:u|un|usr|user|username)[:=] ?[A-Za-z0-9_.@\-]+,? (?i:p|pw)[:=][^\n]*?[0-9]",
    ),
)
#: After an e-mail or another user, by its place alone.
_MAILED: Final = (
    r"[a-z0-9_]@[a-z0-9.\-]{1,40}\.[a-z]{2,12}(?: / ?|/ |:)|"
    r"(?<![a-z])(?:log|sign)(?:ged)? ?in (?:as|with|using) [a-z0-9._\-]{2,24} and "
)
#: With such words, which tell whether something else is spoken of.
_IN_A_SENTENCE: Final = (
    rf"{_NAME}(?P<subject>{WORD}{{0,7}}?),? "
    rf"(?:{IS} ?:?|(?P<colon>[:：])) ?{QUOTE}"
)
_BEFORE_A_COLON: Final = rf"{_NAME}(?P<heading>(?:{WORD}| [0-9]{{1,4}}){{1,11}}?)(?: =|[:：]) {{0,2}}{QUOTE}"
#: Where no word for is need be.
_BESIDE: Final = (
    r"(?:kata (?:sandi|laluan)|hasł\w|hasl\w|hesl\w|lozink\w|gesl\w|şifre\w{{0,3}}|sifre\w{{0,3}}|jelsz\w{{1,4}})"
    rf"{WORD}{{1,3}} {QUOTE}"
)
#: As values in a program or its settings, which may be names.
_AS_ARGUMENTS: Final = (
    _Way(rf"{_NAME}{ARGUMENT}", ()),
    _Way(r"curlopt_[a-z]{0,12}passw(?:or)?d, ?[\"']", ("curlopt_",)),
    _Way(r"userpwd, ?[\"'][^\s:'\"]{1,20}:", ("userpwd",)),
    _Way(
        rf"(?:key|name)=\"[^\"\n]{{0,24}}{_NAME}[^\"\n]{{0,8}}\"(?: type=\"[a-z]{{1,12}}\")? value=\"",
        (),
        r"(?i:key|name)=\"[^\"\n]*\" (?i:value)=\"[^\n]*?[0-9]",
    ),
    _Way(
        rf"name: ['\"]?[a-z_]{{0,24}}{_NAME}['\"]?\n[ ]{{1,16}}value: ['\"]?",
        (),
        r"(?i:name): [^\n]*(?:\n|\\n) +(?i:value): [^\n]*?[0-9]",
    ),
    _Way(r":auth\(['\"]", (":auth(",)),
    _Way(
        r"(?:dbname|database|charset|port)=[\w.\-]{1,24};?[\"'], ?[\"'][^\s\"']{1,24}[\"'], ?[\"']",
        ('", "', '","', "', '", "','"),
        r"(?i:dbname|database|charset|port)=[^\n]*?[\"'], ?[\"'][^\n]*?[\"'], ?[\"'][^\n]*?[0-9]",
    ),
    # By its place alone: after the user.
    _Way(
        rf"{_CALL}\((?:[^()\n]{{0,48}}, ?)?[\"'][^\s\"']{{1,40}}[\"'], ?[\"']",
        ('", "', '","', "', '", "','"),
        rf"(?i:{_UNBOUND.sub('', _CALL)})\([^\n]*?[\"'], ?[\"'][^\n]*?[0-9]",
    ),
)
#: In ways that leave no doubt.
_WITHOUT_DOUBT: Final = (
    _Way(rf"{_UNSPACED_WORD}(?:还是|[はをが是为為는은가이])?[ ]?[「『]?{QUOTE}", ()),
    _Way(
        rf"(?:{_WIFI}(?:[ \-]?| [\"“„«']?[\w\-]{{1,24}}[\"”“»']? ){_CODE}|"
        rf"{_CODE} (?:d[ueo] |de la |del |della |al |do |für das |til )?{_WIFI})"
        rf"(?: [^\W\d_]{{1,16}}){{0,5}}?(?: {IS} ?:?| ?[:：]) ?{QUOTE}",
        ("wifi", "wi-fi", "wlan", "wpa", "вайф", "вай-ф"),
        rf"(?i:wi-?fi|wlan|wpa|вай-?ф){TOLD_ON_A_LINE_ROUGH}",
    ),
    _Way(rf"hasł\w{{0,3}}{WORD}{{1,4}} to {QUOTE}", ()),
    _Way(rf"salasana{WORD}{{1,3}} on {QUOTE}", ()),
    # Not of a shader, a filter or a test.
    _Way(
        rf"(?<!shader )(?<!render )(?<!low )(?<!high )(?<!band )(?<!first )(?<!second )(?<!next )(?<!last )(?<!test )"
        rf"(?<!tests )(?<![a-z])pass (?:is|was) {QUOTE}",
        (" pass",),
        r"[^a-z](?i:pass (?:is|was)) [^\n]*?[0-9]",
    ),
    _Way(
        rf"(?:recovery|backup|rescue) codes?{WORD}{{0,4}}(?: (?:is|was|are)|:) ?{QUOTE}",
        (" code",),
        r"(?i:(?:recovery|backup|rescue) code)[^\n]*?[0-9]",
    ),
    _Way(
        r"(?<![^\s\"'])--?(?:[\w\-]{1,20}-)?"
        r"(?:password|passwd|passphrase|storepass|keypass|pass|pwd|pw)(?:[ =]['\"]?|['\"], ?['\"])",
        ("-pass", "-pw", "storepass", "keypass"),
    ),
    _Way(
        r"#define (?:[a-z0-9_]{0,24}_)?(?:pass(?:word|wd|phrase)?|pwd?|psk) {1,9}\"",
        ("#define",),
        r"(?i:#define [a-z0-9_]*(?:pass|pw|psk))[^\n]*?[0-9]",
    ),
    # A line of its own, as routers' settings have them.
    _Way(r"(?:\A|\n)[ \t]{0,8}(?:(?:enable )?password|enable secret) (?:[0-9] )?", ("password ", "secret ")),
    _Way(
        r"(?:auth|secure_auth|logged_in|nonce)_(?:key|salt)['\"] ?, {0,12}['\"]",
        ("auth_key", "_salt", "in_key", "nonce_key"),
    ),
    _Way(r"sshpass -p ?['\"]?", ("sshpass",)),
    _Way(
        r"(?:rabbitmqctl (?:add_user|change_password)|htpasswd -[a-z]{1,4}(?: [\w./\-]{1,30})?) [\w.@\-]{1,24} ['\"]?",
        ("rabbitmqctl ", "htpasswd -"),
    ),
    _Way(r"wpa-(?:psk|passphrase) ['\"]?", ("wpa-p",)),
    _Way(
        r"(?:isakmp key|pre-shared-key) (?:local |remote |ascii-text |[0-9] ){0,2}['\"]?", ("isakmp key", "-shared-key")
    ),
    _Way(r"openssl [^|;&\n]{0,52}-k ['\"]?", ("openssl ",)),
    _Way(
        r"(?<![a-z])(?:user(?:name)?|login|benutzer|usuario)[ :=]{1,2}['\"]?[\w.@\-]{2,24}['\"]?,? (?:and |"
        r"und |y |et )?pass[ :] ?['\"]?",
        (" pass",),
        r"(?i:user|login|benutzer|usuario)[^\n]*? (?i:pass)[ :][^\n]*?[0-9]",
    ),
    # Databases' statements, and variables with a default.
    _Way(r"set password for [^\n=]{1,40}= ?(?:password\()?['\"]", ()),
    _Way(rf"{_NAME} ?= ?(?:md5|sha1|sha2|sha256|crypt|encrypt|password)\(['\"]", ()),
    _Way(
        rf"variable \"[a-z0-9_]{{0,24}}{_NAME}[a-z0-9_]{{0,12}}\" \{{[^{{}}]{{0,40}}?default {{0,8}}= {{0,4}}['\"]", ()
    ),
    _Way(
        r"(?:docker|podman|skopeo|helm registry|az|oc|argocd) login [^\n]{0,50} -p ['\"]?",
        (" -p ",),
        r"(?i:login [^\n]*? -p )[^\n]*?[0-9]",
    ),
    _Way(r"/user:[\w.\\@\-]{1,40} ", ("/user:",)),
    _Way(r"dc=[\w\-]{1,24}['\"]? -w ['\"]?", (" -w ",)),
    _Way(r"uci set [^\n]{0,48}\.(?:key|psk|password)=['\"]?", ("uci set",)),
    _Way(r"\| ?pass {0,12}\| ", ("| pass", "|pass")),
    _Way(r"wifi:[^\n]{0,48};p:", ("wifi:",)),
    _Way(
        r"(?:pdf|zip|file|document|archive|payslip|statement|attachment)[^.\n]{0,24} (?:protected|locked|encrypted) "
        r"with ['\"]?",
        ("protected with", "locked with", "encrypted with"),
    ),
    _Way(
        r"ssid[ :=]{1,3}[^\n]{1,32}\n[ \t]{0,8}(?:key|pass\w{0,6}|pw|psk|code|clé|clave|chiave|schlüssel)[ :=]{1,3}",
        ("ssid",),
        r"(?i:ssid)[^\n]*\n[^\n]*?[0-9]",
    ),
    # Of Sentry's addresses, whose users are too long to be looked at as such.
    _Way(_LONG_USER, ("://",), rf"{_LONG_USER}[^\n]*?[0-9]"),
    _Way(
        r"(?:mysql|mariadb)(?:dump|admin|import)? (?:[^|;&\n]{0,50} )?-p['\"]?",
        (" -p",),
        r"(?i:(?:mysql|mariadb)(?:dump|admin|import)? [^\n]*?-p)[^\n]*?[0-9]",
    ),
    _Way(
        r"(?<![a-z])(?:sqlcmd|osql|bcp|mongo[a-z]{0,7}|psexec|evil-winrm|netexec|nxc|crackmapexec|unzip|zip|rdesktop|"
        r"isql|"
        r"7z[a-z]? [a-z]) [^|;&\n]{0,52}-p ?['\"]?",
        (" -p",),
        r"(?i:sqlcmd|osql|bcp|mongo[a-z]{0,7}|psexec|evil-winrm|netexec|nxc|crackmapexec|zip|rdesktop|isql|"
        r"7z[a-z]? [a-z]) [^\n]*?"
        r"-[pP][^\n]*?[0-9]",
    ),
    _Way(r"(?:xfreerdp|signtool)[^\n]{0,50} /p:? ?['\"]?", ("xfreerdp", "signtool")),
    _Way(r"net user [\w.\-]{1,24} ['\"]?", ("net user",)),
    _Way(
        r"(?P<echoed>echo (?:-n |-e )?['\"]?(?:[a-z0-9._\-]{1,24}:)?)",
        ("echo ",),
        r"(?i:echo) [^\n|]*?[0-9][^\n|]*\| ?(?:sudo -|chpasswd|passwd|docker|podman|gh|cryptsetup|kinit|openssl)",
    ),
    # A script that types it.
    _Way(
        rf"{_NAME}[^\n]{{0,12}}\n[ \t]{{0,8}}(?:\w{{1,12}}\.)?send(?:line)?(?:\(| --)? ?b?[\"']",
        (),
    ),
    _Way(r"(?:totp|hotp)\(['\"]", ("totp(", "hotp(")),
    _Way(r"requirepass ['\"]?", ("requirepass",)),
    _Way(r"masterauth ['\"]?", ("masterauth",)),
    _Way(r"snmp[^\n]{0,20}community ['\"]?", ("snmp",)),
    _Way(r"username \S{1,24}(?: privilege [0-9]{1,2})? (?:secret|password) (?:[0-9] )?", (" secret ",)),
    _Way(r"(?:tacacs|radius)[^\n]{0,40} key (?:[0-9] )?", ("tacacs", "radius")),
    _Way(r"redis-cli[^\n]{0,40} -a ['\"]?", ("redis-cli",)),
    _Way(
        r"(?:oracle:thin:|(?:sqlplus|expdp|impdp|rman)(?: \S{1,12})? )\w{1,20}/",
        ("oracle:thin:", "sqlplus", "expdp", "impdp", "rman "),
    ),
    _Way(r"\n[ \t]{0,8}option (?:key|psk|password) ['\"]", ("option ",)),
    _Way(r"(?:ro|rw)community ", ("community ",)),
    _Way(r"(?:bindpw |ldap[^\n]{0,60} -w ['\"]?)", ("bindpw", "ldap")),
    # A line of .pgpass.
    _Way(r":[0-9]{4,5}:[\w*\-]{1,24}:[\w.\-]{1,24}:", (":",), r":[0-9]{4,5}:[\w*\-]{1,24}:[\w.\-]{1,24}:[^\n]*?[0-9]"),
    _Way(r"securestring (?:-string )?['\"]", ("securestring",)),
    _Way(
        r"(?:identified (?:by|with \S{1,24} (?:by|as)) ['\"]|(?:create|alter) user [^\n]{1,40} identified by )",
        ("identified ",),
    ),
    _Way(
        r"(?:-u ['\"]?ac[0-9a-f]{32}:|"
        r"(?:curl|wget|http)[^\n]{0,50} (?:-u|--user|--proxy-user)[ =]['\"]?[^\s:'\"]{1,30}:)",
        (" -u", " --user", " --proxy-user"),
        r"(?i: (?:-u|--user|--proxy-user))[ =]['\"]?[^\s:'\"]{1,34}:[^\n]*?[0-9]",
    ),
)


#: In a script of its own, before a value in ASCII; a name would have its letters mixed in fewer ways.
_FOREIGN: Final = (
    rf"{trie(word for word in (*EVERY_WORD, *STEMS) if not word[0].isascii())}[^\x00-\x7f\s]{{0,24}}"
    rf"(?:,? [^\x00-\x7f\s]{{1,20}}){{0,6}} {QUOTE}"
)
_MIXED: Final = re.compile(r"(?=[ -~]{8})(?=[!-~]*[A-Za-z])(?=[!-~]*[0-9])(?=[!-~]*[_\-.!@#%&*+?])[!-~]+$")


def _any(ways: Iterable[_Way]) -> str:
    return "|".join(way.left for way in ways)


def _signed(ways: tuple[_Way, ...]) -> str:
    return _any(way for way in ways if way.signs)


def _worded(ways: tuple[_Way, ...]) -> str:
    return _any(way for way in ways if not way.signs)


#: By a sign alone, ...
_TOLD_BY_SIGNS: Final = re.compile(
    rf"(?:{_signed(_WITHOUT_DOUBT)}|(?P<mailed>{_MAILED})|(?P<at_once>{_signed(_AT_ONCE)})|(?P<argument>{_signed(_AS_ARGUMENTS)}))\Z"
)
#: ... and by a word for a password.
_TOLD_BY_WORDS: Final = re.compile(
    rf"(?:{_worded(_WITHOUT_DOUBT)}|(?P<at_once>{_worded(_AT_ONCE)})|{_IN_A_SENTENCE}|{_BEFORE_A_COLON}"
    rf"|(?P<argument>{_worded(_AS_ARGUMENTS)})|(?P<foreign>{_FOREIGN}))\Z"
)
#: After whatever was said of it.
_NOW_IT_IS: Final = r" (?:(?:now|knows?) it(?:['’]?s| is)|it(?:['’]?s| is) now)"
#: What tells a password with less certainty, or another one than was spoken of: its end, and all of it.
_MAY_TELL: Final = re.compile(
    rf"(?:{NEW_ONE}(?:,? {IS} ?:?| ?[:：])|{_NOW_IT_IS}|"
    rf"(?<![^\W_])(?:{DOUBT}|{SHOULD_BE}),?(?: {IS})?|['’]s) ?{QUOTE}\Z|{_BESIDE}\Z"
)
_TOLD_SOMEHOW: Final = re.compile(
    rf"(?:(?P<another>{_NAME}(?:{WORD}{{0,6}}?{NEW_ONE}(?:,? {IS} ?:?| ?[:：])|[^.!?\n]{{0,48}}{_NOW_IT_IS}) ?{QUOTE})"
    rf"|{_NAME}(?P<subject>{WORD}{{0,7}}?),? (?:{IS} )?(?:{DOUBT}|{SHOULD_BE}),?(?: {IS})? ?{QUOTE}"
    rf"|{_NAME}['’]s {QUOTE}|{_BESIDE})\Z"
)
_WAYS: Final = (*_AT_ONCE, *_AS_ARGUMENTS, *_WITHOUT_DOUBT)
_SIGNS: Final = tuple(dict.fromkeys(sign for way in _WAYS for sign in way.signs))
#: Signs that most texts have: what they are part of ends with one of them, ...
_COLONS: Final = (":", "://", " -u", " --user", " --proxy-user")
_COMMAS: Final = ('", "', '","', "', '", "','")
_COMMON: Final = (*_COLONS, *_COMMAS, "/")
#: ... or has one of these.
SIGNS: Final = shortest(
    (*(sign for sign in _SIGNS if sign not in _COMMON), "log in ", "login ", "sign in ", "gged in ")
)
#: Of those that have none of these, one is in all that end with a colon or have a slash near the end; of the first
#: kind some have none but four colons.
BEFORE_COLONS: Final = ("@", "://", "-u")
_COLONS_OF_A_LINE: Final = 4
BEFORE_SLASHES: Final = (
    "@", "login", "log in", "logged", "inlog", "sign", "user", "cred", "zugangsdaten", "usuario", "identifiants",
    "utente", "логин", "admin", "root",
)  # fmt: skip
#: What many other words begin with.
_BEGINNINGS: Final = ("contr", "mot d", "kata ")
WORDS: Final = shortest(
    (
        *(word if word[:5] in _BEGINNINGS else word[:5] for word in (*EVERY_WORD, *STEMS)),
        *ALONE_IN_WORDS,
    )
)
#: What every text has in which one is told: a word for a password, or one of these, and then a digit on the same line.
ROUGH: Final = (
    rf"(?i:{trie(shortest(sign for way in _WAYS for sign in way.signs if not way.rough))})[^\n]*?[0-9]",
    *(way.rough for way in _WAYS if way.rough),
    r"(?i:(?:log|sign)(?:ged)? ?in (?:as|with|using)) [A-Za-z0-9._\-]+ and [^\n]*?[0-9]",
    r"@[A-Za-z0-9.\-]+\.[A-Za-z]+(?:/ | ?/|:| :)[^\n]*?[0-9]",
    rf"{WORD_BEGINS}(?i:{trie(ALONE_IN_WORDS)})[^A-Za-z]{TOLD_ROUGH}",
)

#: What a text has that tells one.
_SPELLED: Final = re.compile(rf"{trie(shortest((*EVERY_WORD, *STEMS)))}|(?<![^\W_]){trie(ALONE_IN_WORDS)}|{_WIFI}")
#: Programs that name a file after an account.
_COPIED: Final = re.compile(r"(?<![a-z])(?:scp|rsync|sftp|git|ssh|sshfs|mount)(?![a-z])")
#: Of a shell, which comes after a question for a password.
_PROMPT: Final = re.compile(r"[\w.\-]+@[\w.\-]+[:\]]")
#: It comes now: a colon, a quote or a word for is.
_BRINGS: Final = re.compile(rf"[:：=\"'`“”„«»>(]|(?<![^\W_]){IS} $")
#: To what asks for a password.
_PIPED: Final = re.compile(
    r"[\"']? ?\| ?(?:sudo -[a-zA-Z]{0,3}S|(?:chpasswd|passwd|docker|podman|gh|cryptsetup|kinit|openssl)(?![a-z]))"
)
_LETTER: Final = re.compile(r"[^\W\d_]")
_DIGIT: Final = re.compile("[0-9]")


class Hints(NamedTuple):
    """Which are to the left of a place, in small letters: `SIGNS`, `BEFORE_COLONS`, `BEFORE_SLASHES` and `WORDS`."""

    signs: bool
    before_colons: bool
    before_slashes: bool
    words: bool


def _has_sign(left: str, hints: Hints) -> bool:
    last = left[-1:]
    return (
        hints.signs
        or (last == ":" and (hints.before_colons or left.count(":") >= _COLONS_OF_A_LINE))
        or (last in "'\"" and any(map(left.__contains__, _COMMAS)))
        or (hints.before_slashes and "/" in left[-3:])
    )


def _somehow(told: re.Match[str], value: str) -> bool:
    if told["another"]:
        return True
    about = told["subject"]
    if LIKE_A_NAME.match(value) or (about and ABOUT.search(about)):
        return False
    return SIGNED.match(value) is not None or AMID.match(value) is not None


def password_at(left: str, view: str, quoted: bool, hints: Hints) -> int:
    """The end of a password that a view begins with, told so by what is left of it, in small letters, or 0."""
    signed, worded = _has_sign(left, hints), hints.words
    if not (signed or worded):
        return 0
    found = (QUOTED if quoted else VALUE).match(view)
    if found is None:
        return 0
    value = found.group().rstrip(".?:\\”’»“‘«")
    if _OF_ADDRESS.search(left):
        value = value.partition("@")[0]
    # PLACE has seen a digit, which may be one behind the value, where a stream has not looked yet.
    words = JOINED_WORDS.match(value) is not None and NO_PASSPHRASE.search(value) is None
    if len(value) < 6 or not (words or (_DIGIT.search(value) and _LETTER.search(value))):
        return 0
    if TERM.match(value) or view[found.end() : found.end() + 1] == "(":
        return 0
    start = max(0, len(left) - LEFT)
    told = _TOLD_BY_SIGNS.search(left, start) if signed else None
    by_sign = told is not None
    if told is None and worded and _MAY_TELL.search(left, start):
        somehow = _TOLD_SOMEHOW.search(left, start)
        if somehow is not None and not words and _somehow(somehow, value):
            return len(value)
    if told is None and worded:
        told = _TOLD_BY_WORDS.search(left, start)
    if told is None:
        return len(value) if worded and not words and answer_at(left, value) else 0
    if words and not (_BRINGS.search(told.group()) and _SPELLED.search(told.group())):
        return 0
    if by_sign and told["echoed"] is not None and _PIPED.match(view, found.end()) is None:
        return 0
    like_a_name = LIKE_A_NAME.match(value) is not None
    signed = SIGNED.match(value) is not None
    if by_sign and told["mailed"]:
        if _COPIED.search(left):
            return 0
        sure = signed or (AMID.match(value) is not None and not told.group().endswith(": "))
        return len(value) if sure and not like_a_name and "/" not in value else 0
    if like_a_name and (told["argument"] or (told["at_once"] and not (quoted and len(value) >= 10))):
        return 0
    if by_sign:
        if told.group().rstrip("`'\"").endswith("/"):
            return value.find("@") if "@" in value else 0
        return len(value)
    if told["foreign"]:
        return len(value) if _MIXED.match(value) and not like_a_name else 0
    if told["at_once"] and _PROMPT.match(value) and "\n" in told["at_once"]:
        return 0
    about = told["subject"] or told["heading"]
    if about and ABOUT.search(about):
        return 0
    if told["heading"] and _DIGIT.search(told["heading"]) and TITLE.match(value):
        return 0
    if like_a_name and (told["colon"] or (told["heading"] and not _FOR.search(told["heading"]))):
        return 0
    return len(value)
