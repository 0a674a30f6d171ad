"""Checksums and validity rules for candidates, by the names that the pattern tables use.

All take the candidate without separators, letters in upper case.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from typing import Final

Check = Callable[[str], bool]


def _varied(text: str) -> bool:
    return text.count(text[0]) < len(text)


def _sum(digits: str, *weights: int) -> int:
    """The weighted sum of as many leading digits as there are weights."""
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=False))


def _date(day: str, month: str) -> bool:
    return "01" <= month <= "12" and "01" <= day <= "31"


def _less(number: str, offset: int) -> str:
    """Remove the offset that encodes sex or century in a day or month."""
    return f"{int(number) - offset:02}" if int(number) > offset else number


_DOUBLED: Final = str.maketrans("0123456789", "0246813579")


def luhn(digits: str) -> bool:
    """Check Luhn's checksum (ISO/IEC 7812-1)."""
    return (sum(map(int, digits[-1::-2])) + sum(map(int, digits[-2::-2].translate(_DOUBLED)))) % 10 == 0 and _varied(
        digits
    )


#: Card issuers: the first digits and the lengths of their numbers.
_ISSUERS: Final = (
    (re.compile(r"4"), (13, 16, 19)),  # Visa
    (
        re.compile(r"5[1-5]|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720)|220[0-4]|35(?:2[89]|[3-8])"),
        (16,),
    ),  # Mastercard, Mir, JCB
    (re.compile(r"3[47]|1800|2131"), (15,)),  # American Express, JCB
    (re.compile(r"3(?:0[0-5]|[689])"), (14, 16)),  # Diners Club
    (re.compile(r"6(?:011|4[4-9]|5)"), (16, 19)),  # Discover, RuPay
    (re.compile(r"62|81"), (16, 17, 18, 19)),  # UnionPay
    (re.compile(r"5[06-9]|6"), (16, 18, 19)),  # Maestro, Elo
    (re.compile(r"9792|8600|9860"), (16,)),  # Troy, Uzcard, Humo
)


def credit_card(digits: str) -> bool:
    """Check a card number: a known issuer's first digits and length, and Luhn's check digit."""
    lengths = next((lengths for prefix, lengths in _ISSUERS if prefix.match(digits)), ())
    return len(digits) in lengths and luhn(digits)


#: The lengths of IBANs by country, from SWIFT's registry.
IBAN_LENGTHS: Final = {
    country: length
    for length, countries in {
        15: "NO", 16: "BE", 18: "DK FI FK FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK", 21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL", 24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
        29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
    }.items()
    for country in countries.split()
}  # fmt: skip


def iban(text: str) -> bool:
    """Check an IBAN: the country's length, and ISO 7064 modulo 97, 10."""
    account = text.upper()
    return IBAN_LENGTHS.get(account[:2]) == len(account) and (
        int("".join(str(int(c, 36)) for c in account[4:] + account[:4])) % 97 == 1
    )


def _mod_11_10(digits: str) -> bool:
    """ISO 7064 modulo 11, 10."""
    product = 10
    for digit in digits[:-1]:
        product = ((int(digit) + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10 == int(digits[-1])


_MULTIPLIED: Final = (
    "0123456789", "1234067895", "2340178956", "3401289567", "4012395678",
    "5987604321", "6598710432", "7659821043", "8765932104", "9876543210",
)  # fmt: skip
_PERMUTED: Final = (
    "0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415", "7046913258",
)  # fmt: skip


def verhoeff(digits: str) -> bool:
    """Check Verhoeff's checksum over the dihedral group, for numbers that begin with 2 to 9 (Aadhaar)."""
    check = 0
    for place, digit in enumerate(reversed(digits)):
        check = int(_MULTIPLIED[check][int(_PERMUTED[place % 8][int(digit)])])
    return check == 0 and digits[0] in "23456789" and _varied(digits)


def _below_two(total: int, instead: int | None = None) -> int:
    """The check digit modulo 11: 11 minus the remainder, but `instead` (or the remainder itself) for 0 and 1."""
    rest = total % 11
    return 11 - rest if rest >= 2 else rest if instead is None else instead


def _us_itin(d: str) -> bool:
    group = int(d[3:5])
    groups = 50 <= group <= 65 or 70 <= group <= 88 or 90 <= group <= 92 or 94 <= group <= 99
    return d[0] == "9" and _varied(d) and groups


def _fr_nir(d: str) -> bool:
    """Sex, month, and of 15 digits the key modulo 97. Corsica's 2A and 2B count as 19 and 18."""
    d = d[:5] + {"2A": "19", "2B": "18"}.get(d[5:7], d[5:7]) + d[7:]
    months = "01" <= d[3:5] <= "12" or "20" <= d[3:5] <= "42" or "50" <= d[3:5] <= "99"
    return d[0] in "123478" and months and (len(d) == 13 or 97 - int(d[:13]) % 97 == int(d[13:]))


def _de_rvnr(text: str) -> bool:
    """Deutsche Rentenversicherung: the letter counts as its place in the alphabet; cross sums of the products."""
    digits = f"{text[:8]}{ord(text[8]) - 64:02d}{text[9:11]}"
    sums = (int(d) * weight for d, weight in zip(digits, (2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1), strict=True))
    return text[4:6] <= "12" and sum(each // 10 + each % 10 for each in sums) % 10 == int(text[11])


def _ie_pps(text: str) -> bool:
    """Modulo 23; a second letter has weight 9, or 0 in older numbers."""
    total, letters = _sum(text, 8, 7, 6, 5, 4, 3, 2), "WABCDEFGHIJKLMNOPQRSTUV"
    second = 9 * (ord(text[8]) - 64) if len(text) == 9 else 0
    return text[7] in (letters[total % 23], letters[(total + second) % 23])


def _baltic(d: str) -> bool:
    check = _sum(d, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1) % 11
    if check == 10:
        check = _sum(d, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3) % 11 % 10
    return d[0] in "12345678" and _date(d[5:7], d[3:5]) and check == int(d[10])


def _kz_iin(d: str) -> bool:
    check = _sum(d, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11) % 11
    if check == 10:
        check = _sum(d, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1, 2) % 11
    return _date(d[4:6], d[2:4]) and d[6] in "0123456" and check == int(d[11])


def _sg_nric(text: str) -> bool:
    total = _sum(text[1:], 2, 7, 6, 5, 4, 3, 2)
    if text[0] == "M":
        return "KLJNPQRTUWX"[10 - (total + 3) % 11] == text[8]
    letters = "JZIHGFEDCBA" if text[0] in "ST" else "XWUTRQPNMLK"
    return letters[(total + 4 * (text[0] in "TG")) % 11] == text[8]


def _hk_hkid(text: str) -> bool:
    letters, digits = text[:-7], text[-7:-1]
    values = [36] * (2 - len(letters)) + [ord(letter) - 55 for letter in letters]
    return "0123456789A"[-(values[0] * 9 + values[1] * 8 + _sum(digits, 7, 6, 5, 4, 3, 2)) % 11] == text[-1]


def _tw_national_id(text: str) -> bool:
    value = "ABCDEFGHJKLMNPQRSTUVXYWZIO".index(text[0]) + 10
    return (value // 10 + value % 10 * 9 + _sum(text[1:], 8, 7, 6, 5, 4, 3, 2, 1, 1)) % 10 == 0


_ODD: Final = dict(
    zip(
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        (1, 0, 5, 7, 9, 13, 15, 17, 19, 21) * 2 + (2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23),
        strict=True,
    )
)


def _it_codice_fiscale(text: str) -> bool:
    even = sum(int(c) if c.isdigit() else ord(c) - 65 for c in text[1:15:2])
    return chr(65 + (even + sum(_ODD[c] for c in text[0:15:2])) % 26) == text[15]


def _mx_curp(text: str) -> bool:
    letters = "0123456789ABCDEFGHIJKLMNÑOPQRSTUVWXYZ"
    total = sum(letters.index(c) * (18 - place) for place, c in enumerate(text[:17]))
    return _date(text[8:10], text[6:8]) and str(-total % 10) == text[17]


def _cn_resident_id(text: str) -> bool:
    total = _sum(text, 7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    known = "11" <= text[:2] <= "82" and text[6:8] in ("18", "19", "20") and _date(text[12:14], text[10:12])
    return known and "10X98765432"[total % 11] == text[17]


def _basic(text: str) -> bool:
    """Base64 of a user and a password (RFC 7617)."""
    try:
        return b":" in base64.b64decode(text[: len(text) // 4 * 4])
    except (binascii.Error, ValueError):
        return False


_WORDED: Final = re.compile(r"[A-Za-z]+(?:[.\-_]+(?:[A-Z]?[a-z]+|[0-9]{1,4})(?![A-Za-z0-9])){3,}")


def _token(text: str) -> bool:
    """Random characters: many different ones, and no words between hyphens."""
    return len(set(text[3:])) >= 8 and not text[3:].isalpha() and not _WORDED.match(text)


def _ipv6(text: str) -> bool:
    groups = [group for group in text.split(":") if group]
    if len(groups) < 2 or (len(groups) < 4 and not _WELL_KNOWN.match(text)):
        return False
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified)


_WELL_KNOWN: Final = re.compile(
    r"(?:[23][0-9a-f]{3}|fe[89ab][0-9a-f]|f[cd][0-9a-f]{2}|ff0|64:ff9b|::ffff):", re.IGNORECASE
)

CHECKS: Final[dict[str, Check]] = {
    "-": bool,
    "varied": _varied,
    "luhn": luhn,
    "verhoeff": verhoeff,
    "credit_card": credit_card,
    "iban": iban,
    "random": lambda text: len(set(text)) >= 10,
    "token": _token,
    "basic": _basic,
    "jwt": lambda text: "." in text or len(text) >= 64,
    "ipv4": lambda text: not text.startswith(("127.", "0.", "255.255.", "255.0.0.")),
    "ipv6": _ipv6,
    "mac": lambda text: _varied(re.sub("[:.-]", "", text)) and text.lower() != "01:23:45:67:89:ab",
    "us_ssn": lambda d: d[:3] not in ("000", "666") and d[0] != "9" and d[3:5] != "00" and d[5:] != "0000"
    and _varied(d),
    "us_itin": _us_itin,
    "uk_nhs": lambda d: (11 - _sum(d, 10, 9, 8, 7, 6, 5, 4, 3, 2) % 11) % 11 == int(d[9]),
    "uk_driving_licence": lambda code: _date(code[8:10], f"{int(code[6:8]) % 50:02}"),
    "ca_sin": lambda d: d[0] != "8" and luhn(d),
    "de_tax_id": lambda d: d[0] != "0" and len(set(d[:10])) in (8, 9) and _mod_11_10(d),
    "de_rvnr": _de_rvnr,
    "de_id_card": lambda text: len(text) == 9
    or sum(int(c, 36) * (7, 3, 1)[place % 3] for place, c in enumerate(text[:9])) % 10 == int(text[9]),
    "fr_nir": _fr_nir,
    "es_dni": lambda text: text[-1]
    == "TRWAGMYFPDXBNJZSQVHLCKE"[int(text[:-1].translate({88: "0", 89: "1", 90: "2"})) % 23],
    "nl_bsn": lambda d: _sum(d, 9, 8, 7, 6, 5, 4, 3, 2, -1) % 11 == 0 and _varied(d),
    "be_nn": lambda d: d[2:4] <= "12" and d[4:6] <= "31"
    and int(d[9:]) in (97 - int(d[:9]) % 97, 97 - int("2" + d[:9]) % 97),
    "pl_pesel": lambda d: _date(d[4:6], f"{int(d[2:4]) % 20:02}")
    and _sum(d, 1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1) % 10 == 0,
    "se_personnummer": lambda d: _date(_less(d[-6:-4], 60), d[-8:-6]) and luhn(d[-10:]),
    "fi_hetu": lambda text: _date(text[:2], text[2:4])
    and "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(text[:6] + text[-4:-1]) % 31] == text[-1],
    "dk_cpr": lambda d: _date(d[:2], d[2:4]),
    "no_fodselsnummer": lambda d: _date(_less(d[:2], 40), f"{int(d[2:4]) % 40:02}")
    and _sum(d, 3, 7, 6, 1, 8, 9, 4, 5, 2, 1) % 11 == 0 and _sum(d, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1) % 11 == 0,
    "ch_ahv": lambda d: d[:3] == "756" and _sum(d, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1) % 10 == 0,
    "at_svnr": lambda d: d[0] != "0" and _sum(d, 3, 7, 9, 0, 5, 8, 4, 2, 1, 6) % 11 == int(d[3]),
    "pt_nif": lambda d: d[0] in "1235689" and -_sum(d, 9, 8, 7, 6, 5, 4, 3, 2) % 11 % 10 == int(d[8]),
    "ie_pps": _ie_pps,
    "cz_rodne_cislo": lambda d: _date(d[4:6], _less(_less(d[2:4], 50), 20)) and int(d) % 11 == 0,
    "ro_cnp": lambda d: d[0] != "0" and _date(d[5:7], d[3:5])
    and "01234567891"[_sum(d, 2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9) % 11] == d[12],
    "bg_egn": lambda d: _date(d[4:6], f"{int(d[2:4]) % 20:02}")
    and _sum(d, 2, 4, 8, 5, 10, 9, 7, 3, 6) % 11 % 10 == int(d[9]),
    "tr_tckn": lambda d: d[0] != "0" and sum(map(int, d[:10])) % 10 == int(d[10])
    and (sum(map(int, d[0:9:2])) * 7 - sum(map(int, d[1:8:2]))) % 10 == int(d[9]),
    "br_cpf": lambda d: _sum(d, 10, 9, 8, 7, 6, 5, 4, 3, 2) * 10 % 11 % 10 == int(d[9])
    and _sum(d, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2) * 10 % 11 % 10 == int(d[10]) and _varied(d),
    "ar_cuit": lambda d: d[:2] in ("20", "23", "24", "25", "26", "27")
    and _sum(d, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1) % 11 == 0,
    "cl_rut": lambda text: "0123456789K"[-_sum(text[-2::-1], 2, 3, 4, 5, 6, 7, 2, 3) % 11] == text[-1],
    "cn_resident_id": _cn_resident_id,
    "kr_rrn": lambda d: _date(d[4:6], d[2:4]) and d[6] in "12345678",
    "jp_my_number": lambda d: _below_two(_sum(d[10::-1], 2, 3, 4, 5, 6, 7, 2, 3, 4, 5, 6), 0) == int(d[11])
    and _varied(d),
    "au_tfn": lambda d: _sum(d, 1, 4, 3, 7, 5, 8, 6, 9, 10) % 11 == 0 and _varied(d),
    "za_id": lambda d: _date(d[4:6], d[2:4]) and d[10] in "012" and luhn(d),
    "sg_nric": _sg_nric,
    "hk_hkid": _hk_hkid,
    "tw_national_id": _tw_national_id,
    "it_codice_fiscale": _it_codice_fiscale,
    "mx_curp": _mx_curp,
    "mx_rfc": lambda text: _date(text[8:10], text[6:8]),
    "baltic": _baltic,
    "lv_personas_kods": lambda d: d[:2] == "32"
    or (_date(d[:2], d[2:4]) and (1 + _sum(d, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9)) % 11 % 10 == int(d[10])),
    "hr_oib": lambda d: _mod_11_10(d) and _varied(d),
    "jmbg": lambda d: _date(d[:2], d[2:4]) and -_sum(d, 7, 6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2) % 11 % 10 == int(d[12]),
    "hu_taj": lambda d: _sum(d, 3, 7, 3, 7, 3, 7, 3, 7) % 10 == int(d[8]) and _varied(d),
    "hu_tax_id": lambda d: d[0] == "8" and _sum(d, 1, 2, 3, 4, 5, 6, 7, 8, 9) % 11 == int(d[9]),
    "gr_amka": lambda d: _date(d[:2], d[2:4]) and luhn(d),
    "gr_afm": lambda d: _sum(d, 256, 128, 64, 32, 16, 8, 4, 2) % 11 % 10 == int(d[8]) and _varied(d),
    "is_kennitala": lambda d: _date(d[:2], d[2:4]) and d[9] in "089" and _sum(d, 3, 2, 7, 6, 5, 4, 3, 2, 1) % 11 == 0,
    "ru_inn": lambda d: _sum(d, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8) % 11 % 10 == int(d[10])
    and _sum(d, 3, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8) % 11 % 10 == int(d[11]) and _varied(d),
    "ru_snils": lambda d: _sum(d, 9, 8, 7, 6, 5, 4, 3, 2, 1) % 101 % 100 == int(d[9:]) and _varied(d),
    "ua_rnokpp": lambda d: _sum(d, -1, 5, 7, 9, 4, 6, 10, 5, 7) % 11 % 10 == int(d[9]) and _varied(d),
    "kz_iin": _kz_iin,
    "ir_national_code": lambda d: _below_two(_sum(d, 10, 9, 8, 7, 6, 5, 4, 3, 2)) == int(d[9]) and _varied(d),
    "sa_national_id": lambda d: d[0] in "12" and luhn(d),
    "ae_emirates_id": lambda d: d[:3] == "784" and d[3:5] in ("19", "20") and luhn(d),
    "eg_national_id": lambda d: d[0] in "23" and _date(d[5:7], d[3:5]) and ("01" <= d[7:9] <= "35" or d[7:9] == "88"),
    "th_national_id": lambda d: d[0] != "0"
    and (11 - _sum(d, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2) % 11) % 10 == int(d[12]),
    "my_mykad": lambda d: _date(d[4:6], d[2:4])
    and ("01" <= d[6:8] <= "16" or "21" <= d[6:8] <= "68" or "71" <= d[6:8] <= "99"),
    "id_nik": lambda d: "11" <= d[:2] <= "96" and _date(_less(d[6:8], 40), d[8:10]),
    "vn_cccd": lambda d: "001" <= d[:3] <= "096" and d[3] in "0123",
    "pk_cnic": lambda d: d[0] in "1234567",
    "ec_cedula": lambda d: ("01" <= d[:2] <= "24" or d[:2] == "30") and luhn(d),
    "uy_ci": lambda d: -_sum(d, 2, 9, 8, 7, 6, 3, 4) % 10 == int(d[7]) and _varied(d),
}  # fmt: skip
