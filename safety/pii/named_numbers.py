"""Identity numbers and cards that count where a word to their left speaks of them, however their digits are grouped."""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from safety.pii import checks, payment
from safety.pii.context import speaks, spoken_of

#: What separates the digits of a number.
SEPARATORS: Final = str.maketrans("", "", " .-/+")
#: Every digit as a zero.
SHAPE: Final = str.maketrans("123456789", "000000000")
_GROUP: Final = re.compile(r"[0-9]+")


class _Form(NamedTuple):
    """A kind; one whose check would let most numbers pass has to be of one of these shapes."""

    kind: str
    check: Callable[[str], bool]
    shapes: tuple[str, ...] = ()


def _any(digits: str) -> bool:
    return digits.count(digits[0]) < len(digits)


_CARD: Final = _Form("credit_card", payment.luhn)
_SSN_SHAPES: Final = ("000000000", "000-00-0000", "000 00 0000", "000.00.0000")

#: By how many digits they have; where several kinds are spoken of, the word nearest to the number decides.
_FORMS: Final[dict[int, tuple[_Form, ...]]] = {
    7: (_Form("co_cedula", _any, ("0000000", "0.000.000")),),
    8: (
        _Form("cl_rut", checks.cl_rut),
        _Form("uy_ci", checks.uy_ci),
        _Form("pe_dni", _any, ("00000000", "00.000.000")),
        _Form("co_cedula", _any, ("00000000", "00.000.000")),
    ),
    9: (
        _Form("us_ssn", checks.us_ssn, _SSN_SHAPES),
        _Form("us_itin", checks.us_itin, _SSN_SHAPES),
        _Form("ca_sin", checks.ca_sin),
        _Form("nl_bsn", checks.nl_bsn),
        _Form("au_tfn", checks.au_tfn),
        _Form("pt_nif", checks.pt_nif),
        _Form("cl_rut", checks.cl_rut),
        _Form("hu_taj", checks.hu_taj),
        _Form("gr_afm", checks.gr_afm),
        _Form("il_id", payment.luhn),
        _Form("passport", _any, ("000000000", "00 0000000")),
    ),
    10: (
        _Form("uk_nhs", checks.uk_nhs),
        _Form("se_personnummer", checks.se_personnummer),
        _Form("dk_cpr", checks.dk_cpr, ("0000000000", "000000-0000", "000000 0000")),
        _Form("at_svnr", checks.at_svnr),
        _Form("bg_egn", checks.bg_egn),
        _Form("cz_rodne_cislo", checks.cz_rodne_cislo),
        _Form("is_kennitala", checks.is_kennitala),
        _Form("hu_tax_id", checks.hu_tax_id),
        _Form("ua_rnokpp", checks.ua_rnokpp),
        _Form("ir_national_code", checks.ir_national_code),
        _Form("sa_national_id", checks.sa_national_id),
        _Form("ec_cedula", checks.ec_cedula),
        _Form("co_cedula", _any, ("0000000000", "0.000.000.000")),
        _Form("passport", _any, ("0000 000000", "00 00 000000")),
    ),
    11: (
        _Form("de_tax_id", checks.de_tax_id),
        _Form("pl_pesel", checks.pl_pesel),
        _Form("br_cpf", checks.br_cpf),
        _Form("tr_tckn", checks.tr_tckn),
        _Form("be_nn", checks.be_nn),
        _Form("no_fodselsnummer", checks.no_fodselsnummer),
        _Form("ee_isikukood", checks.baltic),
        _Form("lt_asmens_kodas", checks.baltic),
        _Form("lv_personas_kods", checks.lv_personas_kods, ("00000000000", "000000-00000")),
        _Form("hr_oib", checks.hr_oib),
        _Form("ru_snils", checks.ru_snils),
        _Form("gr_amka", checks.gr_amka),
        _Form("ar_cuit", checks.ar_cuit),
        _Form("ng_nin", _any, ("00000000000",)),
    ),
    12: (
        _Form("se_personnummer", checks.se_personnummer),
        _Form("jp_my_number", checks.jp_my_number),
        _Form("in_aadhaar", checks.verhoeff),
        _Form("ru_inn", checks.ru_inn),
        _Form("kz_iin", checks.kz_iin),
        _Form("vn_cccd", checks.vn_cccd, ("000000000000",)),
        _Form("my_mykad", checks.my_mykad),
        _CARD,
    ),
    13: (
        _Form("ro_cnp", checks.ro_cnp),
        _Form("za_id", checks.za_id),
        _Form("fr_nir", checks.fr_nir),
        _Form("rs_jmbg", checks.jmbg),
        _Form("th_national_id", checks.th_national_id),
        _Form("kr_rrn", checks.kr_rrn, ("0000000000000", "000000-0000000", "000000 0000000")),
        _Form("ch_ahv", checks.ch_ahv),
        _Form("pk_cnic", checks.pk_cnic, ("0000000000000", "00000-0000000-0")),
        _CARD,
    ),
    14: (_Form("eg_national_id", checks.eg_national_id), _CARD),
    15: (_Form("fr_nir", checks.fr_nir), _Form("ae_emirates_id", checks.ae_emirates_id), _CARD),
    16: (_Form("id_nik", checks.id_nik), _CARD),
    17: (_CARD,),
    18: (_Form("cn_resident_id", checks.cn_resident_id), _CARD),
    19: (_CARD,),
}


class Named(NamedTuple):
    """A kind, where its number ends in the view, and where the word that speaks of it ends in what is to the left."""

    kind: str
    end: int
    word: int


def named_number(text: str, position: int, view: str, run: str) -> Named | None:
    """The number that a word to the left makes one. `run` is the groups of digits that the view begins with."""
    ends = [group.end() for group in _GROUP.finditer(run)]
    numbers = [(end, run[:end].translate(SEPARATORS)) for end in reversed(ends)]
    if not any(len(digits) in _FORMS for _, digits in numbers):
        return None
    left = speaks(text, position)
    if left is None:
        return None
    for end, digits in numbers:
        shape = run[:end].translate(SHAPE).replace(" - ", "-").replace("  ", " ")
        best: Named | None = None
        for form in _FORMS.get(len(digits), ()):
            if (
                (not form.shapes or shape in form.shapes)
                and ends_alone(shape, view[end : end + 2], form.kind)
                and form.check(digits)
                and (word := spoken_of(form.kind, left)) > (best.word if best else -1)
            ):
                best = Named(form.kind, end, word)
        if best is not None:
            return best
    return None


def ends_alone(shape: str, after: str, kind: str) -> bool:
    """Whether a number of a shape is no part of a longer word or number; `after` is two characters behind it.

    Cards may be followed by a date or a code.
    """
    if (after[:1].isalnum() and after[:1] <= "\u0e00") or after[:1] == "_":
        return False
    if len(after) < 2 or not after[1].isdigit():
        return True
    if kind == "credit_card":
        return after[0] not in ".-"
    return after[0] not in " .-/+" or (after[0] == " " and " " not in shape)
