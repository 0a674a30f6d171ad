"""Pure: tells what a provider's refusal is about: the request, the gateway's key, its money, or the model.

Statuses say little: 403 is a flagged prompt at OpenRouter and xAI, a prompt that is too long at Together, and a key
without permission elsewhere; 400 is an invalid key at xAI and Gemini, and an empty account at Anthropic and DashScope.
So the error's code and words are read, too. Sources: the error references of OpenAI, Azure OpenAI, Anthropic, Gemini,
xAI, OpenRouter, Together, Groq, Fireworks, Mistral, DeepSeek, Moonshot, DashScope and Cohere.
"""

import enum
import re
from typing import Final

import msgspec


class Cause(enum.Enum):
    """What a refusal is about. `UNCLEAR`: it may be the request as well as the key."""

    CONTENT = "content"
    CONTEXT = "context"
    SIZE = "size"
    REQUEST = "request"
    KEY = "key"
    MODEL = "model"
    FUNDS = "funds"
    #: The account can pay for less than this request asks for.
    TOO_DEAR = "too_dear"
    LIMIT = "limit"
    UNCLEAR = "unclear"
    #: It is not a refusal, but the upstream is away or fails.
    AWAY = "away"
    FAULT = "fault"


class ErrorWords(msgspec.Struct, frozen=True):
    """The members that are read of an error's body. `status` is the one that the body states; 0: none."""

    message: str = ""
    param: str | None = None
    code: str = ""
    type: str = ""
    status: int = 0


_AWAY: Final = (408, 409, 425, 502, 503, 504, 529)
#: Statuses of a request that cannot be answered as it is.
_OF_REQUEST: Final = (400, 406, 411, 413, 414, 415, 416, 417, 422, 424, 428, 431)
#: Codes and types, in lower case without any separator.
_CODES: Final = {
    **dict.fromkeys(
        (
            *("contentfilter", "contentpolicyviolation", "moderationblocked", "datainspectionfailed", "invalidprompt"),
            *("responsibleaipolicyviolation", "cyberpolicyviolation", "imagecontentpolicyviolation", "1301"),
        ),
        Cause.CONTENT,
    ),
    **dict.fromkeys(("contextlengthexceeded", "stringabovemaxlength", "contextwindowexceeded"), Cause.CONTEXT),
    **dict.fromkeys(
        (
            *("insufficientquota", "insufficientbalance", "insufficientcredits", "insufficientfunds", "1113"),
            *("billinghardlimitreached", "billingnotactive", "billingerror", "paymentrequired", "arrearage"),
            *("exceededcurrentquotaerror", "allocationquota.freetieronly", "spendinglimitreached"),
        ),
        Cause.FUNDS,
    ),
    **dict.fromkeys(
        (
            *("invalidapikey", "wrongapikey", "authenticationerror", "invalidauthenticationerror", "apikeyinvalid"),
            *("accountdeactivated", "accountdisabled", "organizationrestricted", "invalidorganization", "unauthorized"),
            *("accessterminated", "unsupportedcountryregionterritory", "unauthenticated", "insufficientpermissions"),
        ),
        Cause.KEY,
    ),
    **dict.fromkeys(
        (
            *("modelnotfound", "deploymentnotfound", "modelnotavailable", "model.accessdenied", "modeltermsrequired"),
            *("accessdenied.unpurchased", "modelpermissionblockedorg", "modelpermissionblockedproject"),
        ),
        Cause.MODEL,
    ),
}
_SEPARATORS: Final = re.compile(r"[\s_-]+")

_KEY: Final = re.compile(
    r"\b(api|access|auth\w*|subscription|secret)[ -]?(key|token)\b|\bx-api-key\b|\bcredentials?\b|\bunauthori[sz]ed\b"
    r"|\bauthenticat\w+|\bpermissions?\b|\bmissing scopes\b|\b(virtual network|firewall|ip address|allow-?list)\b"
    r"|\bmember of an organi[sz]ation\b|\b(country|region|territory|location)\b.{0,40}\bnot supported\b"
)
#: An account or key that is no longer good.
_CLOSED: Final = re.compile(
    r"\b(account|organi[sz]ation|team|project|workspace|consumer|subscription|key)\b.{0,60}\b(suspended|disabled"
    r"|deactivated|banned|terminated|restricted|revoked|expired|invalid|not valid|leaked|locked|closed)\b"
)
_MODEL: Final = re.compile(
    r"\bmodel\b.{0,160}\b(does not exist|not exist|not found|no access|not available|not deployed|not accessible)\b"
    r"|\b(access to|use|sample from|find|no such|unknown|serving|invalid) (the |this |that )?(model|deployment)\b"
    r"|\bdeployment\b.{0,80}\bdoes not exist\b"
)
_FUNDS: Final = re.compile(
    r"\b(insufficient|not enough|no|any|out of|purchase|monthly included) (remaining )?(credits?|balance|funds|money)\b"
    r"|\b(credit )?balance (is )?(too low|insufficient)\b|\barrears\b|\bin good standing\b|\bpayment required\b"
    r"|\bspending limit\b|\b(key|usage|billing hard|hard|monthly|quota) limits? (has been )?(exceeded|reached)\b"
    r"|\bapi usage limits\b|\bplan and billing\b|\bout of call volume quota\b|\bfree tier\b.{0,40}\bexhausted\b"
)
_CONTENT: Final = re.compile(
    r"\bmoderation\b|\bflagged\b|\bcontent[ _-]?(policy|filter\w*|management|exists risk)\b|\bsafety\b|\bguardrails?\b"
    r"|\b(usage|acceptable use) (guidelines|polic(y|ies))\b|\b(inappropriate|harmful|prohibited|unsafe|sensitive)\b"
    r"|\bhigh risk\b|\bviolat\w+|\bblocked (input|output|prompt|content)\b"
    r"|\b(input|prompt|content) (was |is )?blocked\b|\bjailbreak\b|\bcopyright\w*|敏感|不安全"
)
_CONTEXT: Final = re.compile(
    r"\b(maximum )?context (length|window|size)\b|\b(too many tokens|input token count)\b"
    r"|\b(prompt|input|request|conversation|messages?) (is|are) too (long|large)\b"
    r"|\b(maximum|exceeds?)\b.{0,60}\b(number of )?(input )?tokens\b"
)
_SIZE: Final = re.compile(r"\b(payload|body|entity|request|image|file) (is )?too large\b|\btoo large for\b")
_CANNOT: Final = re.compile(
    r"\bno endpoints? found\b|\bnot support(ed)?\b|\bunsupported\b|\bunknown (field|parameter|argument)\b"
    r"|\b(extra inputs?|unrecognized)\b|\b(file|image|response|conversation|vector store)\b.{0,80}\bnot (found|exist)\b"
    r"|\bno such (file|image|object|response)\b"
)
_TOO_DEAR: Final = re.compile(r"\bcan only afford\b|\bfewer max_tokens\b")
#: What a message about the key or the account begins with where the status blames the request. Only the beginning
#: counts: what follows may quote the request, whose author must not be able to take a provider away.
_OURS_AT_400: Final = (
    (re.compile(r"(incorrect|invalid) api key|api key (not valid|not found|expired)|your api key "), Cause.KEY),
    (re.compile(r"(this|your) (organi[sz]ation|account|project) (has been|is) (disabled|suspended)"), Cause.KEY),
    (re.compile(r"user location is not supported"), Cause.KEY),
    (re.compile(r"your credit balance is too low|you have reached your specified api usage limits"), Cause.FUNDS),
    (re.compile(r"billing hard limit has been reached|access denied, please make sure your account is"), Cause.FUNDS),
)


def cause_of(status: int, words: ErrorWords) -> Cause:
    """Return what an answer with this status is about."""
    if status >= 500 or status in _AWAY or 300 <= status < 400:
        return Cause.AWAY if status in _AWAY else Cause.FAULT
    code = _known(words)
    message = words.message.lower()
    if status in (402, 412):
        return _of_funds(status, code, message)
    if status == 429:
        spent = code is Cause.FUNDS or _FUNDS.search(message.partition(", please")[0])
        return Cause.FUNDS if spent else Cause.LIMIT
    if status in _OF_REQUEST:
        return _of_request(status, code, message)
    if status == 401:
        # "Insufficient balance" is a 401 at some.
        return Cause.FUNDS if code is Cause.FUNDS else Cause.KEY
    return _of_words(status, code, message)


def _of_funds(status: int, code: Cause | None, message: str) -> Cause:
    if status == 412:
        return (
            Cause.FUNDS if code is Cause.FUNDS or _FUNDS.search(message) or _CLOSED.search(message) else Cause.UNCLEAR
        )
    return Cause.TOO_DEAR if _TOO_DEAR.search(message) else Cause.FUNDS


def _of_request(status: int, code: Cause | None, message: str) -> Cause:
    if code is not None and code is not Cause.MODEL:
        return code
    ours = next((cause for beginning, cause in _OURS_AT_400 if beginning.match(message)), None)
    if ours is not None:
        return ours
    if status == 413:
        return Cause.SIZE
    if _CONTEXT.search(message):
        return Cause.CONTEXT
    return Cause.CONTENT if _CONTENT.search(message) else Cause.REQUEST


def _of_words(status: int, code: Cause | None, message: str) -> Cause:
    """403, 404, 451 and whatever else blames the client."""
    if code is not None:
        return code
    if status == 451:
        return Cause.CONTENT
    # The order matters: an account that was closed for violating a policy is no matter of content, a flagged prompt
    # about keys is none of the key, and a model that a key may not use says nothing of its other models.
    kinds = (
        (_FUNDS, Cause.FUNDS),
        (_CLOSED, Cause.KEY),
        (_CONTEXT, Cause.CONTEXT),
        (_SIZE, Cause.SIZE),
        (_CONTENT, Cause.CONTENT),
        (_MODEL, Cause.MODEL),
        (_KEY, Cause.KEY),
        (_CANNOT, Cause.REQUEST),
    )
    found = next((cause for pattern, cause in kinds if pattern.search(message)), Cause.UNCLEAR)
    # A path or an object that is not there says nothing of the key.
    return Cause.UNCLEAR if status == 404 and found is Cause.KEY else found


def _known(words: ErrorWords) -> Cause | None:
    for name in (words.code, words.type):
        cause = _CODES.get(_SEPARATORS.sub("", name.lower()))
        if cause is not None:
            return cause
    return None


def error_words(body: bytes) -> ErrorWords:
    """Parse `{"error": {"message": ...}}`, or the inner object alone, as older engines write it.

    Gemini puts the whole into a list, xAI has the message in `error` and the code beside it, Mistral and FastAPI have a
    list of problems in `detail`.
    """
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return ErrorWords()
    if isinstance(value, list) and value:
        value = value[0]
    outer = value if isinstance(value, dict) else {}
    if isinstance(outer.get("error"), dict | str):
        value = outer["error"]
    if isinstance(value, str):
        return ErrorWords(value, code=_text(outer.get("code")))
    if not isinstance(value, dict):
        return ErrorWords()
    code, inner = value.get("code"), value.get("innererror")
    if isinstance(inner, dict) and isinstance(inner.get("code"), str):
        code = inner["code"]
    if not isinstance(code, str):
        code = value.get("status") if isinstance(value.get("status"), str) else code
    stated = next((value[name] for name in ("code", "status", "status_code") if isinstance(value.get(name), int)), 0)
    param = value.get("param")
    return ErrorWords(
        message=_message(value.get("message") or value.get("detail")),
        param=param if isinstance(param, str) else None,
        code=_text(code),
        type=_text(value.get("type")),
        status=stated if 400 <= stated < 600 else 0,
    )


def _message(value: object) -> str:
    """Return a message as text; of a list of problems the first one, with its place."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        first = value[0]
        place = first.get("loc")
        where = ".".join(map(str, place)) if isinstance(place, list) else ""
        return ": ".join(filter(None, (where, _text(first.get("msg")))))
    return _text(value)


def _text(value: object) -> str:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
