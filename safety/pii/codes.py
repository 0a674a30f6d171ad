"""Identity codes and account numbers that have letters, and IP addresses."""

import ipaddress
import re
from collections.abc import Callable
from typing import Final, NamedTuple

import re2

from safety.pii import checks, payment
from safety.pii.context import REACH, WORDS, named_otherwise, near

_END: Final = r"(?![A-Za-z0-9_])"
_SEPARATORS: Final = str.maketrans("", "", " -.()\u00a0")


class _Form(NamedTuple):
    """A kind's form; `named`: only after a word that speaks of it."""

    kind: str
    pattern: re.Pattern[str]
    check: Callable[[str], bool]
    named: bool = False


def _always(text: str) -> bool:
    return bool(text)


#: What only a word tells from part numbers, wherever its figures are: passports as the Netherlands, Germany, France and
#: Spain have them, and identity cards.
_NAMED: Final = (
    _Form(
        "passport",
        re.compile(
            r"(?:[A-NP-Z]{2}(?=[A-Z]*[0-9])[A-NP-Z0-9]{6}[0-9]|"
            r"[CFGHJK](?=[A-Z]*[0-9])[CFGHJKLMNPRTVWXYZ0-9]{8}[0-9]?|[0-9]{2}[A-Z]{2}[0-9]{5}|[A-Z]{3}[0-9]{6}|"
            r"[A-Z][0-9]{7}[A-Z])" + _END
        ),
        _always,
        True,
    ),
    _Form(
        "de_id_card",
        re.compile(r"[LMNPRTVWXY](?=[A-Z]*[0-9])[CFGHJKLMNPRTVWXYZ0-9]{8}[0-9]?" + _END),
        checks.de_id_card,
        True,
    ),
    _Form("pl_id_card", re.compile(r"[A-Z]{3}[0-9]{6}" + _END), _always, True),
    _Form("nz_nhi", re.compile(r"[A-HJ-NP-Z]{3}(?:[0-9]{4}|[0-9]{2}[A-HJ-NP-Z]{2})" + _END), _always, True),
)
#: What every text has in which there is one of these.
NAMED_ROUGH: Final = rf"(?i:{'|'.join(dict.fromkeys(WORDS[form.kind] for form in _NAMED))})(?s:.)*?[0-9]"
#: Forms that begin with a digit.
_DIGITS_FIRST: Final = (
    _Form(
        "us_mbi",
        re.compile(r"[1-9][AC-HJKMNP-RT-Y][AC-HJKMNP-RT-Y0-9][0-9]-[AC-HJKMNP-RT-Y][AC-HJKMNP-RT-Y0-9][0-9]-"
                   r"[AC-HJKMNP-RT-Y]{2}[0-9]{2}" + _END),
        _always,
    ),
    _Form("es_dni", re.compile(r"[0-9]{8}[ -]?[A-HJ-NP-TV-Z]" + _END), checks.es_dni),
    _Form("es_dni", re.compile(r"[0-9][0-9]\.[0-9]{3}\.[0-9]{3}[ -]?[A-HJ-NP-TV-Z]" + _END), checks.es_dni),
    _Form(
        "fi_hetu",
        re.compile(r"[0-9]{6}[-+A-FU-Y][0-9]{3}[0-9A-FHJ-NPR-Ya-fhj-npr-y]" + _END),
        checks.fi_hetu,
    ),
    _Form(
        "es_dni",
        re.compile(r"[0-9]{2}[. ]?[0-9]{3}[. ]?[0-9]{3}[ -]?[A-Z]" + _END, re.IGNORECASE),
        lambda text: checks.es_dni(text.upper()),
        True,
    ),
    _Form(
        "de_rvnr", re.compile(r"[0-9]{2} ?[0-9]{6} ?[A-Za-z] ?[0-9]{3}" + _END), checks.de_rvnr, True
    ),
    _Form("ie_pps", re.compile(r"[0-9]{7}[A-W][A-IW]?" + _END), checks.ie_pps, True),
    _Form("cn_resident_id", re.compile(r"[0-9]{6} ?[0-9]{8} ?[0-9]{3} ?[Xx]" + _END), checks.cn_resident_id),
    _Form("cl_rut", re.compile(r"[0-9]{1,2}\.?[0-9]{3}\.?[0-9]{3}-[Kk]" + _END), checks.cl_rut),
    _Form(
        "fr_nir",
        re.compile(r"[12] ?[0-9][0-9] ?(?:0[0-9]|1[0-2]) ?2[AB] ?[0-9]{3} ?[0-9]{3} ?[0-9][0-9]" + _END),
        checks.fr_nir,
    ),
)  # fmt: skip

#: Forms that begin with a letter.
_LETTER_FIRST: Final = (
    _Form(
        "uk_nino",
        re.compile(
            r"(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]"
            r"(?:[ -]?[0-9][0-9][ -]?[0-9][0-9][ -]?[0-9][0-9][ -]?[A-D]|[ -]?[0-9]{6}[ -]?[A-D])" + _END
        ),
        _always,
    ),
    _Form(
        "uk_driving_licence",
        re.compile(r"[A-Z]{2}[A-Z9]{3}[0-9][0156][0-9][0-3][0-9]{2}[A-Z][A-Z9][0-9A-Z][A-Z]{2}" + _END),
        checks.uk_driving_licence,
    ),
    _Form(
        "uk_nino",
        re.compile(r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z][0-9]{6}[A-D]" + _END, re.IGNORECASE),
        _always,
        True,
    ),
    _Form("es_nie", re.compile(r"[XYZ][ -]?[0-9]{7}[ -]?[A-HJ-NP-TV-Z]" + _END), checks.es_dni),
    _Form(
        "it_codice_fiscale",
        re.compile(r"[A-Z]{6}[0-9][0-9][A-EHLMPR-T][0-9][0-9][A-Z][0-9]{3}[A-Z]" + _END, re.IGNORECASE),
        checks.it_codice_fiscale,
    ),
    _Form("mx_curp", re.compile(r"[A-Z][AEIOUX][A-Z]{2}[0-9]{6}[HMX][A-Z]{5}[A-Z0-9][0-9]" + _END), checks.mx_curp),
    _Form("mx_rfc", re.compile(r"[A-ZÑ&]{4}[0-9]{6}[A-Z0-9]{2}[0-9A]" + _END), checks.mx_rfc, True),
    _Form("in_pan", re.compile(r"[A-Z]{3}[ABCFGHJLPT][A-Z][0-9]{4}[A-Z]" + _END), _always),
    _Form("sg_nric", re.compile(r"[STFGM][0-9]{7}[A-Z]" + _END), checks.sg_nric),
    _Form("hk_hkid", re.compile(r"[A-Z]{1,2}[0-9]{6}\([0-9A]\)"), checks.hk_hkid),
    _Form("hk_hkid", re.compile(r"[A-Z]{1,2}[0-9]{6}[0-9A]" + _END), checks.hk_hkid, True),
    _Form("passport", re.compile(r"[A-Z]{1,2}[0-9]{6,8}" + _END), _always, True),
    *_NAMED,
    _Form("tw_national_id", re.compile(r"[A-Z][1289][0-9]{8}" + _END), checks.tw_national_id, True),
)

_IBAN: Final = re.compile(r"([A-Za-z]{2}) ?[0-9][0-9][ .\-\u00a0]?[A-Za-z0-9]")
_IBANS: Final = {
    country: re.compile(rf"[A-Za-z]{{2}} ?[0-9][0-9](?:[ .\-\u00a0]?[A-Za-z0-9]){{{length - 4}}}" + _END)
    for country, length in payment.IBAN_LENGTHS.items()
}

_V6: Final = re.compile(r"(?:[0-9A-Fa-f]{0,4}:){2,7}(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9A-Fa-f]{1,4}|(?<=::))")
#: The same, without brackets before a port that is no group of digits of its own.
_V6_AND_PORT: Final = re.compile(rf"(?:{_V6.pattern})(?=:[0-9]{{5}}(?![0-9A-Fa-f:]))")
_VERSION: Final = re2.compile(
    r"(?i)(?:(?:\bv|\bver|version|versión|versione|release|build|firmware|driver|chrome|firefox|safari|opr|edg|mozilla|"
    r"section|chapter|clause|see|siehe|vgl|§|figure|fig|oid|upgrad(?:e[sd]?|ing)|updat(?:e[sd]?|ing)|"
    r"downgrad(?:e[sd]?|ing)|migrated?|python|"
    r"windows|kernel|fw|(?:fix|patch|resolv)ed in|(?:upgrade|update|migration) path|bump(?:s|ed)?|верси[яиюей]{1,2}|"
    r"версі[яїюєй]{1,2}|прошивк\w{1,2}|vers[ãa]o|vers[õo]es|"
    r"wersj[aięe]|"
    r"verz[eií]|verzi[aóuje]{1,2}|versiun\w{1,2}|versi|έκδοση|sürüm\w{0,3}|phiên bản|utgave|oppdater\w+|إصدار|"
    r"الإصدار|نسخه|"
    r"גרסה|גרסת|เวอร์ชัน|เวอร์ชั่น|เฟิร์มแวร์|संस्करण|फर्मवेयर|버전|펌웨어|固件|韌體|ファームウェア|ファーム|"
    r"release notes|patch|tag|rev|revision|assembly|appendix|table|step|paragraph|article|spec|"
    r"releases|versions|版本|バージョン)"
    r"(?: [a-z][\w.\-]{0,20} (?:to|from))?(?:\s+(?:is|number|no|to|from|of))?"
    r"[ .:=\"'\-_(/v]*|[A-Za-z]/|==|>=|<=|~=|\^|~)$"
)


def code_at(text: str, position: int, view: str) -> tuple[str, int] | None:
    """The kind and end of a code that a view begins with. `view` is what may be looked at from the position."""
    for form in _DIGITS_FIRST if view[0].isdigit() else _LETTER_FIRST:
        found = form.pattern.match(view)
        if (
            found is not None
            and form.check(found.group().translate(_SEPARATORS) if form.kind not in _KEEP else found.group())
            and (not form.named or _is_named(form.kind, text, position))
            and not (form.kind == "us_mbi" and named_otherwise(text, position))
        ):
            return form.kind, found.end()
    if (end := _iban(view)) is not None:
        return "iban", end
    return None


def _is_named(kind: str, text: str, position: int) -> bool:
    return near(kind, text, position) and not named_otherwise(text, position)


def named_code_at(text: str, position: int, view: str) -> tuple[str, int] | None:
    """The kind and end of a code that only a word to the left makes one, whatever it begins with."""
    for form in _NAMED:
        found = form.pattern.match(view)
        if found is not None and form.check(found.group()) and _is_named(form.kind, text, position):
            return form.kind, found.end()
    return None


_KEEP: Final = ("fi_hetu",)


def _iban(view: str) -> int | None:
    start = _IBAN.match(view)
    if start is None:
        return None
    country = _IBANS.get(start[1].upper())
    if country is None or (found := country.match(view)) is None:
        return None
    account = found.group().translate(_SEPARATORS)
    if not (account.isupper() or (account.islower() and _IN_FOURS.match(found.group()))):
        return None
    return found.end() if payment.iban(account) else None


#: Written at once or in groups of four, as words are not.
_IN_FOURS: Final = re.compile(r"[a-z]{2}[0-9]{2}(?:[a-z0-9]*|(?: [a-z0-9]{4})* [a-z0-9]{1,4})$")


def address_at(text: str, position: int, view: str) -> int | None:
    """The end of an IP address of somebody that a view begins with."""
    found = _V4_WHOLE.match(view)
    if found is not None:
        if view.startswith(_NOBODY) or _is_version(text, position) or _is_section(text, position, found.group()):
            return None
        return found.end()
    found = _V6_AND_PORT.match(view)
    if found is None:
        found = _V6.match(view)
        if found is None or view[found.end() : found.end() + 1].isalnum() or view[found.end() : found.end() + 1] == ":":
            return None
    groups = [group for group in found.group().split(":") if group]
    if len(groups) < 2 or (len(groups) < 4 and not _WELL_KNOWN.match(view)):
        return None
    try:
        address = ipaddress.IPv6Address(found.group())
    except ValueError:
        return None
    return None if address.is_loopback or address.is_unspecified else found.end()


_NOBODY: Final = ("127.", "0.", "255.255.", "255.0.0.")
_WELL_KNOWN: Final = re.compile(
    r"(?:[23][0-9a-f]{3}|fe[89ab][0-9a-f]|f[cd][0-9a-f]{2}|ff0|64:ff9b|::ffff):", re.IGNORECASE
)
_OCTET: Final = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_V4_WHOLE: Final = re.compile(
    rf"{_OCTET}(?:\.{_OCTET}){{3}}(?![0-9A-Za-z_]|\.[0-9]|\.[a-z]|"
    rf"-(?!{_OCTET}(?:\.{_OCTET}){{3}}(?![0-9A-Za-z_.]))[a-z0-9]+\.)"
)


#: What speaks of addresses.
_OF_ADDRESSES: Final = re2.compile(
    r"(?i)\bip|host|server|addr|dns|ping|gateway|router|subnet|network|client|remote|login|ssh|port|connect|proxy|node|"
    r"firewall|\bfrom\b|peer|listen|bind|http|://|@|\bA\b|[=:\[]$|адрес|сервер|хост|地址|服务器|サーバ|주소"
)


def _is_section(text: str, position: int, number: str) -> bool:
    """Whether four small numbers are rather a place in a document: nothing to their left speaks of addresses."""
    octets = {int(each) for each in number.split(".")}
    if max(octets) > _SECTIONS or len(octets) == 1 or number.startswith("10."):
        return False
    left = text[max(0, position - 40) : position]
    return _OF_ADDRESSES.search(left.encode("utf-8", "surrogatepass")) is None


#: So many chapters or sections a document has at most.
_SECTIONS: Final = 20


#: What has versions, and a few words more.
_VERSIONED: Final = re.compile(
    r"(?<![^\W\d_])(?:firmware|fw|build|versión|versione?|vers[ãa]o|wersj|verz|sürüm|прошивк|верс[иі]|펌웨어|버전|"
    r"固件|版本|"
    r"バージョン|ファームウェア)[^\W\d_]{0,3}(?:[?,]? [^\W\d_]+){0,6}[ :=\"'(]*$",
    re.IGNORECASE,
)


#: Versions in a row, which one word stands before.
_CHAIN: Final = re.compile(
    r"(?<![^\s(])(?:v?[0-9]+(?:\.[0-9]+)+(?:,| (?:to|->|→|and|or|oder|und|ou|et|of|en|eller|och|og)) )+\Z"
)


def _is_version(text: str, position: int) -> bool:
    left = _CHAIN.sub("", text[max(0, position - REACH) : position])[-40:]
    encoded = left.encode("utf-8", "surrogatepass")
    if _VERSION.search(encoded) is not None:
        return True
    return _VERSIONED.search(left) is not None and _OF_ADDRESSES.search(encoded) is None
