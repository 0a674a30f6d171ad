"""Secrets: keys and tokens by their prefixes, and what stands in addresses and after `Bearer`."""

import base64
import binascii
import re
from typing import Final, NamedTuple

from safety.pii import service_tokens

#: What ends a value: in a character class.
ENDS: Final = r"\s\"'`,;<>(){}，。！？；、…"

_WORD: Final = re.compile(r"[A-Za-z0-9_\-]*")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/=_\-]*")
_DOTTED: Final = re.compile(r"[A-Za-z0-9_\-.=]*")
_LETTERS: Final = re.compile(r"[A-Za-z0-9]*")
_ADDRESS: Final = re.compile(r"[A-Za-z0-9_\-/.@]*")
_LINES: Final = re.compile(r"[A-Za-z0-9+/=\r\n]*")
_PATH: Final = re.compile(r"[A-Za-z0-9_\-/.]*")

#: The parts of a key in PEM form: its body, and its last line. Each is a run that text to the left alone decides.
PEM: Final = (
    re.compile(r"(?:[A-Za-z0-9+/=\\\r\n\t:,\"]|(?<!-)-|(?<=[A-Za-z0-9+/=]{16}) |(?<=[:,\s\\]) |(?<=-----) )*"),
    re.compile(r"-*"),
    re.compile(r"[A-Z0-9 ]*"),
    re.compile(r"-*"),
)


class Secret(NamedTuple):
    """What was found: a kind, its stretch of the view, and the runs that it goes on with, one after the other."""

    kind: str
    start: int
    end: int
    goes_on: tuple[re.Pattern[str], ...] = ()


#: Kind, form of what can be seen within the window, what it goes on with.
_PREFIXED: Final = (
    ("private_key", r"-----BEGIN [A-Z0-9 ]{0,24}PRIVATE KEY(?: BLOCK)?-----", PEM),
    ("penstock_key", r"sk-penstock-(?:admin-)?[A-Za-z0-9_\-]{40}", (_WORD,)),
    ("anthropic_key", r"sk-ant-(?=[A-Za-z_\-]{0,50}\d)[A-Za-z0-9_\-]{16}", (_WORD,)),
    ("openai_key", r"sk-(?:proj-|svcacct-|admin-|None-)?(?=[A-Za-z_\-]{0,50}\d)[A-Za-z0-9_\-]{20}", (_WORD,)),
    ("stripe_key", r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10}|whsec_[A-Za-z0-9+/]{20}", (_LETTERS,)),
    ("github_token", r"gh[pousr]_[A-Za-z0-9]{30}|github_pat_[A-Za-z0-9_]{20}", (_WORD,)),
    ("gitlab_token", r"gl(?:pat|ptt|dt|rtr?|cbt|ft|soat|agent|imt|oas|ffct|wt)-[A-Za-z0-9_\-]{18}", (_DOTTED,)),
    ("gitlab_token", r"GR1348941[A-Za-z0-9_\-]{18}", (_DOTTED,)),
    ("slack_token", r"xox[abeoprs](?:\.xox[bp])?-(?=[A-Za-z\-]{0,40}\d)[A-Za-z0-9\-]{10}", (_WORD,)),
    ("slack_token", r"xapp-\d-[A-Za-z0-9\-]{10}", (_WORD,)),
    ("slack_webhook", r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_\-]{8}", (_PATH,)),
    ("service_token", r"https://[A-Za-z0-9_\-]{1,24}\.webhook\.office\.com/webhookb2/[0-9a-f]{2}", (_ADDRESS,)),
    ("generic_secret", r"(?:[0-9]{6}-){7}[0-9]{6}(?![0-9\-])", ()),
    ("private_key", r"Private-Lines: [0-9]{1,3}", (_LINES,)),
    ("discord_webhook", r"https://(?:[a-z0-9_]{1,10}\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d{10}", (_PATH,)),
    ("aws_access_key", r"(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA|AGPA|ANPA)[A-Z0-9]{16}(?![A-Za-z0-9])", ()),
    ("google_api_key", r"AIza[A-Za-z0-9_\-]{30,40}(?![A-Za-z0-9_])", ()),
    ("google_oauth", r"GOCSPX-[A-Za-z0-9_\-]{20}|ya29\.[A-Za-z0-9_\-]{16}|1//0[A-Za-z0-9_\-]{20}", (_DOTTED,)),
    ("twilio_key", r"SK[0-9a-fA-F]{32}(?![A-Za-z0-9])", ()),
    ("sendgrid_key", r"SG\.[A-Za-z0-9_\-]{16,32}\.[A-Za-z0-9_\-]{10}", (_WORD,)),
    ("mailgun_key", r"key-[0-9a-f]{32}(?![A-Za-z0-9])", ()),
    ("huggingface_token", r"(?:hf|api_org)_[A-Za-z0-9]{30}", (_LETTERS,)),
    ("npm_token", r"npm_[A-Za-z0-9]{30}", (_LETTERS,)),
    ("pypi_token", r"pypi-(?=[A-Za-z_\-]{0,50}\d)[A-Za-z0-9_\-]{16}", (_WORD,)),
    ("docker_token", r"dckr_(?:pat|oat)_[A-Za-z0-9_\-]{20}", (_WORD,)),
    ("digitalocean_token", r"do[opr]_v1_[0-9a-f]{40}", (_LETTERS,)),
    ("shopify_token", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}", (_LETTERS,)),
    ("telegram_bot_token", r"\d{8,10}:AA[A-Za-z0-9_\-]{32,34}(?![A-Za-z0-9_])", ()),
    ("discord_token", r"[MNO][A-Za-z0-9_\-]{22,27}\.[A-Za-z0-9_\-]{6}\.[A-Za-z0-9_\-]{20}", (_WORD,)),
    ("jwt", r"eyJ[A-Za-z0-9_\-]{10,}(?:\.eyJ[A-Za-z0-9_\-]{4}|\.[A-Za-z0-9_\-]*|$)", (_DOTTED,)),
)  # fmt: skip
_FORMS: Final = tuple((kind, re.compile(form), goes_on) for kind, form, goes_on in _PREFIXED)
_BY_FIRST: Final[dict[str, tuple[tuple[str, re.Pattern[str], tuple[re.Pattern[str], ...]], ...]]] = {
    first: tuple(form for form in _FORMS if form[0] in kinds.split())
    for first, kinds in {
        "-": "private_key",
        "s": "penstock_key anthropic_key openai_key stripe_key shopify_token",
        "p": "pypi_token",
        "P": "private_key",
        "0": "generic_secret",
        "r": "stripe_key",
        "w": "stripe_key",
        "g": "github_token gitlab_token",
        "x": "slack_token",
        "h": "slack_webhook discord_webhook service_token huggingface_token",
        "a": "huggingface_token",
        "A": "aws_access_key google_api_key",
        "G": "google_oauth gitlab_token",
        "y": "google_oauth",
        "1": "google_oauth telegram_bot_token generic_secret",
        "S": "twilio_key sendgrid_key",
        "k": "mailgun_key",
        "n": "npm_token",
        "d": "docker_token digitalocean_token",
        "e": "jwt",
        "M": "discord_token",
        "N": "discord_token",
        "O": "discord_token",
        **dict.fromkeys("23456789", "telegram_bot_token generic_secret"),
    }.items()
}

#: The beginnings of all of these but those that begin with a digit, ...
SPELLED_PREFIXES: Final = (
    r"s(?:k-|k_(?:live|test)_|hp(?:at|ca|pa|ss)_)|rk_(?:live|test)_|whsec_|g(?:h[pousr]_|ithub_pat_|"
    r"l(?:pat|ptt|dt|rtr?|cbt|ft|soat|agent|imt|oas|ffct|wt)-)|GR1348941|x(?:ox[abeoprs][.\-]|app-)|"
    r"h(?:ttps://(?:hooks\.slack|[A-Za-z0-9_\-]{1,24}\.webhook\.office|(?:[a-z0-9_]{1,10}\.)?discord(?:app)?\.com/api/)|f_)|"
    r"A(?:(?:KIA|SIA|BIA|CCA|ROA|IDA|GPA|NPA)[A-Z0-9]{16}|Iza)|GOCSPX-|ya29\.|"
    r"S(?:K[0-9a-fA-F]{32}|G\.[A-Za-z0-9_\-]{16})|key-[0-9a-f]{32}|api_org_|npm_|pypi-|d(?:ckr_|o[opr]_v1_)|eyJ|"
    r"1//0|-(?<!--)----BEGIN|Private-Lines: [0-9]"
)
#: ... and with that of Discord's, of which only its dots tell anything.
DOTTED_PREFIX: Final = r"[MNO][A-Za-z0-9_\-]{22,27}\.[A-Za-z0-9_\-]{6}\."
PREFIXES: Final = f"{SPELLED_PREFIXES}|{DOTTED_PREFIX}"


#: Their random part has many different characters; a sample's `xxxx` has not.
_RANDOM: Final = ("stripe_key", "github_token", "openai_key", "aws_access_key", "google_api_key")


def secret_at(view: str) -> Secret | None:
    """A key or token that a view begins with."""
    for kind, form, goes_on in _BY_FIRST.get(view[0], ()):
        found = form.match(view)
        if found is not None:
            if kind == "jwt" and "." not in found.group() and len(found.group()) < 64:
                return None
            if kind in _RANDOM and len(set(found.group())) < 10:
                return None
            return Secret(kind, 0, found.end(), goes_on)
    end = service_tokens.token_at(view)
    return Secret("service_token", 0, end, (service_tokens.TOKEN_RUN,)) if end else None


_BEARER: Final = re.compile(r"(?=[A-Za-z._~+/\-]{0,60}\d)[A-Za-z0-9._~+/\-]{16,}=*")
_BASIC: Final = re.compile(r"[A-Za-z0-9+/]{8,}={0,2}")
_USER: Final = re.compile(rf"://(?![$%<{{{{])[^/@:|{ENDS}]{{0,24}}:(?![$%<{{{{])[^@/|{ENDS}]{{1,34}}(?=@[^\s@])")
_USER_NAME: Final = r"//[^\s/@:，。！？；、…]{0,24}:"
#: Without an @ in sight: no port is that long.
_LONG_PASSWORD: Final = r"[A-Za-z0-9_.~!$&*+=%\-]{35}"
_LONG_USER: Final = re.compile(
    rf"://(?![$%<{{])[^\s/@:$%<{{]{{0,24}}:(?P<password>{_LONG_PASSWORD})[A-Za-z0-9_.~!$&*+=%\-]*"
)
_USER_RUN: Final = re.compile(r"[A-Za-z0-9_.~!$&*+=%\-]*")
_SAMPLE_USER: Final = re.compile(
    r"://(?:(?-i:[A-Z_]+):(?-i:[A-Z_]+)|(?:user(?:name)?|usr|login|name):(?:password|passwd|pass|pwd|pw|secret)|[^:@]{0,24}:[*x•.]+)@",
    re.IGNORECASE,
)
USER_PLACE: Final = rf":(?={_USER_NAME}(?:[^\s@/，。！？；、…]{{1,34}}@|{_LONG_PASSWORD}))"
LONG_USER_ROUGH: Final = f":{_USER_NAME}{_LONG_PASSWORD}"


def user_at(view: str) -> Secret | None:
    """User and password of an address, whose `://` a view begins with."""
    found = _USER.match(view)
    if found is not None:
        return None if _SAMPLE_USER.match(view) else Secret("url_credentials", 3, found.end())
    found = _LONG_USER.match(view)
    if found is None or secret_at(found["password"]) is not None:
        return None
    return Secret("url_credentials", 3, found.end(), (_USER_RUN,))


def authorization_at(scheme: str, view: str) -> Secret | None:
    """What stands after `Bearer` or `Basic`."""
    if scheme == "bearer":
        found = _BEARER.match(view)
        return None if found is None else Secret("bearer_token", 0, found.end(), (_BASE64_DOTTED,))
    found = _BASIC.match(view)
    if found is None:
        return None
    try:
        plain = base64.b64decode(found.group()[: len(found.group()) // 4 * 4])
    except (binascii.Error, ValueError):
        return None
    return Secret("basic_auth", 0, found.end(), (_BASE64,)) if b":" in plain else None


_BASE64_DOTTED: Final = re.compile(r"[A-Za-z0-9._~+/=\-]*")
