"""Whether what stands in a table's cell is what its column is said to have."""

import re
from typing import Final

from safety.pii.column_names import Form
from safety.pii.columns import Column, is_column_name
from safety.pii.password_words import EVERY_WORD
from safety.pii.telling import QUIET

_DATE: Final = (
    r"(?:19|20)\d\d[.\-/ ]?(?:0?[1-9]|1[0-2])[.\-/ ]?(?:0?[1-9]|[12]\d|3[01])(?:[T ].*)?"
    r"|(?:0?[1-9]|[12]\d|3[01])[.\-/ ](?:0?[1-9]|[12]\d|3[01])[.\-/ ](?:19|20)?\d\d(?: .*)?"
    r"|(?:19|20)\d\d[.\-/–](?:0?[1-9]|1[0-2]|(?:19|20)\d\d)|(?:0?[1-9]|1[0-2])[.\-/](?:19|20)\d\d"
)
#: A date, a period, a number with a fraction.
_AMOUNT: Final = re.compile(rf"(?:{_DATE}|\d+[.,]\d{{1,2}}|\d{{1,3}}\.\d+)$")
_SHOWN_IN_PART: Final = re.compile(r"\.\.\.|…|\*\*|••|[xX]{4}|##")
#: Types, names of methods, sizes, versions, places.
_TECHNICAL: Final = re.compile(
    r"[A-Za-z ]+\(\s?\d+(?:, ?\d+)?\)$|[(\[<{].*[)\]>}]$|https?:|[a-z]+://|/|\d{1,3}(?:[.,]\d+)*[%a-zA-Z]{0,6}\+?$|[$€£¥]|"
    r"(?i:1password|(?:sha-?\d|md\d|pbkdf|argon2|[sb]crypt|saml|ldap|oauth|azuread|entra|kerberos)[\w\-]*$)|\d+(?:[.\-/:x]\d+)+$|v?\d+(?:\.\d+)+|[^@\s]+@[\w\-]+(?:\.[\w\-]+)+$"
)
#: The same, where nothing tells of accounts: any word with a number at its end.
_WORD_AND_NUMBER: Final = re.compile(
    r"(?:[^\W\d_]+|\d{1,4})(?:[-_./+]?(?:[^\W\d_]+|\d{1,4}))?(?:[-_./+](?:[^\W\d_]+|\d{1,4}))*$"
)
_LETTERS: Final = re.compile(r"[^\W\d_]+(?:[\-_./+&][^\W\d_]+)*$")
#: Single words that tell of passwords, or that there is none.
_SAID: Final = frozenset(
    (
        "absent", "allowed", "always", "anonymous", "available", "bcrypt", "bearer", "bitwarden", "blocked",
        "changed", "cleartext", "common", "complex", "confidential", "configured", "correct", "custom", "dashlane",
        "deleted", "denied", "digits", "disabled", "enabled", "encrypted", "enforced", "erforderlich", "expires",
        "external", "facoltativo", "facultatif", "failed", "forbidden", "forgotten", "hashed", "internal", "keepass",
        "keines", "kerberos", "keychain", "lastpass", "letters", "locked", "managed", "mandatory", "manual",
        "manually", "matches", "medium", "monthly", "needed", "nenhuma", "nessuna", "ninguna", "ninguno", "nopass",
        "nopassword", "numeric", "obbligatorio", "obligatoire", "obligatorio", "obligatorisk", "opcional",
        "opcjonalne", "optional", "partial", "pending", "permitted", "pflicht", "plaintext", "present", "private",
        "protected", "provided", "public", "random", "rejected", "removed", "requerido", "requis", "requise",
        "required", "requires", "restricted", "revoked", "rotated", "sealed", "secure", "secured", "separate", "shared",
        "simple",
        "sometimes", "standard", "stored", "string", "strong", "success", "supported", "unchanged", "uncommon",
        "unique", "unlimited", "unlocked", "unsupported", "username", "varies", "various", "verified", "verplicht",
        "visible", "vorhanden", "weekly", "without", "wymagane", "yearly",
    )
)  # fmt: skip
_SIGNS_AFTER: Final = "*?!.,:;†"
#: Taxes in the Union.
_OF_A_COMPANY: Final = re.compile(r"[A-Z]{2}U?\d{8,12}$")
_NUMBER: Final = re.compile(r"(?=(?:\D*\d){4})[^\W_]+(?:[ .\-/]{1,3}[^\W_]+)*$")
_WORD: Final = re.compile(r"[^\W\d_]{6}")
_PHONE: Final = re.compile(r"(?=(?:\D*\d){6,16}\D*$)[+(\d][\d ()./\-\u00a0\u2010-\u2014]*\d$")
_DIGITS: Final = re.compile(r"\d+$")
_CODE: Final = re.compile(r"[*#]?(?=(?:\D*\d){3})[A-Za-z0-9\-]{4,12}[*#]?$")
#: As Google makes them.
_APP_PASSWORD: Final = re.compile(r"[a-z]{4}(?: [a-z]{4}){3}$")
#: Fewer digits without any sign may be a count: where there are persons, and elsewhere.
_FEWEST, _FEWEST_ALONE = 7, 9
#: Nothing that counts is shorter.
SHORTEST: Final = 4
_SHORTEST_WORD, _SHORTEST_KEY = 6, 8
_SHORTEST_NUMBER, _LONGEST_NUMBER = 5, 24


def counts(value: str, column: Column) -> bool:
    """Whether a cell's value, without blanks and quotes around it, is what the column is said to have."""
    if len(value) < SHORTEST:
        return False
    if _AMOUNT.match(value) and not (column.form is Form.PHONE and column.supported and value[0] in "0+"):
        return column.form is Form.CODE and len(value) in (4, 6, 8) and value.isdigit()
    match column.form:
        case Form.PASSWORD:
            return _is_password(value, column.supported)
        case Form.CODE:
            return _CODE.match(value) is not None
        case Form.KEY:
            return _is_key(value)
        case Form.NUMBER:
            return _is_number(value)
        case Form.PHONE:
            return _is_phone(value, column.supported)


def _is_secret(value: str) -> bool:
    return not (
        any(map(str.isspace, value))
        or QUIET.match(value)
        or _SHOWN_IN_PART.search(value)
        or _TECHNICAL.match(value)
        or len(set(value)) == 1
    )


def _is_password(value: str, accounts: bool) -> bool:
    if accounts and (_APP_PASSWORD.match(value) or _DIGITS.match(value)):
        return True
    if not _is_secret(value):
        return False
    word = value.rstrip(_SIGNS_AFTER)
    if not _LETTERS.match(word):
        return accounts or (len(value) >= _SHORTEST_WORD and not _WORD_AND_NUMBER.match(word))
    spelled = word.isascii() and (word.isalpha() or word.count("-") > 1)
    if not (accounts and spelled and len(word) >= _SHORTEST_WORD):
        return False
    word = word.lower()
    return word not in _SAID and not word.endswith(EVERY_WORD) and not is_column_name(value)


def _is_key(value: str) -> bool:
    if len(value) < _SHORTEST_KEY or not _is_secret(value) or _WORD_AND_NUMBER.match(value):
        return False
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _is_number(value: str) -> bool:
    if _OF_A_COMPANY.match(value):
        return False
    if not _SHORTEST_NUMBER <= len(value) <= _LONGEST_NUMBER or _NUMBER.match(value) is None:
        return False
    return _WORD.search(value) is None


def _is_phone(value: str, persons: bool) -> bool:
    if _PHONE.match(value) is None:
        return False
    fewest = _FEWEST if persons else _FEWEST_ALONE
    return value[0] in "+(0" or not value.isdigit() or len(value) >= fewest
