"""Numbers of persons' documents, insurances and taxes, whatever their form, that the words right before announce."""

import re
from typing import Final

import re2

from safety.pii.context import REACH, left_of, phone_word
from safety.pii.phones import NO_UNIT

#: How words begin, in small letters: passports, identity cards, residence permits, driving licences, insurances, taxes.
_WORDS: Final = (
    # Passports
    r"pass[ae]?port|pasaporte|paspoort|passnummer|pass(?:et)? (?:mitt|nr)|reisepass|paszport|pa[sș]aport|pasport|"
    r"paso[sš]|pp no|[uú]tlev|putovnic|pas (?:nr|no|č|br|n[º°]|num)|pas(?:nr|nummer)\b|pas:|pases? (?:nr|num)|"
    r"passi (?:nr|num)|passin ?num|vegabr|cestovn\pL{1,3} (?:pas|doklad)|paspor|pasul\b|گذرنامه|پاسپورت|דרכון|"
    r"διαβατ[ηή]ρ|паспорт|пашпарт|"
    r"hộ chiếu|رقم (?:ال)?جواز|"
    # Identity cards and numbers
    r"identity (?:card|number|document)|(?:national|zimbabwe|personal|citizen|government|govt|photo|state|my|his|her|"
    r"your|their|"
    r"kenyan?|malta|ugandan?|tanzanian?|rwandan?|zambian?|namibian?|jamaican?|ghanaian|indian|saudi|qatari?|kuwaiti?|"
    r"emirati|"
    r"emirates|omani?|bahraini?|jordanian|lebanese|malaysian|indonesian|filipino|turkish|swiss|belgian|estonian|"
    r"latvian|"
    r"lithuanian|south african) i\.? ?d\b|"
    r"national (?:number|no\b|nr)|id card|eid\b|"
    r"henkilötunnu|hetu\b|асабісты нумар|асабовы нумар|ідэнтыфікацыйны нумар|"
    r"identiteitskaart|identitetskort|id-?(?:kort|kaart|nummer)|nid\b|(?:personal)?ausweis|"
    r"carte (?:nationale )?d['’]identité|carta (?:d['’])?identità|documento c\.?i|ci\b|c\.i\.|buletin|"
    r"c[eé]d(?:ula|\.)|cnie?\b|cin\b|nin\b|nic\b|nrc|dimex|"
    r"dui\b|dpi\b|rg\b|brp\b|civil id|qid\b|cpr\b|idnp|omang|indangamuntu|nida\b|ghana ?card|matricule|voter id|"
    r"clave de elector|t[ií]tulo de eleitor|jshshir|pinfl|n[uú]m\pL* de (?:documento|identidad)|"
    r"(?:documento|tarjeta|carn[eé]) (?:nacional )?de (?:identi[dt]ad|extranjer)|cartão de cidadão|"
    r"bilhete de identidade|"
    r"dow[oó]d|občansk|občiansk|č(?:ísl[oa]|\.) ?op\b|op č|osebn[ae] izkaznic|osobn[ae] iskaznic|ličn[ae] kart|"
    r"személyi|"
    r"лична карта|личн\pL{1,3} карт|уд\. личности|ci seri[ae]|посвідченн|"
    r"удостоверени\pL* личност|идентификационный номер|личный номер|регистр\pL* дугаар|рд|унзр|пинфл|жшшир|"
    r"δελτίου ταυτ|α\.?δ\.?τ|ταυτότητ|kimlik|"
    r"kart[ai] tal-ident|vəsiqə|անձնագ|հանրային|հծհ|"
    r"asmens (?:kod|tapat)|personas (?:kod|apliec)|isikut|პირადი|kitambulisho|البطاقة الوطنية|الرقم (?:الوطني|المدني)|"
    r"رقم (?:ال)?(?:بطاقة|هوية)|(?:ال)?[إا]قامة|iqama|کد ?ملی|شماره ملی|"
    r"epic\b|philsys|philid|psn\b|umid|bvn\b|huduma|fayda|ine\b|fin (?:kod|no\b)|citizenship (?:no|num|cert)|"
    # Residence
    r"residence (?:permit|card)|(?:carte|titre) de séjour|aufenthalts(?:titel|erlaubnis|karte|genehm|gestatt)|"
    r"permesso di soggiorno|kart[ay] (?:stałego )?pobytu|permiso de residencia|"
    r"(?:cartão|título|autorização) de residência|oleskelulu|uppehållstillst|opholdstil|oppholdstil|verblijfs|"
    r"povolení k pobytu|"
    r"внж|рвп|дозвіл на прож|"
    r"вид на жительство|uscis|(?-i:A)(?:-number|-no\b|-?#)|alien (?:number|no\b|registration)|green card|"
    # Driving
    r"driv(?:er['’]?s?|ing) licen[cs]e|dl(?: no)?\b|führerschein|permis de conduire|licencia de conducir|brevete|"
    r"patente (?:di guida|n)|carta de condução|cnh|prawo jazdy|rijbewijs|körkort|førerkort|kørekort|ajokort|"
    r"ökuskírtein|водительск|права:? (?:сери|№|номер)|sim [abc]\b|carta n\.?[º°]|permiso de conducir|"
    r"carnet de conducir|sürücü belge|ehliyet|řidičsk|jogosítv|"
    # Health and social insurance
    r"medica(?:re|id)|ohip|kvnr|ehic\b|teyf|tessera sanitaria|chi (?:number|no)|health (?:card|insurance)|philhealth|"
    r"sss\b|nss\b|niss|afiliaci|rentenversicherungs|versichertenn|"
    r"krankenvers|sozialversicherungs|social insurance|national insurance|nat\. ins|seguridad social|utente\b|"
    r"cart[ãa]o (?:do )?sus\b|pis\b|pasep|"
    # Taxes
    r"tax file n|utr\b|ird\b|(?-i:TIN)\b|kra pin|npwp|numéro fiscal|mã số thuế|davčn"
)
#: The same in scripts in which other letters may stand right before one.
_UNSPACED_WORDS: Final = (
    r"护照|護照|パスポート|旅券|여권|身份证|身份證|台胞证|居民证|在留カード|居留|외국인등록|驾驶证|驾照|駕照|"
    r"駕駛執照|居留證|居留证|保険証|被保険者|運転免許|운전면허|"
    r"জাতীয় পরিচয়|এনআইডি|पासपोर्ट|नागरिकता|वोटर आईडी|मतदाता|ใบอนุญาตขับ|ใบขับขี่|เลขบัตร|เลขประจำตัว|"
    r"หนังสือเดินทาง|บัตรประชาชน"
)
_MEMORY: Final = re2.Options()
# With the 8 MiB of its own it could hardly hold more words.
_MEMORY.max_mem = 16 << 20
ANNOUNCING: Final = rf"(?i)(?:^|[^\pL\pN])({_WORDS})|{_UNSPACED_WORDS}"
_ANNOUNCING: Final = re2.compile(ANNOUNCING, _MEMORY)
_SIGNS: Final = r"\s.:：#№º°=\-–—'’\"/()|"
#: Between such a word and the number: the rest of the word, and a few others.
_BETWEEN: Final = re.compile(
    rf"[^{_SIGNS},;\d]{{0,16}}(?:[{_SIGNS},]{{1,4}}[^{_SIGNS},;\d]{{1,16}}){{0,6}}"
    rf"(?:[{_SIGNS}]{{1,5}}|, |\)?[ .:_…]{{5,40}})"
)
#: Said between the word and the number, it is about something else.
_OTHERWISE: Final = re.compile(
    r"(?<![^\W\d_])(?:compan|công ty|empresa|business|firm|gmbh|ltd|phone|tel\b|tél|call|mobil|fax|cost|fee|office|"
    r"embassy|order|invoice|flight|ticket|section|article|valid|until|since|expir|born|issued|date|or\b|and\b|"
    r"cover|holder|reader|printer|badge|h[üu]lle|etui|folie|halter|drucker|item|art\b|sku|ean|asin|model|version|"
    r"firmware|"
    r"form\b|formulaire|regulation|law\b|ley\b|loi\b|décret|circular|plan\b|statute|directive|receipt|plate|"
    r"jurídic|zakup|wpłat|dostaw|rejestracyjn|sprzedaż|seller|buyer|bên (?:bán|mua)|véhicule|navire|aéronef|chantier|"
    r"dossier|sap\b|compra|factur|pedido|vin\b|транспорт|товар|жетон|издели|качеств|"
    r"безопасн|doğrulama|hotel|cas\b|coat|ore\b|drive)"
)
#: What it is told for.
_PURPOSE: Final = re.compile(
    r" (?:for|für|pour|para|per|voor|för|til|dla|pro|для) (?:the|my|a|an|die|das|den|le|la|les|el|o|il|l[ao]s|de|het) "
    r"[^:,.;]*(?=: ?$)"
)
_NUMBER: Final = re.compile(
    r"(?:[A-ZА-ЯІҮӨΑ-Ω]{1,5}[ \-]?|[a-z]{2}(?=[0-9]{6}))?[0-9][0-9A-Z]*(?:(?:[ .\-/]|"
    r" [/\-] )(?=[0-9A-Z]{0,3}[0-9])[0-9A-Z]{1,12}){0,5}"
    r"(?:(?<=[0-9])[ \-][A-Z](?![A-Za-z0-9]))?(?![A-Za-z0-9_]|[.,]\d)" + rf"(?:(?<![0-9])|{NO_UNIT})"
)
#: What is in every code soon.
CODE: Final = r"[A-Z][0-9][0-9A-Z\-]{3}|[0-9][A-Z][0-9A-Z\-]{3}|[0-9]{4}[A-Z]{2}|[A-Z]{2}-[0-9]{5}|[0-9]{6}[MGAPLHBZ]"
#: With letters anywhere; figures in every word of it.
_CODE: Final = re.compile(
    rf"(?=[A-Z0-9 \-]{{0,8}}?(?:{CODE}))"
    r"(?=[A-Z]{0,7}-?[0-9])[A-Z0-9]{3,}(?:(?:-| (?=[A-Z0-9]{2}))(?=[A-Z]{0,5}[0-9])[A-Z0-9]+){0,4}"
    r"(?:-[A-Z])?(?![A-Za-z0-9_]|[.,]\d)"
)
#: Of what has fewer figures than a number the words stand nearer.
_NEAR: Final = 24
#: Words that mean much else, with what their numbers are without signs between.
_FORMS: Final[dict[str, re.Pattern[str]]] = {
    word: re.compile(form)
    for words, form in (
        ("cin", r"[A-Z]{1,2}[0-9]{5,6}|[0-9]{8}"),
        ("cni cnie", r"[A-Z]{1,2}[0-9]{5,6}|[0-9]{12}|(?=[0-9]*[A-Z])[A-Z0-9]{9}"),
        ("nic", r"[0-9]{9}[VX]|[0-9]{12}|[A-Z][0-9]{12}[0-9A-Z]"),
        ("nid", r"[0-9]{10}|[0-9]{13}|[0-9]{17}"),
        ("nin", r"[0-9]{11}|C[MF][A-Z0-9]{12}"),
        ("qid", r"[0-9]{11,12}"),
        ("cpr", r"[0-9]{9}"),
        ("dpi idnp matricule", r"[0-9]{13}"),
        ("dui omang", r"[0-9]{9}"),
        ("dimex", r"[0-9]{11,12}"),
        ("brp", r"[A-Z]{2}[A-Z0-9][0-9]{6}"),
        ("rg", r"(?!(?:19|20)[0-9]{6}$)[0-9]{8,9}|[0-9]{7,8}X"),
        ("pis pasep nss cnh", r"[0-9]{11}"),
        ("sss", r"[0-9]{10}"),
        ("nida", r"[0-9]{20}"),
        ("utr", r"[0-9]{10}K?"),
        ("ird", r"[0-9]{8,9}"),
        ("ci buletin", r"[VE][0-9]{6,8}|[A-Z]{2}(?:[0-9]{5}[A-Z]{2}|[0-9]{6,7})"),
        ("c.i.", r"[VE]?[0-9]{6,8}|[A-Z]{2}(?:[0-9]{5}[A-Z]{2}|[0-9]{6,7})"),
        ("рд", r"[А-ЯІҮӨ]{2}[0-9]{8}"),
        ("epic", r"[A-Z]{3}[0-9]{7}"),
        ("psn philsys philid fayda", r"[0-9]{12}|[0-9]{16}"),
        ("umid", r"[0-9]{12}"),
        ("bvn", r"[0-9]{11}"),
        ("huduma", r"[0-9]{7,9}"),
        ("ine", r"[0-9]{13}"),
        ("dl", r"[A-Z]{1,2}[0-9]{7,14}"),
        ("eid", r"[0-9]{12}|784[0-9]{12}"),
        ("внж рвп", r"[0-9]{9}"),
        ("ehic", r"[0-9]{20}"),
        ("iqama", r"[12][0-9]{9}"),
        ("kvnr", r"[A-Z][0-9]{9}"),
        ("tin", r"[0-9]{9,10}|[0-9]{12}"),
        ("a-number a-no a-# a#", r"A?[0-9]{8,9}"),
    )
    for word in words.split()
}
_SIGNS_BETWEEN: Final = str.maketrans("", "", " .-/")
#: A law, a file or an invoice of a year.
_OF_A_YEAR: Final = re.compile(r"[0-9]{1,5}/(?:19|20)[0-9]{2}$|(?:19|20)[0-9]{2}[/\-][0-9]{1,5}$")
_FEWEST_DIGITS: Final = 5
_FEWEST_IN_CODE: Final = 3
_SHORTEST, _SHORTEST_OF_DIGITS, _LONGEST = 6, 7, 20


def announced_at(text: str, position: int, view: str) -> int:
    """The end of a number that a view begins with and the words right before it announce, or 0."""
    found = _NUMBER.match(view)
    if found is None or not _is_long(found.group(), _FEWEST_DIGITS) or _OF_A_YEAR.match(found.group()):
        return 0
    word = _announcing(text, position, found.group(), REACH)
    return found.end() if 0 <= word >= phone_word(text, position) else 0


def announced_code_at(text: str, position: int, view: str) -> int:
    """The same of letters and figures in any order."""
    found = _CODE.match(view)
    if found is None or found.group().isdigit() or not _is_long(found.group(), _FEWEST_IN_CODE):
        return 0
    return found.end() if _announcing(text, position, found.group(), _NEAR) >= 0 else 0


def _is_long(number: str, fewest: int) -> bool:
    signs = [sign for sign in number if sign.isalnum()]
    digits = sum(map(str.isdigit, signs))
    shortest = _SHORTEST_OF_DIGITS if digits == len(signs) else _SHORTEST
    return digits >= fewest and shortest <= len(signs) <= _LONGEST


def _announcing(text: str, position: int, number: str, most: int) -> int:
    """Where words end, so many characters before a position at most, that say what is there; -1: there are none."""
    # Names in settings and data have underscores in the place of blanks.
    left = left_of(text, position).replace(b"_", b" ")
    for word in _ANNOUNCING.finditer(left):
        between = left[word.end() :].decode("utf-8", "surrogatepass")
        form = _FORMS.get(word.group(1).decode().lower()) if word.group(1) else None
        if form is not None and form.fullmatch(number.translate(_SIGNS_BETWEEN)) is None:
            continue
        if between.endswith(", ") and number.isdigit():
            continue
        about = _PURPOSE.sub("", between.lower())
        if len(between) <= most and _BETWEEN.fullmatch(between) and not _OTHERWISE.search(about):
            end: int = word.end()
            return end
    return -1
