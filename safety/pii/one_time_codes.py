"""Codes that are sent to be typed once, as for logins and payments, which only their names tell from other numbers."""

import re
from typing import Final

from safety.pii.emails import WORD as LETTER
from safety.pii.password_words import trie
from safety.pii.said_pins import UNIT, WORD, YEAR
from safety.pii.telling import IS, LEFT, QUOTE, WORD_BEGINS
from safety.plain_text import plain_ones

#: In English they have many names.
_ENGLISH: Final = (
    "verification", "security", "login", "log in", "logon", "sign in", "one time", "onetime", "single use", "2fa",
    "mfa", "two factor", "two step", "authentication", "authenticator", "sms", "reset", "whatsapp", "telegram",
    "confirmation", "otp",
)  # fmt: skip
_ENDS: Final = ("code", "passcode", "pin", "password")
#: In small letters, each a word of its own. A blank is an underscore or a hyphen, too.
_NAMES: Final = (
    *(f"{first} {last}" for first in _ENGLISH for last in _ENDS),
    "otp", "otp-nya", "otpnya", "2fa", "blik", "tan", "mtan", "smstan", "pushtan", "tan code", "tan nummer",
    "bestätigungscode", "verifizierungscode", "verifikationscode", "sicherheitscode", "anmeldecode", "logincode",
    "einmalcode", "einmal code", "einmalpin", "freigabecode", "authentifizierungscode",
    "code de vérification", "code de verification", "code de sécurité", "code de securite", "code à usage unique",
    "code de connexion", "code de confirmation", "code d'authentification", "code d’authentification",
    "code de validation", "code sms", "code reçu par sms",
    *(
        f"{code} de {use}" for code in ("código", "codigo") for use in (
            "verificación", "verificacion", "seguridad", "un solo uso", "inicio de sesión", "confirmación",
            "autenticación", "verificação", "segurança", "confirmação", "uso único", "autenticação", "login",
        )
    ),
    "código sms", "clave dinámica",
    "codice di verifica", "codice di sicurezza", "codice di conferma", "codice di autenticazione", "codice monouso",
    "codice usa e getta", "codice sms",
    "codi de verificació", "codi de seguretat",
    "verificatiecode", "beveiligingscode", "inlogcode", "eenmalige code", "bevestigingscode",
    "verifieringskod", "verifieringskoden", "engångskod", "engångskoden", "säkerhetskod", "säkerhetskoden",
    "inloggningskod", "bekræftelseskode", "bekræftelseskoden", "engangskode", "engangskoden", "sikkerhedskode",
    "sikkerhedskoden", "bekreftelseskode", "bekreftelseskoden", "sikkerhetskode", "sikkerhetskoden",
    "vahvistuskoodi", "vahvistuskoodisi", "kertakoodi", "kertakäyttökoodi", "turvakoodi",
    "kod weryfikacyjny", "kod jednorazowy", "jednorazowy kod", "kod potwierdzający", "kod bezpieczeństwa", "kod sms",
    "kod z sms", "kod blik", "kod logowania", "kod do logowania",
    "ověřovací kód", "jednorázový kód", "bezpečnostní kód", "potvrzovací kód", "overovací kód", "bezpečnostný kód",
    "ellenőrző kód", "egyszer használatos kód", "biztonsági kód", "megerősítő kód",
    "cod de verificare", "codul de verificare", "codul tău de verificare", "cod de securitate", "codul de securitate",
    "cod de confirmare", "codul de confirmare",
    "doğrulama kodu", "doğrulama kodunuz", "onay kodu", "onay kodunuz", "güvenlik kodu", "güvenlik kodunuz",
    "kod za verifikaciju", "verifikacioni kod", "kod za potvrdu",
    "kode verifikasi", "kode keamanan", "kode konfirmasi", "kod pengesahan",
    "mã xác nhận", "mã xác thực", "mã xác minh",
    "код подтверждения", "проверочный код", "одноразовый код", "код безопасности", "код для входа", "код входа",
    "код из смс", "код из sms", "смс код", "код авторизации",
    "код підтвердження", "одноразовий код", "код безпеки", "код для входу", "код із смс", "код з смс", "смс код",
    "код за потвърждение", "еднократен код",
    "κωδικός επαλήθευσης", "κωδικός επιβεβαίωσης", "κωδικός μίας χρήσης", "κωδικός μιας χρήσης",
    "رمز التحقق", "كود التحقق", "رمز التأكيد", "رمز الأمان", "كود التفعيل", "کد تأیید", "کد تایید", "کد ورود",
    "رمز پویا", "رمز یکبار مصرف",
    "קוד אימות", "קוד האימות", "קוד חד פעמי", "הקוד החד פעמי", "קוד הזדהות",
)  # fmt: skip
#: Scripts in which other letters may stand right before or after.
_UNSPACED: Final = (
    "認証コード", "認証番号",
    "入館コード", "解錠コード", "解除コード", "ドアコード", "確認コード", "验证码",
    "驗證碼", "动态码", "動態碼", "인증번호", "인증 번호", "인증코드",
    "인증 코드", "ओटीपी", "सत्यापन कोड", "ওটিপি", "รหัสยืนยัน", "โอทีพี",
)  # fmt: skip


def _spaced(name: str) -> str:
    return name.replace(r"\ ", r"[ _\-]")


def _any(names: tuple[str, ...]) -> str:
    return _spaced(trie(names))


_NAME: Final = rf"(?:(?<![^\W_]){_any(_NAMES)}(?![^\W_])|{_any(_UNSPACED)})"
#: Whose name it is, where they stay, and what brings the code; a letter has it on a line of its own.
_TOLD: Final = re.compile(
    rf"(?P<name>{_NAME})[\"'*]{{0,2}}(?P<subject>{WORD}{{0,6}}?)"
    rf"(?:(?P<is>,? (?P<verb>{IS}|on|saya)(?: (?:le|el|il|the))?(?: ?:)?)|(?P<sign> ?[:：=])(?:\*{{0,2}} ?\n{{1,2}})?"
    rf"|(?P<joined>[是为為はが는은가이]))? ?{QUOTE}\Z"
)
#: What is said right before a name of another thing.
_OTHER: Final = re.compile(
    r"(?<![^\W_])(?:error|fault|promo|discount|coupon|voucher|booking|reservation|order|hotel|sample|example|message|"
    r"building|national|social|labou?r|maritime|no|invalid|wrong)[ _.\-]+\Z"
)
#: What is said where none is told.
_ABOUT: Final = re.compile(
    r"(?<![^\W\d_])(?:must|should|digits?|characters?|length|errors?|invalid|attempts?|limit|lines?|module|codes|library|"
    r"firmware|software|example|version|ending|ends|than|about|around|least|only|policy|policies|costs?|price|per|"
    r"since|introduced|expir\w*|bank|number|phone|(?:in|on|of|for|over|after|before|until|at|from|with|to)\Z)"
    r"(?![^\W\d_])"
)
#: Of orders and failover streams, what confirms them.
_CONFIRMS: Final = re.compile(
    r"confirm|bestätig|bevestig|bekr|vahvist|potw|potvr|conferm|onay|konfirm|подтв|підтв|потв"
)
_ORDERED: Final = re.compile(
    r"order|book(?:ed|ing)|reserv|réserv|flight|hotel|airbnb|trip|ticket|deliver|check-?in|stay|buchung|bestell|"
    r"reise|flug|commande|vuelo|pedido|prenot|ordine|rezer[wv]|zamów|sipariş|pesanan|заказ|брон|замовл"
)
#: Of shares.
_SHARES: Final = re.compile(r"stock|exchange|listed|shares?(?![a-z])|isin|ticker|nikkei")
#: Four to eight figures, or twice three; some senders put their letter before them.
FORM: Final = re.compile(
    rf"(?:[A-Z]{{1,2}}-)?(?:[0-9]{{3}}[ \-][0-9]{{3}}|[0-9]{{4,8}})(?!{LETTER}|[%€$£°\-]|[.,:/][0-9]| [0-9]{{3}})"
)
#: As texts have them that show what one looks like.
_SAMPLES: Final = re.compile(r"0*1?2345?6?7?8?9?0?\Z|(.)\1*\Z|654321\Z|87654321\Z")
_FEWEST_AT_ONCE: Final = 6
_TO: Final = ("to", "para")
#: In capitals: small letters are a colour's and a function's.
_TAN: Final = "TAN"

_SOON: Final = r"[^\n]*?\n?[^\n]*?\n?[^\n]*?[0-9]"
_LOUD: Final = tuple(name for name in (*_NAMES, *_UNSPACED) if name != "tan")
_PLAIN: Final = plain_ones(_LOUD)
#: What every plain text has in which one is told. To Hyperscan names that are told one by one cost nothing, and all of
#: them together as much as everything else.
ROUGH_OF_PLAIN: Final = (
    *(rf"{WORD_BEGINS}(?i:{_spaced(re.escape(name))}){_SOON}" for name in _PLAIN),
    rf"{_TAN}[^A-Za-z0-9]{_SOON}",
)
#: What every text has.
ROUGH: Final = rf"(?i:{_any(_LOUD)})|{_TAN}[^A-Za-z0-9]"
_STEMS: Final = (
    "otp", "2fa", "blik", "clave", "password", "コード", "番号", "码", "碼", "인증", "ओटीपी", "कोड", "ওটিপি", "รหัส",
    "โอที", "κωδ", "کد", "رمز",
)  # fmt: skip
#: One of these is in all that have none of said_pins.STEMS_OF_WORDS, ...
STEMS: Final = rf"{_TAN}|(?i:tan[ _\-]nummer|{'|'.join(_STEMS)})"
#: ... and, in small letters, one of these or of said_pins.HINTS to the left of each.
HINTS: Final = (*_STEMS, "tan")


def one_time_code_at(left: str, view: str) -> int:
    """The end of such a code that a view begins with, told so by what is left of it, or 0."""
    found = FORM.match(view)
    if found is None or UNIT.match(view, found.end()):
        return 0
    plain, left = left, left.lower()
    told = _TOLD.search(left, max(0, len(left) - LEFT))
    if told is None or _ABOUT.search(told["subject"]):
        return 0
    digits = re.sub(r"[^0-9]", "", found.group())
    name = told["name"]
    if name.endswith("tan") and (_TAN not in plain or len(digits) < _FEWEST_AT_ONCE):
        return 0
    before = left[: told.start()]
    if _SAMPLES.match(digits) or _OTHER.search(before) or (_CONFIRMS.search(name) and _ORDERED.search(left)):
        return 0
    if name.startswith("security") and (YEAR.match(digits) or _SHARES.search(left)):
        return 0
    if told["verb"] in _TO and not name.startswith("kod "):
        return 0
    brought = told["is"] or told["sign"] or told["joined"]
    if brought is None and (told["subject"] or len(digits) < _FEWEST_AT_ONCE):
        return 0
    return found.end()
