"""PINs, codes of doors, alarms, safes and cards, and passwords of figures, which only words tell from other numbers."""

import re
from typing import Final

from safety.pii.emails import WORD as LETTER
from safety.pii.password_words import EVERY_WORD, STEMS, shortest, trie
from safety.pii.telling import IS, LEFT, OTHER_CODES, QUOTE, WORD_BEGINS
from safety.plain_text import other_ones, plain_ones

#: Words for a PIN, each a word of its own.
_PINS: Final = (
    "pin", "pins", "pin's", "pin’s", "nip", "puk", "pinem", "pinu", "pinini", "pinim", "pin-ul", "pinul", "pincode",
    "pinkod", "pinkoden", "pinkode", "pinkoodi", "pinkód", "pinnummer", "pin-nya", "pinnya",
    "kartenpin", "handypin", "bankpin",
    "simpin", "tresorpin", "code secret", "code confidentiel", "código secreto", "codice segreto", "clave secreta",
    "digicode", "geheimzahl", "tunnusluku",
    "bankkod", "bankkoden", "portkod", "portkoden", "пин", "пинкод", "пін", "пінкод",
)  # fmt: skip
_NUMBER: Final = r"(?:[ \-](?:codes?|numbers?|nummer|nr|kod\w{0,3}|kood\w{0,2}|kód\w{0,3}|код\w{0,2}|number))"
#: Scripts in which other letters may stand right before or after.
_UNSPACED_PINS: Final = ("pin码", "pinコード", "暗証番号", "핀번호", "핀 번호", "الرقم السري", "رقم البين", "पिन")
_PIN: Final = rf"(?:(?<![^\W_]){trie(_PINS)}{_NUMBER}?(?![^\W_])|{trie(_UNSPACED_PINS)})"
#: Words for a code of any kind.
CODES: Final = (
    "code", "codes", "codul", "código", "codigo", "codice", "kod", "kodu", "koden", "kode", "koodi", "kód", "kódja",
    "clave", "combination", "combo", "combinaison", "combinación", "combinazione", "combinação", "combinatie",
    "kombination", "kombinasjon", "kombinationen", "kombinacja", "kombinace", "zahlenkombination", "zahlencode",
    "szyfr", "mã", "код", "комбинация", "комбінація", "رمز", "كود", "קוד", "הקוד",
)  # fmt: skip
#: What such a code opens, and says so right before it.
_OPENED: Final = (
    "door", "gate", "garage", "lock", "locker", "lockbox", "padlock", "keypad", "key safe", "keysafe", "key box",
    "keybox", "entry", "entrance", "elevator", "shed", "voicemail", "unlock", "disarm", "duress", "giriş",
    "safe", "vault", "intercom",
    "tür", "haustür", "tor", "tresor", "garagen", "entsperr", "schlüsselbox", "deur", "kluis", "poort", "dør",
    "ovi", "kapı", "kasa", "kilit", "riasztó", "széf", "kapu",
)  # fmt: skip
#: In which keys are kept, wherever these stand.
_BOXES: Final = ("lockbox", "lock box", "keybox", "key box", "key safe", "keysafe", "schlüsselbox", "schlüsselsafe")
#: Machines have codes of their alarms: such a one is told only by a word for is.
_ALARM: Final = ("alarm", "larm")
#: What it is a code for, in any language: how words begin.
_THINGS: Final = (
    "door", "front door", "gate", "alarm", "garage", "lock", "padlock", "keypad", "safe", "entrance", "elevator",
    "shed", "voicemail", "sim", "vault", "suitcase", "bike", "phone", "ipad", "tablet", "card", "building",
    "house", "flat", "apartment", "cabin", "office", "storage", "barn",
    "tür", "haustür", "tresor", "tor", "schlüssel", "schließfach", "spind", "handy", "karte", "schloss",
    "fahrradschloss",
    "nøgleboks", "nøkkelboks", "nyckelskåp", "avainboks", "keybox", "key box", "lockbox", "sleutelkluis",
    "koffer", "eingang", "keller", "carte", "cb", "porte", "portail", "coffre", "cadenas", "immeuble", "téléphone",
    "portable", "entrée", "boîte à clé", "interphone", "hall", "casier", "résidence", "ascenseur", "puerta",
    "caja fuerte", "tarjeta", "candado", "portal", "portón", "móvil", "celular", "buzón", "edificio", "taquilla",
    "porta", "portão", "cofre", "cartão", "cadeado", "prédio", "allarme", "antifurto", "cancello", "portone",
    "cassaforte", "bancomat", "carta", "lucchetto", "cassetta", "voordeur", "deur", "kluis", "poort", "slot", "hek",
    "larm", "dörr", "kassaskåp", "kort", "skåp", "dør", "lås", "pengeskab", "bram", "drzwi", "domofon", "sejf", "furtk",
    "klatk", "kart", "skrytk", "kłódk", "szafk", "dveř", "trezor", "brán", "vrat", "zámk", "kárty", "ajtó", "lakat",
    "cajero", "vchod",
    "poart", "interfon", "seif", "ușă", "pintu", "brankas", "pagar", "gembok", "loker", "thẻ", "cửa", "két", "cổng",
    "сейф", "двер", "домофон", "подъезд", "під'їзд", "під’їзд", "сигнал", "ворот", "квартир", "карт", "замк", "калитк",
    "хвіртк", "телефон", "гараж", "باب", "الباب", "الخزنة", "البطاقة", "הדלת", "לדלת", "הכספת", "לכספת", "האזעקה",
    "הכניסה", "לבניין", "השער", "הבניין", "כניסה", "الدخول", "کارت",
)  # fmt: skip
_CODE: Final = rf"(?<![^\W_]){trie(CODES)}(?![^\W_])"
_OF_A_THING: Final = rf"{_CODE}(?: [^\W\d_][\w'’]{{0,15}}){{0,3}}?[ '’]{trie(_THINGS)}[^\W\d_]{{0,6}}(?![^\W_])"
#: Between a name and what it names; without a colon, after which another one may be named.
WORD: Final = r"(?:,? [^\W\d_][\w'’/\-]{0,30}| \([^()\n]{1,30}\))"
_OPENING: Final = (
    rf"(?<![^\W_])(?:{trie(_OPENED)}[ \-]?|{trie(_BOXES)}{WORD}{{0,4}}?,? (?:the )?){trie(CODES)}(?![^\W_])"
)
_ALARMING: Final = rf"(?<![^\W_]){trie(_ALARM)}[ \-]?{trie(CODES)}(?![^\W_])"
_WIFI: Final = r"(?:wlan|wi-?fi|wpa2?)"
_PASSWORD: Final = (
    rf"(?:{trie((*EVERY_WORD, *STEMS))}[^\W\d_]{{0,4}}|"
    rf"(?P<key>{_WIFI}[ \-]?(?:netzwerk)?(?:schlüssel|schluessel|sleutel|key|code)|"
    rf"(?:clé|code|clave|chiave) (?:du )?{_WIFI}))"
)
#: The number comes now.
_BRINGS: Final = (
    rf"(?:,? (?P<is>{IS}(?: (?:le|el|il|the|either|entweder))?|(?<=pin )on|(?<=koodi )on|saya)(?: ?:)?|"
    r"(?P<sign> ?[:：=])| (?P<dash>[—–\-])|(?P<joined>[是为為はが은는가이])| (?P<onto>auf|op))"
)
#: The other of two that it may be.
_OR: Final = r"(?:(?<= )[0-9]{4,8} (?:or|oder|ou|o|of|eller) )?"
#: After a PIN to which something is changed.
_SET: Final = re.compile(r" (?:um)?(?:geändert|gesetzt|gestellt|gewechselt|gezet|gewijzigd|veranderd)(?![^\W_])")
_TOLD: Final = re.compile(
    rf"(?:(?P<pin>{_PIN})|(?P<opening>{_OPENING})|(?P<code>{_ALARMING}|{_OF_A_THING})|(?P<password>{_PASSWORD}))"
    rf"(?P<subject>{WORD}{{0,6}}?)(?:{_BRINGS}|(?= ?{QUOTE}\Z)) ?{_OR}{QUOTE}\Z"
)
#: What other codes and pins are of.
_OTHER: Final = re.compile(
    rf"(?<![^\W_])(?:{OTHER_CODES}|result|dial-in|promo|discount|coupon|voucher|confirmation|verification|"
    r"one[- ]?time|gpio|led|crank|clevis|dowel|enamel|lapel|connector|drive|signal|opt|bowling|push|safety|rolling|hat|"
    r"tie|cotter|firing|king|map|header|each|every|any|meeting|conference|zoom|webinar)[ _.\-]+\Z"
)
#: What is said where none is told.
_ABOUT: Final = re.compile(
    r"(?<![^\W\d_])(?:must|should|digits?|characters?|length|errors?|fault|fehler|erreur|erro|invalid|attempts?|postal|"
    r"zip|region|diode|header|count|rated|expir\w*|since|introduced|invented|costs?|price|per|limit|lines?|module|"
    r"firmware|software|example|version|ending|fees?|average|than|about|around|least|only|manager|"
    r"policy|policies|hash\w*|strength|points?|maps?|lists?|resets?|databases?|tickets|breach\w*|users?|(?:in|on|of|for|over|after|before|until|called)\Z)"
    r"(?![^\W\d_])|\A (?:mère|madre|mãe)(?![^\W\d_])"
)
#: Figures as a PIN or a code has them, of doors with a letter, of locks turn by turn.
FORM: Final = re.compile(
    r"(?:(?P<digits>[0-9]{4,20})[#*A-Z]?|[0-9]{2}[A-Z#*К][0-9]{2,5}|(?P<turns>[0-9]{1,2}-[0-9]{1,2}-[0-9]{1,2}))"
    rf"(?!{LETTER}|[%€$£°\-]|[.,:/][0-9]| [0-9]{{4}} [0-9])"
)
#: What is counted or measured.
UNIT: Final = re.compile(
    r"[ \-]?(?:times|bytes?|bits?|[kmg]b|people|users|rows|lines|items|units|records|tokens|euros?|eur|dollars?|usd|"
    r"pounds?|lbs?|[ckm]?m|[km]?g|m?v|w|hz|k?n|nm|psi|bar|"
    r"rpm|years?|days?|weeks?|months?|hours?|minutes?|ms|seconds?|points?|pages?|pcs|"
    r"pieces|characters?|chars|digits?|letters?|words?|ziffern|zeichen|stell\w+|jahre|tage|caract\w+|dígitos|chiffres|"
    r"cifre|cifras|cijfers|tekens|znak\w+|cyfr\w*|символ\w*|цифр\w*|знак\w*|lettres|combinations|possibilities|"
    r"roadmap|edition|visitors|visits|entries|views|accounts|usuarios|utilisateurs)(?![^\W_])"
    r"|[ \-]?[位個个桁字文通回年자]",
    re.IGNORECASE,
)
YEAR: Final = re.compile(r"(?:19|20)[0-9]{2}\Z")
#: Right before a word for a PIN or a password, whose it is: no postal code's, and no website's.
_WHOSE: Final = re.compile(
    r"(?<![^\W_])(?:card|phone|router|wps|bank(?:ing)?|sim|atm|debit|credit|visa|door|alarm|app|safe|voicemail|my|his|her|your|"
    r"their|mein\w{0,2}|mon|ton|son|mi|tu|su|minha|meu|mijn|min|mitt|kart\w{0,4}|kapı|telefon\w{0,5}|vault|"
    r"ipad|iphone|laptop|screen|tablet|pattern|unlock|locker|gate|garage|karten|tresor|handy|konto|codice|kod|code|código|use|enter|"
    r"카드|현관|현관문|도어락|银行卡|门锁|门禁|支付|取款|开机|手机|保险箱|保险柜|行李箱)"
    r"(?:['’]s)?[ \-]?\Z"
)
_FOR_A_CARD: Final = re.compile(
    r"(?<![^\W_])(?:card|debit|credit|visa|atm|bank|phone|sim|karte|carte|tarjeta|carta|cartão|kart|kort|pas|thẻ|kártya|telefon|телефон|"
    r"bancomat|карт)"
)
#: What else has a PIN of many figures, if a word brings it.
_FOR_A_LOCK: Final = re.compile(
    r"(?<![^\W_])(?:alarm|allarme|larm|safe|vault|locker|garage|gate|tresor|coffre|cofre|cassaforte|kluis|sejf|сейф|"
    r"сигнал)"
)
_CHANGED: Final = re.compile(r"(?<![^\W_])(?:set|chang|reset|updat)\w*(?![^\W_])")
#: So many figures one of these has at most, and an Indian postal code, which is called a PIN, too.
_MOST, _POSTAL = 8, 6
#: Such a key of a network has more.
_MOST_OF_A_KEY: Final = 20
#: Words between, where none says that it comes now.
_FEW: Final = 2


_ROUGH_CODE: Final = trie(plain_ones(CODES))
_ROUGH_OPENED: Final = trie(plain_ones((*_OPENED, *_ALARM)))
#: What every plain text has in which one is told, but for passwords, and for codes (`said_codes`), ...
ROUGH: Final = (
    rf"{WORD_BEGINS}(?i:{trie(plain_ones(_PINS))})[^A-Za-z0-9][^\n]*?[0-9]",
    rf"(?i:{trie(plain_ones(_UNSPACED_PINS))})[^\n]*?[0-9]",
    rf"(?i:{trie(plain_ones(_BOXES))})[^\n]*?[0-9]",
    rf"(?i:{_ROUGH_OPENED}[ \-]?{_ROUGH_CODE})[^\n]*?[0-9]",
)
#: ... and what others may have instead.
ROUGH_OF_OTHERS: Final = f"(?i:{trie(other_ones((*_PINS, *_UNSPACED_PINS, *CODES, *_THINGS)))})"
_STEM: Final = 3
_STEMS: Final = shortest(word if word[0] in "mpn" else word[:_STEM] for word in (*_PINS, *_UNSPACED_PINS, *CODES))
#: One of these is in all of them, ...
STEMS_OF_WORDS: Final = f"(?i:{trie(_STEMS)})"
#: ... and, in small letters, one of these or a word for a password to the left of each.
HINTS: Final = (*_STEMS, "wlan", "wifi", "wi-fi", "wpa")


def pin_at(left: str, view: str) -> int:
    """The end of a PIN, a code or a password of figures that a view begins with, told so by what is left of it."""
    found = FORM.match(view)
    if found is None or UNIT.match(view, found.end()):
        return 0
    plain, left = left, left.lower()
    start = max(0, len(left) - LEFT)
    told = _TOLD.search(left, start)
    if told is None or _ABOUT.search(told["subject"]):
        return 0
    before = left[start : told.start()]
    if _OTHER.search(before):
        return 0
    digits = found["digits"] or ""
    if told["onto"] and not _SET.match(view, found.end()):
        return 0
    brought = told["is"] or told["sign"] or told["dash"] or told["joined"] or told["onto"]
    if digits.startswith("00") and told["code"]:
        return 0
    if len(digits) > (_MOST_OF_A_KEY if told["key"] else _MOST) or (brought is None and YEAR.match(digits)):
        return 0
    if told["opening"]:
        return found.end() if brought is not None or not told["subject"] else 0
    if told["code"]:
        at_once = not told["subject"] and not told["code"].startswith(_ALARM) and not _HAS_NUMBERS.search(told["code"])
        return found.end() if brought is not None or at_once else 0
    if view[: found.end()].rstrip("#*") != digits and told["pin"] != _DOORS:
        return 0
    if told["password"]:
        return found.end() if not YEAR.match(digits) and _tells_a_password(told, before) else 0
    if _MEETING.search(before) or (told["pin"] == "pin" and _ARTICLE.search(before)):
        return 0
    whose = not told["pin"].isascii() or told["pin"] in _PLAIN_PINS
    whose = whose or _WHOSE.search(before) is not None or _FOR_A_CARD.search(told["subject"]) is not None
    if brought is not None:
        whose = whose or _FOR_A_LOCK.search(told["subject"]) is not None
        return found.end() if len(digits) < _POSTAL or whose else 0
    if told["subject"] and (told["subject"].count(" ") > _FEW or _FOR_A_CARD.search(told["subject"]) is None):
        return 0
    word = plain[len(plain) - len(left) + told.start("pin") :]
    return found.end() if whose or (word[:3] == "PIN" and len(digits) < _POSTAL) else 0


def _tells_a_password(told: re.Match[str], before: str) -> bool:
    """Whether it is figures that a word for a password tells."""
    if told["password"].endswith("s") and told["password"].isascii():
        return False
    if told["is"] in _TO:
        return _CHANGED.search(before + told.group()) is not None
    if told["is"] in _DASHES or told["dash"] is not None:
        return False
    return told.group("is", "sign", "joined", "onto") != (None, None, None, None) or (
        (_WHOSE.search(before) or _FOR_A_CARD.search(told["subject"])) is not None
    )


_DASHES: Final = ("-", "–", "—")
_TO: Final = ("to", "para")
#: Whose PIN all who were asked to it know.
_MEETING: Final = re.compile(r"dial-?in|einwahl|conference|conférence|meeting|webinar|zoom|webex")
#: Such a thing has a number, too.
_HAS_NUMBERS: Final = re.compile(
    r"(?<![^\W_])(?:door|porte|porta|puerta|portal|portable|phone|téléphone|телефон\w*|tür|tor|entrée|entrance|flat|house|"
    r"apartment|office|building|hall|lock|card|carte|carta|tarjeta|karte|kart\w*|slot|hek)\Z"
)
#: Before a pin of metal.
_ARTICLE: Final = re.compile(r"(?<![^\W_])a \Z")
_DOORS: Final = "digicode"
#: Those that mean nothing else.
_PLAIN_PINS: Final = (
    "puk",
    _DOORS,
    "geheimzahl",
    "tunnusluku",
    "bankkod",
    "bankkoden",
    "portkod",
    "portkoden",
    "kartenpin",
    "handypin",
    "bankpin",
    "simpin",
    "tresorpin",
    "pin-nya",
    "pinnya",
    "code secret",
    "code confidentiel",
    "código secreto",
    "codice segreto",
    "clave secreta",
)
