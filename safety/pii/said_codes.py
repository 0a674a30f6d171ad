"""Codes that a sentence tells: of a lock, sent to somebody, or for logging in; before or after it."""

import re
from typing import Final

from safety.pii.emails import WORD as LETTER
from safety.pii.password_words import shortest, trie
from safety.pii.said_pins import CODES, UNIT, YEAR
from safety.pii.telling import IS, LEFT, OTHER_CODES, QUOTE, WORD_BEGINS
from safety.plain_text import other_ones, plain_ones

#: What is locked, and by what: how words begin, wherever they stand in the sentence or the one before.
_LOCKS: Final = (
    "door", "gate", "garage", "lock", "padlock", "keypad", "keybox", "key box", "key safe", "keysafe", "safe", "alarm",
    "cabinet", "locker", "intercom", "entrance", "vault", "suitcase",
    "tür", "haustür", "tor", "tresor", "schlüsseltresor", "schlüsselbox", "schlüsselsafe", "schließfach", "schloss",
    "fahrradschloss", "alarmanlage", "spind", "porte", "portail", "coffre", "cadenas", "boîte à clé", "interphone",
    "casier", "alarme", "puerta", "portón", "caja fuerte", "caja", "candado", "taquilla", "alarma", "porta", "portão",
    "cofre", "cadeado", "allarme", "cancello", "portone", "cassaforte", "cassetta", "lucchetto", "deur", "voordeur",
    "poort", "kluis", "sleutelkluis", "hangslot", "dörr", "skåp", "lås", "nyckelskåp", "dør", "nøgleboks",
    "nøkkelboks", "ovi", "lukko", "avainboksi", "drzwi", "brama", "furtk", "sejf", "skrytk", "kłódk", "domofon",
    "dveř", "vrat", "zám", "trezor", "ajtó", "kapu", "lakat", "széf", "ușă", "ușa", "poart", "interfon", "seif",
    "lacăt", "kapı", "kasa", "kilit", "двер", "домофон", "подъезд", "сейф", "ворот", "калитк", "замок", "замк",
    "під'їзд", "під’їзд",
)  # fmt: skip
_LOCK: Final = rf"(?<![^\W_]){trie(_LOCKS)}[^\W\d_]{{0,6}}(?![^\W_])"
_NAMES: Final = (*CODES, "passcode", "kodunuz", "codul")
_CODE: Final = rf"(?<![^\W_]){trie(_NAMES)}(?![^\W_])"
#: The same without those that may be of colours, words or players.
_OTHERS_TOO: Final = ("com", "kom", "zahlenk", "ком", "szyfr")
_PLAINLY: Final = rf"(?<![^\W_]){trie(name for name in _NAMES if not name.startswith(_OTHERS_TOO))}(?![^\W_])"
#: Not what one is sent to.
_IS: Final = rf"(?!(?<!kod )to |para )(?:{IS})"
_NAMED: Final = re.compile(_CODE)
#: Whose it is, or that it is known which.
_OWN: Final = (
    r"(?<![^\W_])(?:your|my|his|her|their|our|the|this|ihr|dein|mein|unser|der|dieser|votre|ton|mon|notre|le|ce|tu|su|"
    r"mi|vuestro|el|este|tuo|suo|mio|vostro|il|questo|seu|teu|meu|o|jouw|uw|mijn|onze|de|din|ditt|min|mitt|vår|"
    r"twój|mój|pański|váš|tvůj|můj|твой|ваш|мой|твій|мій)"
)
_SENT: Final = (
    r"(?<![^\W_])(?:texted|sent|gave|given|give|e-?mailed|messaged|received|got|get|geschickt|gegeben|gab|bekam|"
    r"bekommen|erhalten|kam|envoyé|reçu|donné|arrivé|enviaron|mandaron|dieron|enviado|recibí|recibido|llegó|llegado|"
    r"mandato|inviato|ricevuto|arrivato|dato|enviou|enviaram|mandaram|recebi|recebido|chegou|gestuurd|gekregen|kreeg|"
    r"stuurde|fick|fått|fikk|fik|fået|ga|gav|skickade|skickat|sendte|sendt|dostał[ae]?m?|przysłali|przyszedł|wysłali|"
    r"přišel|poslali|dostal[ia]?|primit|trimis|dat|kaptam|küldtek|aldım|geldi|gönderdi(?:ler)?|verdi(?:ler)?|прислали|"
    r"получил[аи]?|пришёл|пришел|дали|отправили|надіслали|отримав|отримала|прийшов)(?![^\W_])"
)
_TYPE: Final = (
    r"(?<![^\W_])(?:enter|type|key in|punch in|saisis(?:sez)?|entrez?|compose[rz]?|tape[rz]?|gib|geben sie|eingeben|"
    r"tippe|"
    r"introduce|introduzca|ingresa|ingrese|teclea|marca|digita|inserisci|componi|insira|digite|voer|vul|toets|wpisz|"
    r"podaj|zadejte|ange|slå|tast|indtast|введите|набери(?:те)?|введіть)"
)
_USE: Final = (
    r"(?<![^\W_])(?:use|enter|utilise[rz]?|saisis(?:sez)?|verwende(?:n sie)?|nutze(?:n sie)?|usa|utiliza|ingresa|"
    r"introduce|inserisci|utilizza|gebruik|użyj|wpisz|använd|bruk|brug|введите|используйте)"
)
_OPENS: Final = (
    r"(?:opens?|unlocks?|disarms?|goes off|is (?:opened|unlocked|disarmed)|geht|öffnet(?: sich)?|wird entsperrt|"
    r"s['’]ouvre|se déverrouille|se désactive|se (?:abre|quita|desactiva|desbloquea)|si (?:apre|sblocca|disattiva)|"
    r"abre|desarma|otwiera(?: się)?|otevírá(?: se)?|opent|gaat open|öppnas|åbnes|åpnes|aukeaa|открывается|"
    r"відкривається)"
)
_OPEN: Final = (
    r"(?<![^\W_])(?:open|unlock|disarm|get in|öffne[nt]?|aufmach\w*|ouvr\w{1,4}|abr\w{1,4}|apr\w{1,4}|otw\w{2,6}|"
    r"openen|öppna[rt]?|åbn\w{0,3}|åpn\w{0,3}|откр\w{2,6})"
)
_WITH: Final = r"(?:with|using|mit|avec|con|com|met|med|z kodem|kodem|на|с|кодом|через)"
_WORDS: Final = r"(?: [^\W\d_][\w'’\-]{0,14})"
_QUIET_TEXT: Final = r"[^.!?\n]"
_TOLD: Final = re.compile(
    rf"(?:(?P<own>{_OWN}{_WORDS}{{0,2}}? {_PLAINLY}(?:,? {_IS}(?: ?:)?| ?[:：]))"
    rf"|(?P<moved>(?:{_CODE}|(?<![^\W_])pin){_QUIET_TEXT}{{2,40}}(?:it(?:['’]s| is) now|now it(?:['’]s| is)|mine is))"
    rf"|(?P<sent>{_SENT}{_WORDS}{{0,4}} {_CODE}[,:]?(?: {_IS})?)"
    rf"|(?P<clause>{_CODE}(?P<subject>(?:,? [^\W\d_][\w'’.\-]{{0,14}}){{1,7}}?),? {_IS}(?: ?:)?)"
    rf"|(?P<typed>{_TYPE}{_WORDS}{{0,3}} {_CODE})"
    rf"|(?P<opened>{_LOCK}{_QUIET_TEXT}{{0,32}}? {_OPENS}{_WORDS}? {_WITH}(?: (?:the )?{_CODE})?"
    rf"|{_OPEN}{_QUIET_TEXT}{{0,16}}? {_LOCK}{_QUIET_TEXT}{{0,12}}? {_WITH}(?: (?:the )?{_CODE})?)"
    rf"|(?P<locked>{_LOCK}[^!?]{{0,40}}?{_CODE}(?P<locked_is>,? {_IS}(?: ?:)?| ?[:：])?)"
    r"|(?P<passcode>(?<![^\W_])(?:pass ?code|pin|pin code|access code|security number)"
    rf"(?:{_WORDS}{{0,4}}? {IS}|:)?)"
    r"|(?P<safe>(?<![^\W_])(?:key ?safe|key ?box|lock ?box|schlüsselbox|schlüsseltresor)"
    rf"(?: {_CODE}|{_WORDS}{{0,5}}? {_IS})?[:,]?)"
    rf") ?{QUOTE}\Z"
)
#: Machines have codes of theirs.
_ALARMS: Final = re.compile(rf"al+arm[aei]?[ \-]{_CODE}")
_SENT_BY_SOMEBODY: Final = re.compile(
    rf"{_SENT}|(?<![^\W_])(?:dvs|asked|requested|ordered|angefordert|demandé|solicit)"
)
#: What other codes are of, said before the word, ...
_OTHER: Final = re.compile(
    rf"(?<![^\W_])(?:{OTHER_CODES}|http|hs|cpt|icd|nace|sic|iata|icao|course|class|module|subject|stock|hex|ascii|"
    r"char(?:acter)?|unicode|scan|op|key|port|pin|byte|machine|morse|produkt|erreur|postleit\w*|producto|errore?|"
    r"prodotto|produto|błędu|pocztowy|chyby|ошибки|товара|customs|project|cost|department|branch|location|reason|"
    r"billing|procedure|customer|account|routing|bank|swift|version|vendor|material|style|size|lot|batch|fare|"
    r"language|region|invite)[ _.\-]+\Z"
)
#: ... and of whom there is talk then.
_PROMOTED: Final = re.compile(
    r"promo|discount|coupon|voucher|gift|gutschein|rabatt|réduction|descuento|sconto|desconto|korting|rabat|indirim|"
    r"скидк|checkout|basket|campaign|referral|referr|example|beispiel|ejemplo|exemple|esempio"
)
#: Figures as such codes have them.
FORM: Final = re.compile(
    r"(?:[0-9]{3}[ \-][0-9]{3}|(?P<pairs>[0-9]{2} [0-9]{2} [0-9]{2})|[0-9]{1,2}(?:-[0-9]{1,2}){2,3}|"
    r"(?P<figures>[0-9]{4,8})[#*]?|[0-9]{2}[A-Z#*К][0-9]{2,5}|[A-Z][0-9]{4}[A-Z]?|[0-9]{4}[A-Z])"
    rf"(?!{LETTER}|[%€$£°\-]|[.,:/][0-9]| [0-9]{{3}})"
)
_FEWEST_TYPED: Final = 6
#: Keys that come in groups, and what they are called.
_GROUPS: Final = re.compile(r"(?=[A-Z0-9\-]*[0-9])(?=[A-Z0-9\-]*[A-Z])[A-Z0-9]{3,6}(?:-[A-Z0-9]{3,6}){1,7}(?![\w\-])")
_OF_GROUPS: Final = (
    r"(?:activation|licen[cs]e|product|recovery|backup|registration|setup|pairing|access|unlock|security|sign-?in|"
    r"log-?in|aktivierungs|lizenz)"
)
_GROUPED: Final = re.compile(rf"(?<![^\W_]){_OF_GROUPS}[ \-]?(?:key|code|schlüssel)s?(?: {IS}| ?[:：])? ?{QUOTE}\Z")
#: The code of a card.
_OF_CARDS: Final = ("cvv", "cvc", "csc", "cvn")
_CARDS: Final = re.compile(rf"(?<![^\W_]){trie(_OF_CARDS)}2?(?: (?:code|number))?(?: {IS}| ?[:：=])? ?{QUOTE}\Z")
#: Where one of three figures is looked for, behind its first.
AFTER_CARDS: Final = "|".join(
    rf"(?<=(?i:cv[vcn]|csc){between}.)"
    for between in ("[ :=]", "[:2][ :=]", "2[:=] ", "(?i: is )", "(?i: code )", "(?i: code: )")
)
_CARD_FORM: Final = re.compile(rf"[0-9]{{3,4}}(?!{LETTER}|[.,:/\-%][0-9]| [0-9]{{3}})")
_IS_OF: Final = (
    "is", "ist", "est", "es", "è", "é", "e", "er", "är", "to", "este", "je", "jest", "adalah", "это",
)  # fmt: skip
#: What says it after a code that was told: whose it is, or what to do with it.
_AFTER: Final = re.compile(
    rf"(?P<code>(?:[A-Z]{{1,2}}-)?[0-9]{{3}}[ \-]?[0-9]{{1,5}}) (?i:{trie(_IS_OF)}) "
    r"(?i:(?:your|ihr|dein|votre|ton|tu|su|il tuo|il suo|o seu|seu|teu|twój|din|ditt|jouw|uw|je|ваш|твой)"
    r"(?: [^.!?\n]{0,32})?"
    rf" (?:[^\W_]{{0,20}}{trie(('code', 'kod', 'código', 'codigo', 'codice', 'passcode', 'pin', 'otp', 'код'))}))"
    r"(?! (?:limit|length|size|base|point|review|lines?)(?![^\W_]))"
)
_TO: Final = "to|as|pour|um|zum|zur|para|per|om|aby|for|för|чтобы|для"
_LOGGING_IN: Final = (
    "sign", "log", "verif", "confirm", "authenti", "reset", "two-factor", "connect", "anmeld", "bestätig", "verbind",
    "iniciar", "ingresar", "entrar", "acced", "inloggen", "zalogow", "logga", "войти", "вход",
)  # fmt: skip
_TO_LOG_IN: Final = re.compile(
    r"(?P<code>[0-9]{3}[ \-]?[0-9]{1,5}|(?=[A-Z0-9\-]*[0-9])[A-Z0-9]{3,5}-[A-Z0-9]{3,5}) "
    rf"(?i:{_TO}) [^.!?\n]{{0,24}}?"
    rf"(?i:(?<![^\W_]){trie(_LOGGING_IN)})"
)
_USED: Final = re.compile(rf"{_USE}(?: (?:the |le |den |el |il |o |de )?{_CODE})? ?{QUOTE}\Z")


_OPENING: Final = (
    "open", "unlock", "disarm", "goes off", "get in", "geht", "öffn", "aufmach", "entsperrt", "ouvr", "déverrouille",
    "désactive", "abre", "abri", "quita", "desactiva", "desbloquea", "apr", "sblocca", "disattiva", "desarma", "otw",
    "otevírá", "gaat open", "öppna", "åbn", "åpn", "aukeaa", "откры", "відкрива",
)  # fmt: skip
_BOXES: Final = ("key safe", "keysafe", "key box", "keybox", "lock box", "lockbox", "schlüsselbox", "schlüsseltresor")
#: What every plain text has in which one is told, ...
ROUGH_OF_PLAIN: Final = (
    rf"{WORD_BEGINS}(?i:{trie(plain_ones(_NAMES))})[^A-Za-z0-9][^\n]*?[0-9]",
    rf"(?i:{trie(shortest(plain_ones(_OPENING)))})[^\n]*? (?i:with|using|mit|avec|con|com|met|med|kodem) [^\n]*?[0-9]",
    rf"(?i:{trie(_BOXES)})[^A-Za-z]{{1,3}}[A-Z]?[0-9]",
    rf"(?i:{_OF_GROUPS}[ \-]?(?:key|schlüssel))[^\n]*?[A-Z0-9]{{3}}-[A-Z0-9]{{3}}",
    rf"(?i:{trie(_OF_CARDS)})[^\n]*?[0-9]{{3}}",
    rf"[0-9] (?i:{trie(plain_ones(_IS_OF))}) (?i:your|ihr|dein|votre|ton|tu|su|il|o|seu|teu|twój|din|ditt|jouw|uw|je) ",
    rf"[A-Z0-9]{{3}} (?i:to|as|pour|um|zum|zur|para|per|om|aby|for|för) [^\n]*?(?i:{trie(plain_ones(_LOGGING_IN))})",
)
#: ... what others may have instead, ...
ROUGH_OF_OTHERS: Final = f"(?i:{trie(other_ones((*_NAMES, *_OPENING, *_IS_OF, *_LOGGING_IN)))})"
#: ... of which one is in all of them that have none of said_pins.STEMS_OF_WORDS, ...
_STEMS: Final = shortest((*_OPENING, *_BOXES, *_OF_CARDS, *_LOGGING_IN, "key", "schlüssel"))
STEMS: Final = rf"(?i:{trie(_STEMS)}|[0-9] (?:{trie(_IS_OF)}) )"
#: ... and, in small letters, one of these or of said_pins.HINTS to the left of each that what follows does not tell.
HINTS: Final = shortest(
    (*_OPENING, *_BOXES, *_OF_CARDS, "activation", "licen", "product", "recovery", "backup", "key", "schlüssel")
)
#: A place that what follows may tell, as far as that is known.
MAY_BE_TOLD: Final = re.compile(
    rf"(?<![^\W_])(?:(?:[A-Z]{{1,2}}-)?[0-9]{{3}}[ \-]?[0-9]{{1,5}}|[A-Z0-9]{{3,5}}-[A-Z0-9]{{3,5}}) "
    rf"(?:[^\W\d_]{{0,9}}\Z|(?i:{trie(_IS_OF)}|{_TO})(?![^\W_]))"
)


def told_after(left: str, view: str) -> int:
    """The end of a code that a view begins with, told so by what follows it, or 0. `left` is in small letters."""
    after = _AFTER.match(view)
    if after is None:
        after = _TO_LOG_IN.match(view)
        if after is None or _USED.search(left, max(0, len(left) - LEFT)) is None:
            return 0
    return after.end("code")


def code_at(left: str, view: str) -> int:
    """The same of one that is told by what is left of it, in small letters."""
    start = max(0, len(left) - LEFT)
    if _CARDS.search(left, start):
        card = _CARD_FORM.match(view)
        return 0 if card is None else card.end()
    grouped = _GROUPS.match(view)
    if grouped is not None and _GROUPED.search(left, start):
        return grouped.end()
    found = FORM.match(view)
    if found is None or UNIT.match(view, found.end()):
        return 0
    told = _TOLD.search(left, start)
    if told is None or _PROMOTED.search(left, start):
        return 0
    named = max((word.start() for word in _NAMED.finditer(told.group())), default=None)
    if named is not None and _OTHER.search(left, start, told.start() + named):
        return 0
    if told["opened"] is not None:
        return found.end()
    if told["passcode"] is not None:
        return found.end() if found["pairs"] is not None else 0
    figures = found["figures"]
    if figures is not None and (YEAR.match(figures) or (told["typed"] and len(figures) < _FEWEST_TYPED)):
        return 0
    if told["locked"] and told["locked_is"] is None and _ALARMS.search(told["locked"]):
        return 0
    if told["clause"] and _SENT_BY_SOMEBODY.search(told["subject"]) is None:
        return 0
    return found.end()
