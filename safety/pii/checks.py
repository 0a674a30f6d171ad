"""Checksums and rules of identity numbers. All take digits (or letters) without separators."""

from typing import Final

from safety.pii.payment import luhn


def _weighted(digits: str, weights: tuple[int, ...]) -> int:
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=False))


def date(day: str, month: str) -> bool:
    """Whether these can be the day and month of a date."""
    return "01" <= month <= "12" and "01" <= day <= "31"


def us_ssn(d: str) -> bool:
    """Areas, groups and serials that are given out."""
    return d[:3] not in ("000", "666") and d[0] != "9" and d[3:5] != "00" and d[5:] != "0000" and d.count(d[0]) < len(d)


def us_itin(d: str) -> bool:
    """900 to 999, and groups that are given out."""
    group = int(d[3:5])
    return (
        d.count("9") < 9
        and d[0] == "9"
        and (50 <= group <= 65 or 70 <= group <= 88 or 90 <= group <= 92 or 94 <= group <= 99)
    )


def uk_nhs(d: str) -> bool:
    """Modulo 11."""
    check = 11 - _weighted(d, (10, 9, 8, 7, 6, 5, 4, 3, 2)) % 11
    return check != 10 and check % 11 == int(d[9]) and d.count(d[0]) < 10


def uk_driving_licence(code: str) -> bool:
    """A date of birth after the name: decade, month (women's 50 more), day and year."""
    return date(code[8:10], f"{int(code[6:8]) % 50:02}")


def ca_sin(d: str) -> bool:
    """Luhn; nothing begins with 8, or 0 outside of tests."""
    return d[0] != "8" and luhn(d)


def de_tax_id(d: str) -> bool:
    """ISO 7064 modulo 11, 10; not all of the first ten digits differ."""
    return d[0] != "0" and len(set(d[:10])) in (8, 9) and _mod_11_10(d)


def _mod_11_10(d: str) -> bool:
    product = 10
    for digit in d[:-1]:
        total = (int(digit) + product) % 10 or 10
        product = total * 2 % 11
    return (11 - product) % 10 == int(d[-1])


def fr_nir(d: str) -> bool:
    """Sex and month; with its key, which makes 15 digits, modulo 97. Corsica has 2A and 2B for 19 and 18."""
    if d[5:7] in ("2A", "2B"):
        d = d[:5] + ("19" if d[6] == "A" else "18") + d[7:]
    if d[0] not in "123478" or not ("01" <= d[3:5] <= "12" or "20" <= d[3:5] <= "42" or "50" <= d[3:5] <= "99"):
        return False
    return len(d) == 13 or 97 - int(d[:13]) % 97 == int(d[13:])


def es_dni(text: str) -> bool:
    """Eight digits, or X, Y or Z and seven, and their letter."""
    number = text[:-1].translate(_NIE)
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23] == text[-1]


_NIE: Final = str.maketrans("XYZ", "012")


def nl_bsn(d: str) -> bool:
    """The eleven test."""
    return _weighted(d, (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0 and d.count(d[0]) < 9


def be_nn(d: str) -> bool:
    """Date and modulo 97, before or after 2000."""
    if d[2:4] > "12" or d[4:6] > "31":
        return False
    key = int(d[9:])
    return 97 - int(d[:9]) % 97 == key or 97 - int("2" + d[:9]) % 97 == key


def pl_pesel(d: str) -> bool:
    """Date, whose month tells the century, and weights."""
    return (
        1 <= int(d[2:4]) % 20 <= 12
        and "01" <= d[4:6] <= "31"
        and (10 - _weighted(d, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3)) % 10) % 10 == int(d[10])
    )


def se_personnummer(d: str) -> bool:
    """Date (coordination numbers add 60 to the day) and Luhn over the last ten digits."""
    d = d[-10:]
    day = int(d[4:6])
    return "01" <= d[2:4] <= "12" and (1 <= day <= 31 or 61 <= day <= 91) and luhn(d)


def fi_hetu(text: str) -> bool:
    """Date and the check character: `DDMMYY?NNNC`."""
    return (
        date(text[:2], text[2:4])
        and "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(text[:6] + text[7:10]) % 31] == text[10].upper()
    )


def dk_cpr(d: str) -> bool:
    """Date; the check digit is no longer used."""
    return date(d[:2], d[2:4])


def no_fodselsnummer(d: str) -> bool:
    """Date (D-numbers add 40 to the day) and two check digits."""
    day = int(d[:2])
    return (
        (1 <= day <= 31 or 41 <= day <= 71)
        and 1 <= int(d[2:4]) % 40 <= 12
        and _weighted(d, (3, 7, 6, 1, 8, 9, 4, 5, 2, 1)) % 11 == 0
        and _weighted(d, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1)) % 11 == 0
    )


def ch_ahv(d: str) -> bool:
    """756 and an EAN check digit."""
    return d[:3] == "756" and _weighted(d, (1, 3) * 6 + (1,)) % 10 == 0


def at_svnr(d: str) -> bool:
    """Weights, with the check digit in the fourth place, then a date."""
    return _weighted(d, (3, 7, 9, 0, 5, 8, 4, 2, 1, 6)) % 11 == int(d[3]) and d[0] != "0"


def de_id_card(text: str) -> bool:
    """Weights 7, 3 and 1 over figures and letters, if the check digit is there."""
    total = sum(int(c, 36) * (7, 3, 1)[place % 3] for place, c in enumerate(text[:9]))
    return len(text) == 9 or total % 10 == int(text[9])


def de_rvnr(text: str) -> bool:
    """Area, date, a letter that counts as its place in the alphabet, a serial number, and the digit of their sums."""
    digits = f"{text[:8]}{ord(text[8].upper()) - 64:02d}{text[9:11]}"
    sums = (int(d) * weight for d, weight in zip(digits, (2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1), strict=True))
    return text[4:6] <= "12" and sum(each // 10 + each % 10 for each in sums) % 10 == int(text[11])


def pt_nif(d: str) -> bool:
    """Modulo 11."""
    check = 11 - _weighted(d, (9, 8, 7, 6, 5, 4, 3, 2)) % 11
    return d[0] in "1235689" and (0 if check > 9 else check) == int(d[8])


def ie_pps(text: str) -> bool:
    """Modulo 23; a second letter counts nine times, and did not count in older numbers."""
    total = _weighted(text, (8, 7, 6, 5, 4, 3, 2))
    second = 9 * (ord(text[8]) - 64) if len(text) == 9 else 0
    return text[7] in (_OF_PPS[total % 23], _OF_PPS[(total + second) % 23])


_OF_PPS: Final = "WABCDEFGHIJKLMNOPQRSTUV"


def cz_rodne_cislo(d: str) -> bool:
    """Date (women's months have 50 more) and modulo 11."""
    month = int(d[2:4]) % 50
    return (1 <= month <= 12 or 21 <= month <= 32) and "01" <= d[4:6] <= "31" and int(d) % 11 == 0


def ro_cnp(d: str) -> bool:
    """Sex, date and weights."""
    check = _weighted(d, (2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9)) % 11
    return d[0] != "0" and date(d[5:7], d[3:5]) and (1 if check == 10 else check) == int(d[12])


def bg_egn(d: str) -> bool:
    """Date, whose month tells the century, and weights."""
    return (
        1 <= int(d[2:4]) % 20 <= 12
        and "01" <= d[4:6] <= "31"
        and _weighted(d, (2, 4, 8, 5, 10, 9, 7, 3, 6)) % 11 % 10 == int(d[9])
    )


def tr_tckn(d: str) -> bool:
    """Two check digits."""
    odd, even = sum(map(int, d[0:9:2])), sum(map(int, d[1:8:2]))
    return d[0] != "0" and (odd * 7 - even) % 10 == int(d[9]) and sum(map(int, d[:10])) % 10 == int(d[10])


def br_cpf(d: str) -> bool:
    """Two check digits."""
    first = _weighted(d, (10, 9, 8, 7, 6, 5, 4, 3, 2)) * 10 % 11 % 10
    second = _weighted(d, (11, 10, 9, 8, 7, 6, 5, 4, 3, 2)) * 10 % 11 % 10
    return first == int(d[9]) and second == int(d[10]) and d.count(d[0]) < 11


def ar_cuit(d: str) -> bool:
    """Type and modulo 11."""
    return d[:2] in ("20", "23", "24", "25", "26", "27") and (_weighted(d, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1)) % 11 == 0)


def cl_rut(text: str) -> bool:
    """Modulo 11, with K for ten."""
    check = 11 - _weighted(text[-2::-1], (2, 3, 4, 5, 6, 7, 2, 3)) % 11
    return "0123456789K0"[check if check < 11 else 11] == text[-1].upper()


_MULTIPLIED: Final = (
    "0123456789", "1234067895", "2340178956", "3401289567", "4012395678",
    "5987604321", "6598710432", "7659821043", "8765932104", "9876543210",
)  # fmt: skip
_PERMUTED: Final = (
    "0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415", "7046913258",
)  # fmt: skip


def verhoeff(digits: str) -> bool:
    """The checksum of Aadhaar numbers, which begin with 2 to 9."""
    check = 0
    for place, digit in enumerate(reversed(digits)):
        check = int(_MULTIPLIED[check][int(_PERMUTED[place % 8][int(digit)])])
    return check == 0 and digits[0] in "23456789" and digits.count(digits[0]) < len(digits)


def cn_resident_id(text: str) -> bool:
    """Region, date and modulo 11, with X for ten."""
    if not ("11" <= text[:2] <= "82" and text[6:8] in ("18", "19", "20") and date(text[12:14], text[10:12])):
        return False
    total = _weighted(text[:17], (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2))
    return "10X98765432"[total % 11] == text[17].upper()


def kr_rrn(d: str) -> bool:
    """Date and sex; numbers given since October 2020 have no check digit."""
    return date(d[4:6], d[2:4]) and d[6] in "12345678"


def jp_my_number(d: str) -> bool:
    """Modulo 11."""
    rest = _weighted(d[10::-1], (2, 3, 4, 5, 6, 7, 2, 3, 4, 5, 6)) % 11
    return (0 if rest < 2 else 11 - rest) == int(d[11]) and d.count(d[0]) < 12


def au_tfn(d: str) -> bool:
    """Modulo 11."""
    return _weighted(d, (1, 4, 3, 7, 5, 8, 6, 9, 10)) % 11 == 0 and d.count(d[0]) < 9


def za_id(d: str) -> bool:
    """Date, citizenship and Luhn."""
    return date(d[4:6], d[2:4]) and d[10] in "012" and luhn(d)


def sg_nric(text: str) -> bool:
    """Weights and a letter that depends on the series."""
    total = _weighted(text[1:8], (2, 7, 6, 5, 4, 3, 2))
    series = text[0]
    if series in "ST":
        return "JZIHGFEDCBA"[(total + 4 * (series == "T")) % 11] == text[8]
    if series in "FG":
        return "XWUTRQPNMLK"[(total + 4 * (series == "G")) % 11] == text[8]
    return "KLJNPQRTUWX"[10 - (total + 3) % 11] == text[8]


def hk_hkid(text: str) -> bool:
    """One or two letters and six digits, modulo 11, with A for ten."""
    letters, digits = text[:-7], text[-7:-1]
    values = [36] * (2 - len(letters)) + [ord(letter) - 55 for letter in letters]
    total = values[0] * 9 + values[1] * 8 + _weighted(digits, (7, 6, 5, 4, 3, 2))
    return "0123456789A"[-total % 11] == text[-1]


def tw_national_id(text: str) -> bool:
    """The letter counts as two digits."""
    value = "ABCDEFGHJKLMNPQRSTUVXYWZIO".index(text[0]) + 10
    return (value // 10 + value % 10 * 9 + _weighted(text[1:], (8, 7, 6, 5, 4, 3, 2, 1, 1))) % 10 == 0


_ODD: Final = dict(
    zip(
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        (1, 0, 5, 7, 9, 13, 15, 17, 19, 21) * 2 + (2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23),
        strict=True,
    )
)


def it_codice_fiscale(text: str) -> bool:
    """The check letter."""
    text = text.upper()
    even = sum(int(c) if c.isdigit() else ord(c) - 65 for c in text[1:15:2])
    return chr(65 + (even + sum(_ODD[c] for c in text[0:15:2])) % 26) == text[15]


_CURP: Final = {c: value for value, c in enumerate("0123456789ABCDEFGHIJKLMNÑOPQRSTUVWXYZ")}


def mx_curp(text: str) -> bool:
    """Date and the check digit."""
    total = sum(_CURP[c] * (18 - place) for place, c in enumerate(text[:17]))
    return date(text[8:10], text[6:8]) and str(-total % 10) == text[17]


def mx_rfc(text: str) -> bool:
    """Only the date: the last character is often made up by whoever needs one."""
    return date(text[8:10], text[6:8])


def baltic(d: str) -> bool:
    """Estonian and Lithuanian: century and sex, date, modulo 11 in two rounds."""
    check = _weighted(d, (1, 2, 3, 4, 5, 6, 7, 8, 9, 1)) % 11
    if check == 10:
        check = _weighted(d, (3, 4, 5, 6, 7, 8, 9, 1, 2, 3)) % 11 % 10
    return d[0] in "12345678" and date(d[5:7], d[3:5]) and check == int(d[10])


def lv_personas_kods(d: str) -> bool:
    """Date and modulo 11; those given since 2017 begin with 32 and tell nothing."""
    if d[:2] == "32":
        return True
    return date(d[:2], d[2:4]) and (1 + _weighted(d, (10, 5, 8, 4, 2, 1, 6, 3, 7, 9))) % 11 % 10 == int(d[10])


def hr_oib(d: str) -> bool:
    """ISO 7064 modulo 11, 10."""
    return _mod_11_10(d) and d.count(d[0]) < 11


def jmbg(d: str) -> bool:
    """Date, region and modulo 11."""
    check = -_weighted(d, (7, 6, 5, 4, 3, 2) * 2) % 11
    return date(d[:2], d[2:4]) and check % 10 == int(d[12])


def hu_taj(d: str) -> bool:
    """Weights of 3 and 7."""
    return _weighted(d[:8], (3, 7) * 4) % 10 == int(d[8]) and d.count(d[0]) < 9


def hu_tax_id(d: str) -> bool:
    """An 8, the birthday in days, modulo 11."""
    return d[0] == "8" and _weighted(d[:9], (1, 2, 3, 4, 5, 6, 7, 8, 9)) % 11 == int(d[9])


def gr_amka(d: str) -> bool:
    """Date and Luhn."""
    return date(d[:2], d[2:4]) and luhn(d)


def gr_afm(d: str) -> bool:
    """Powers of two, modulo 11."""
    return _weighted(d[:8], (256, 128, 64, 32, 16, 8, 4, 2)) % 11 % 10 == int(d[8]) and d.count(d[0]) < 9


def is_kennitala(d: str) -> bool:
    """Date, modulo 11, century."""
    return date(d[:2], d[2:4]) and d[9] in "089" and _weighted(d, (3, 2, 7, 6, 5, 4, 3, 2, 1)) % 11 == 0


def ru_inn(d: str) -> bool:
    """A person's, with two check digits."""
    first = _weighted(d, (7, 2, 4, 10, 3, 5, 9, 4, 6, 8)) % 11 % 10
    second = _weighted(d, (3, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8)) % 11 % 10
    return first == int(d[10]) and second == int(d[11]) and d.count(d[0]) < 12


def ru_snils(d: str) -> bool:
    """Modulo 101."""
    return _weighted(d[:9], (9, 8, 7, 6, 5, 4, 3, 2, 1)) % 101 % 100 == int(d[9:]) and d.count(d[0]) < 11


def ua_rnokpp(d: str) -> bool:
    """Modulo 11."""
    return _weighted(d[:9], (-1, 5, 7, 9, 4, 6, 10, 5, 7)) % 11 % 10 == int(d[9]) and d.count(d[0]) < 10


def ir_national_code(d: str) -> bool:
    """Modulo 11."""
    rest = _weighted(d[:9], (10, 9, 8, 7, 6, 5, 4, 3, 2)) % 11
    return (rest if rest < 2 else 11 - rest) == int(d[9]) and d.count(d[0]) < 10


def sa_national_id(d: str) -> bool:
    """Citizens begin with 1, residents with 2; Luhn."""
    return d[0] in "12" and luhn(d)


def ae_emirates_id(d: str) -> bool:
    """784, the year of birth, Luhn."""
    return d[:3] == "784" and d[3:5] in ("19", "20") and luhn(d)


def eg_national_id(d: str) -> bool:
    """Century, date and governorate."""
    return d[0] in "23" and date(d[5:7], d[3:5]) and ("01" <= d[7:9] <= "35" or d[7:9] == "88")


def th_national_id(d: str) -> bool:
    """Modulo 11."""
    check = 11 - _weighted(d[:12], (13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2)) % 11
    return d[0] != "0" and check % 10 == int(d[12])


def my_mykad(d: str) -> bool:
    """Date and place of birth."""
    return date(d[4:6], d[2:4]) and ("01" <= d[6:8] <= "16" or "21" <= d[6:8] <= "68" or "71" <= d[6:8] <= "99")


def id_nik(d: str) -> bool:
    """Province and date, to whose day women add 40."""
    day = int(d[6:8])
    return "11" <= d[:2] <= "96" and date(f"{day - 40 if day > 40 else day:02}", d[8:10])


def vn_cccd(d: str) -> bool:
    """Province, and century with sex."""
    return "001" <= d[:3] <= "096" and d[3] in "0123"


def pk_cnic(d: str) -> bool:
    """The province is 1 to 7."""
    return d[0] in "1234567"


def kz_iin(d: str) -> bool:
    """Date, century with sex, modulo 11 in two rounds."""
    check = _weighted(d[:11], (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)) % 11
    if check == 10:
        check = _weighted(d[:11], (3, 4, 5, 6, 7, 8, 9, 10, 11, 1, 2)) % 11
    return date(d[4:6], d[2:4]) and d[6] in "0123456" and check == int(d[11])


def ec_cedula(d: str) -> bool:
    """Province and Luhn."""
    return ("01" <= d[:2] <= "24" or d[:2] == "30") and luhn(d)


def uy_ci(d: str) -> bool:
    """Modulo 10."""
    return -_weighted(d[:7], (2, 9, 8, 7, 6, 3, 4)) % 10 == int(d[7]) and d.count(d[0]) < 8
