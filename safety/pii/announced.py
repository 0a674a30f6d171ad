"""Numbers of persons' documents, insurances and taxes, whatever their form, that the words right before announce."""

import re
from typing import Final

import re2

from safety.pii.context import left_of, phone_word
from safety.pii.phones import NO_UNIT

#: How words begin, in small letters: passports, identity cards, residence permits, driving licences, insurances, taxes.
_WORDS: Final = (
    r"pass[ae]?port|paspoort|passnummer|pass(?:et)? (?:mitt|nr)|reisepass|paszport|pa[sș]aport|pasport|"
    r"paso[sš]|pp no|[uú]tlev|putovnic|διαβατ[ηή]ρ|паспорт|пашпарт|hộ chiếu|identity (?:card|number|document)|"
    r"(?:national|zimbabwe|personal|kenyan) id|id card|eid (?:number|no)|nid (?:no|num)|(?:personal)?ausweis|"
    r"carte (?:nationale )?d['’]identité|carta d['’]identità|documento c\.?i|c[eé]dula|"
    r"(?:documento|tarjeta) (?:nacional )?de (?:identidad|extranjer)|cartão de cidadão|bilhete de identidade|"
    r"dow[oó]d|občansk|občiansk|osebn[ae] izkaznic|osobn[ae] iskaznic|személyi ig|лична карта|уд\. личности|"
    r"посвідченн|удостоверени\pL* личности|δελτίου ταυτ|ταυτότητ|kimlik|kart[ai] tal-ident|vəsiqə|անձնագ|"
    r"asmens (?:kod|tapat)|personas (?:kod|apliec)|isikut|პირადი|kitambulisho|nrc|البطاقة الوطنية|"
    r"رقم (?:ال)?(?:بطاقة|هوية)|residence (?:permit|card)|(?:carte|titre) de séjour|aufenthalt|"
    r"permesso di soggiorno|karta pobytu|вид на жительство|driv(?:er['’]?s?|ing) licen[cs]e|dl no|führerschein|"
    r"permis de conduire|licencia de conducir|patente (?:di guida|n)|carta de condução|cnh|prawo jazdy|"
    r"rijbewijs|körkort|førerkort|kørekort|ajokort|ökuskírtein|водительск|sürücü belge|ehliyet|řidičsk|"
    r"jogosítv|medicare|health (?:card|insurance)|philhealth|sss no|nss|niss|afiliaci|rentenversicherungs|"
    r"versichertenn|sozialversicherungs|social insurance|national insurance|nat\. ins|utr|ird|kra pin|npwp|"
    r"numéro fiscal|mã số thuế|davčn"
)
#: The same in scripts in which other letters may stand right before one.
_UNSPACED_WORDS: Final = (
    r"护照|護照|パスポート|旅券|여권|身份证|身份證|台胞证|居民证|在留カード|居留|외국인등록|驾驶证|駕駛執照|運転免許|운전면허|"
    r"জাতীয় পরিচয়|पासपोर्ट|नागरिकता|ใบอนุญาตขับ|หนังสือเดินทาง|บัตรประชาชน"
)
_ANNOUNCING: Final = re2.compile(rf"(?i)(?:^|[^\pL\pN])(?:{_WORDS})|{_UNSPACED_WORDS}")
_SIGNS: Final = r"\s.:#№º°=\-–—'’\"/()|"
#: Between such a word and the number: the rest of the word, and a few others.
_BETWEEN: Final = re.compile(
    rf"[^{_SIGNS},;\d]{{0,16}}(?:[{_SIGNS},]{{1,4}}[^{_SIGNS},;\d]{{1,16}}){{0,6}}[{_SIGNS}]{{1,5}}"
)
#: Said between the word and the number, it is about something else.
_OTHERWISE: Final = re.compile(
    r"(?<![^\W\d_])(?:compan|công ty|empresa|business|firm|gmbh|ltd|phone|tel\b|tél|call|mobil|fax|cost|fee|office|"
    r"embassy|order|invoice|flight|ticket|section|article|valid|until|since|expir|born|issued|date|or\b|and\b)"
)
_NUMBER: Final = re.compile(
    r"(?:[A-ZА-ЯΑ-Ω]{1,5}[ \-]?)?[0-9][0-9A-Z]*(?:(?:[ .\-/]| [/\-] )(?=[0-9A-Z]{0,3}[0-9])[0-9A-Z]{1,12}){0,5}"
    r"(?:[ \-][A-Z](?![A-Za-z0-9]))?(?![A-Za-z0-9_]|[.,]\d)" + NO_UNIT
)
_FEWEST_DIGITS: Final = 5
_SHORTEST, _SHORTEST_OF_DIGITS, _LONGEST = 6, 7, 20


def announced_at(text: str, position: int, view: str) -> int:
    """The end of a number that a view begins with and the words right before it announce, or 0."""
    found = _NUMBER.match(view)
    if found is None:
        return 0
    signs = [sign for sign in found.group() if sign.isalnum()]
    digits = sum(map(str.isdigit, signs))
    shortest = _SHORTEST_OF_DIGITS if digits == len(signs) else _SHORTEST
    if digits < _FEWEST_DIGITS or not shortest <= len(signs) <= _LONGEST:
        return 0
    # Names in settings and data have underscores in the place of blanks.
    left = left_of(text, position).replace(b"_", b" ")
    for word in _ANNOUNCING.finditer(left):
        between = left[word.end() :].decode("utf-8", "surrogatepass")
        if _BETWEEN.fullmatch(between) and not _OTHERWISE.search(between.lower()):
            return 0 if phone_word(text, position) > word.end() else found.end()
    return 0
