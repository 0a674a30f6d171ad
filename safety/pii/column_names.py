"""What columns of tables are called."""

from collections.abc import Collection
from enum import Enum
from typing import Final, NamedTuple

from safety.pii.password_words import ALONE_AS_NAMES, EVERY_WORD


class Form(Enum):
    """What the cells of a column look like."""

    PASSWORD = "password"
    CODE = "code"
    KEY = "key"
    NUMBER = "number"
    PHONE = "phone"


class Name(NamedTuple):
    """What a name tells of a column; a doubtful one only beside a column that tells of a person or an account."""

    kind: str
    form: Form
    doubtful: bool


#: In small letters, with blanks between words.
_PASSWORDS: Final = (
    *EVERY_WORD, "pass word", "pass phrase", "pass code", "passkey", "wifi key", "wi fi key", "wlan key",
    "network key", "network security key", "user pass", "login pass", "wlan schlüssel", "zugangspasswort",
    "palavra passe", "parool", "slaptažodis", "fjalëkalimi", "парола", "лозинка", "登录密码", "登入密碼",
)  # fmt: skip
#: Names of much else.
_DOUBTFUL_PASSWORDS: Final = ALONE_AS_NAMES
_CODES: Final = (
    "pin", "pin code", "pin kod", "pin kode", "código pin", "codigo pin", "code pin", "codice pin", "sim pin", "puk",
    "access code", "access pin", "door code", "gate code", "entry code", "alarm code", "lock code", "unlock code",
    "safe code", "keypad code", "door pin", "security code", "login code", "recovery code", "backup code",
    "code d'accès", "code acces", "digicode", "código de acceso", "codigo de acceso", "codice di accesso",
    "código de acesso", "zugangscode", "türcode", "toegangscode", "portkod", "dörrkod", "dørkode", "пин", "пин код",
    "код доступа", "код домофона", "门禁密码", "開門密碼", "暗証番号",
)  # fmt: skip
_KEYS: Final = (
    "secret key", "secret access key", "client secret", "app secret", "api secret", "consumer secret",
    "shared secret", "webhook secret", "api key", "api token", "access token", "auth token",
    "refresh token", "bearer token", "session token", "security token", "personal access token", "bot token",
    "private key", "access key", "signing key", "encryption key", "master key", "license key", "licence key",
    "activation key", "recovery key", "service key", "auth key", "ssh key", "clé api", "clé d'api",
    "cle api", "clave api", "clave secreta", "chiave api", "chave api", "chave de api", "api schlüssel",
    "api sleutel", "api nyckel", "klucz api", "lizenzschlüssel", "ключ api", "api ключ", "токен", "секрет",
    "секретный ключ", "密钥", "密鑰", "私钥", "令牌", "api密钥", "apiキー", "トークン", "秘密鍵", "api키", "토큰",
    "비밀키", "رمز الوصول",
)  # fmt: skip
#: Of words, designs and warehouses, too.
_DOUBTFUL_KEYS: Final = ("secret", "token", "jeton")
_NUMBERS: Final = (
    "ssn", "social security", "soc sec", "socsec", "us ssn", "itin", "national id", "national identity",
    "national identification", "national id card", "national insurance", "nino", "nhs", "citizen id",
    "citizenship", "citizen service", "identity card", "identity document", "id card", "id document",
    "personal id", "personal identity", "personal identity code", "personal code", "government id", "gov id",
    "passport", "passport id", "pp", "driving licence", "driving license", "driver licence", "driver license",
    "drivers licence", "drivers license", "driver's licence", "driver's license", "tax id", "tax payer id",
    "taxpayer id", "taxpayer identification", "tax identification", "tax file", "tfn", "tax number",
    "individual tax", "sin card", "social insurance", "health insurance", "health card", "medicare", "mbi",
    "residence permit", "residence card", "resident id", "resident registration", "alien registration", "voter id",
    "military id", "kra pin", "philhealth",
    # Spanish, Catalan, Portuguese
    "dni", "nie", "numero documento", "número documento", "numero de documento", "número de documento",
    "num documento", "nro documento", "documento identidad", "documento de identidad",
    "documento nacional de identidad", "cédula", "cedula", "cédula de identidad", "cedula de identidad",
    "cédula de ciudadanía", "cedula de ciudadania", "número de cédula", "numero de cedula", "curp", "cuil",
    "pasaporte", "número de pasaporte", "numero de pasaporte", "licencia de conducir", "seguridad social",
    "número de seguridad social", "numero seguridad social", "nss", "tarjeta de identidad", "cpf",
    "cartão de cidadão", "bilhete de identidade", "passaporte", "número do passaporte", "carta de condução", "cnh",
    "niss", "número de identificação fiscal", "pis", "título de eleitor",
    # French, Italian, Romanian
    "numéro de sécurité sociale", "numero de securite sociale", "sécurité sociale", "n sécu", "numéro sécu",
    "numéro national", "registre national", "numéro fiscal", "numero fiscal", "passeport", "numéro de passeport",
    "carte d'identité", "carte identité", "numéro de carte d'identité", "permis de conduire", "titre de séjour",
    "numéro avs", "codice fiscale", "cod fiscale", "carta d'identità", "carta identità", "passaporto",
    "numero passaporto", "patente di guida", "tessera sanitaria", "cnp", "cod numeric personal", "pașaport",
    "pasaport",
    # German, Dutch
    "steuer id", "steueridentifikation", "steueridentifikationsnummer", "steuer identifikationsnummer", "idnr",
    "steuernummer", "sozialversicherung", "sozialversicherungsnummer", "sv", "rentenversicherungsnummer",
    "versichertennummer", "krankenversichertennummer", "ausweis", "ausweisnummer", "personalausweis",
    "personalausweisnummer", "reisepass", "reisepassnummer", "passnummer", "führerschein", "führerscheinnummer",
    "aufenthaltstitel", "ahv", "ahv nummer", "bsn", "burgerservicenummer", "sofinummer", "rijksregisternummer",
    "rijksregister", "paspoort", "paspoortnummer", "rijbewijs", "rijbewijsnummer", "identiteitskaart",
    # Northern
    "personnummer", "personnr", "pnr", "samordningsnummer", "cpr", "fødselsnummer", "fodselsnummer", "fnr",
    "kennitala", "hetu", "henkilötunnus", "passnr", "pass nr", "passinumero", "körkort", "førerkort", "kørekort",
    "isikukood", "asmens kodas", "personas kods",
    # Eastern
    "pesel", "dowód", "dowód osobisty", "numer dowodu", "seria i numer dowodu", "paszport", "numer paszportu",
    "prawo jazdy", "rodné číslo", "rodne cislo", "číslo občanského průkazu", "občanský průkaz", "číslo op",
    "cestovní pas", "číslo pasu", "taj", "taj szám", "adóazonosító", "adóazonosító jel", "személyi igazolvány",
    "útlevél", "útlevélszám", "oib", "jmbg", "emšo", "emso", "embg", "matični broj", "osobna iskaznica",
    "broj pasoša", "putovnica", "јмбг", "ембг", "матични број", "матичен број", "лична карта", "egn", "егн",
    "номер на лична карта", "снилс", "паспорт", "номер паспорта", "серия и номер паспорта", "паспортные данные",
    "водительское удостоверение", "номер ву", "полис омс", "иин", "жсн", "рнокпп", "іпн", "ипн", "номер паспорту",
    "серія та номер паспорта", "αφμ", "α φ μ", "αμκα", "α μ κ α", "αριθμός ταυτότητας", "ταυτότητα", "διαβατήριο",
    "αριθμός διαβατηρίου", "afm", "amka", "kimlik", "kimlik numarası", "tc kimlik", "t c kimlik", "tckn", "tc",
    "pasaport no", "ehliyet", "vergi no",
    # Middle East, Asia, Africa
    "תעודת זהות", "מספר זהות", "מספר תעודת זהות", "ת ז", "דרכון", "מספר דרכון", "رقم الهوية", "الهوية",
    "الهوية الوطنية", "رقم الهوية الوطنية", "الرقم القومي", "رقم الإقامة", "الإقامة", "جواز السفر", "رقم جواز السفر",
    "رقم البطاقة", "کد ملی", "کدملی", "شماره ملی", "شماره پاسپورت", "شناختی کارڈ", "iqama", "emirates id", "aadhaar",
    "aadhar", "aadhaar card", "uidai", "pan card", "आधार", "आधार संख्या", "आधार नंबर", "पासपोर्ट", "cnic", "nic",
    "nid", "জাতীয় পরিচয়পত্র", "nik", "ktp", "no ktp", "nomor ktp", "npwp", "no paspor", "paspor", "mykad", "ic",
    "no kp", "kad pengenalan", "nric", "fin", "hkid", "cccd", "cmnd", "căn cước", "số cccd", "số cmnd", "hộ chiếu",
    "số hộ chiếu", "mã số thuế", "เลขประจำตัวประชาชน", "เลขบัตรประชาชน", "บัตรประชาชน", "หนังสือเดินทาง", "身份证",
    "身份证号", "身份证号码", "身份證", "身份證號", "身份證字號", "身分證字號", "身分證", "护照", "护照号",
    "护照号码", "護照", "護照號碼", "证件号", "证件号码", "驾驶证号", "社保号", "my number", "マイナンバー",
    "個人番号", "旅券番号", "パスポート番号", "運転免許証番号", "免許証番号", "在留カード番号", "주민등록번호",
    "주민번호", "여권번호", "여권", "운전면허번호", "외국인등록번호", "bvn", "nrc", "kitambulisho", "sa id", "za id",
)  # fmt: skip
#: Names of much else, too, of companies' numbers, products' licences, functions, colours and metals: these count only
#: beside a column that tells of persons.
_DOUBTFUL_NUMBERS: Final = (
    "ic", "nie", "nik", "nid", "cnh", "taj", "cnp", "mbi",
    "nss", "bvn", "citizenship", "adóazonosító", "steuernummer", "vergi no", "mã số thuế",
    "npwp", "individual tax", "tax id", "taxpayer id", "tax payer id", "tax identification",
    "taxpayer identification", "tax number", "证件号", "证件号码", "αφμ", "α φ μ", "afm", "id number", "id no",
    "id nr", "id num",
    "licence number", "license number", "licence no", "license no", "dl", "dl number", "dl no", "rg", "rfc", "nif",
    "nir", "rut", "pps", "ppsn", "utr", "ird", "nin", "cin", "cuit", "pan", "инн",
    "inn", "iin", "itn", "insurance number", "insurance no", "身份号码", "rč", "č op",
)  # fmt: skip
_PHONES: Final = (
    "phone", "telephone", "mobile phone", "cell phone", "cellphone", "smartphone number", "phone number", "whatsapp",
    "whats app", "fax", "tel", "telefax", "telno", "telnr", "mobile number", "cell number", "contact number",
    "msisdn", "landline", "direct line", "business phone", "company phone", "telefon", "telefonnummer",
    "telefoonnummer", "telefoon", "téléphone", "telephone fixe", "numéro de téléphone",
    "numéro de portable", "teléfono", "telefono", "telefono fijo", "número de teléfono", "numero de telefono",
    "nro telefono", "móvil", "movil", "celular", "número de celular", "numero celular", "teléfono móvil", "telefone",
    "telemóvel", "telemovel", "número de telefone", "cellulare", "numero di telefono", "recapito telefonico",
    "handynummer", "rufnummer", "mobilnummer", "mobiltelefon", "mobiel", "gsm", "mobilnr", "mobil", "tlf",
    "telefonnr", "puhelin", "puhelinnumero", "matkapuhelin", "sími", "símanúmer", "farsími", "komórka",
    "telefon komórkowy", "numer telefonu", "nr telefonu", "telefonní číslo", "tel číslo", "telefónne číslo",
    "telefonszám", "număr de telefon", "numar telefon", "broj telefona", "mobitel", "телефон", "номер телефона",
    "тел", "мобильный", "мобильный телефон", "моб", "номер телефону", "мобільний", "телефонен номер", "мобилен",
    "τηλέφωνο", "κινητό", "τηλ", "αριθμός τηλεφώνου", "cep telefonu", "telefon numarası", "טלפון", "נייד",
    "מספר טלפון", "هاتف", "الهاتف", "رقم الهاتف", "جوال", "الجوال", "رقم الجوال", "موبايل", "تلفن", "شماره تلفن",
    "موبایل", "فون", "فون نمبر", "फोन", "फ़ोन", "फोन नंबर", "मोबाइल", "मोबाइल नंबर", "ফোন", "মোবাইল", "தொலைபேசி",
    "โทรศัพท์", "เบอร์โทร", "เบอร์โทรศัพท์", "điện thoại", "số điện thoại", "sđt", "telepon", "no telepon", "no hp",
    "nomor hp", "no telp", "telp", "no wa", "电话", "电话号码", "联系电话", "手机", "手机号", "手机号码", "電話",
    "電話號碼", "聯絡電話", "手機", "手機號碼", "電話番号", "携帯", "携帯電話", "携帯番号", "전화", "전화번호",
    "휴대폰", "휴대폰번호", "휴대전화", "핸드폰", "연락처", "simu", "namba ya simu",
)  # fmt: skip
_DOUBTFUL_PHONES: Final = (
    "mobile", "cell", "ph", "contact", "mob", "wa", "contacto", "contato", "handy", "portable",
)  # fmt: skip
#: What other columns are called where there are accounts, ...
_ACCOUNTS: Final = (
    "user", "users", "user name", "username", "user id", "uid", "login", "login name", "log in", "account",
    "account name", "email", "e mail", "email address", "mail", "mail address", "mailbox", "service", "site",
    "website", "web site", "url", "link", "host", "hostname", "host name", "server", "ip", "ip address", "system",
    "app", "application", "portal", "platform", "ssid", "network", "network name", "wifi", "wi fi", "wlan", "device",
    "database", "db", "router", "machine", "domain", "vendor", "supplier", "usuario", "cuenta", "servicio", "correo",
    "sitio", "sitio web", "aplicación", "utilisateur", "nom d'utilisateur", "identifiant", "compte", "courriel",
    "benutzer", "benutzername", "anmeldename", "konto", "dienst", "anwendung", "gebruiker", "gebruikersnaam",
    "utente", "nome utente", "servizio", "usuário", "utilizador", "conta", "serviço", "användare", "användarnamn",
    "tjänst", "bruger", "brugernavn", "bruker", "brukernavn", "tjeneste", "käyttäjä", "käyttäjätunnus", "palvelu",
    "użytkownik", "usługa", "serwis", "uživatel", "uživatelské jméno", "používateľ", "služba", "felhasználó",
    "felhasználónév", "utilizator", "serviciu", "korisnik", "korisničko ime", "usluga", "kullanıcı", "kullanıcı adı",
    "логин", "пользователь", "имя пользователя", "учетная запись", "ресурс", "сервис", "сайт", "почта", "користувач",
    "логін", "потребител", "потребителско име", "χρήστης", "όνομα χρήστη", "υπηρεσία", "用户", "用户名", "账号",
    "帐号", "账户", "系统", "网站", "用戶名", "帳號", "系統", "網站", "邮箱", "ユーザー", "ユーザー名", "ユーザーid",
    "アカウント", "サービス", "メール", "아이디", "계정", "사용자", "사이트", "서비스", "이메일", "المستخدم",
    "اسم المستخدم", "الحساب", "البريد", "नाम", "उपयोगकर्ता", "ผู้ใช้", "ชื่อผู้ใช้", "tài khoản", "tên đăng nhập",
    "akun", "pengguna", "tunnus",
)  # fmt: skip
#: ... and where there are persons.
_PERSONS: Final = (
    "name", "names", "full name", "first name", "last name", "firstname", "lastname", "surname", "given name",
    "family name", "forename", "employee", "employee name", "employee id", "emp id", "emp",
    "patient", "patient name", "customer", "customer name", "client", "client name", "applicant", "person", "member",
    "student", "student name", "passenger", "guest", "guest name", "driver", "tenant", "contact name",
    "contact person", "owner", "holder", "dob", "date of birth", "birth date", "birthdate", "birthday", "born",
    "gender", "sex", "address", "staff", "worker", "candidate", "resident", "beneficiary",
    "email", "e mail", "email address", "mail", "nombre", "nombres", "apellido", "apellidos", "nombre completo",
    "empleado", "cliente", "paciente", "fecha de nacimiento", "nacimiento", "titular", "nom",
    "prénom", "prenom", "nom complet", "salarié", "employé", "né le", "date de naissance", "naissance",
    "name vorname", "vorname", "nachname", "familienname", "mitarbeiter", "kunde", "geburtsdatum", "geburtstag",
    "geb", "patientin", "naam", "voornaam", "achternaam", "geboortedatum", "klant", "medewerker", "nome", "cognome",
    "nome completo", "sobrenome", "dipendente", "data di nascita", "nascita", "data de nascimento", "nascimento",
    "funcionário", "namn", "förnamn", "efternamn", "navn", "fornavn", "etternavn", "efternavn", "nimi", "etunimi",
    "sukunimi", "nafn", "imię", "imie", "nazwisko", "imię i nazwisko", "pracownik", "klient", "data urodzenia",
    "jméno", "příjmení", "meno", "priezvisko", "zákazník", "név", "születési dátum", "ügyfél", "nume", "prenume",
    "angajat", "ime", "prezime", "ime i prezime", "priimek", "име", "презиме", "фамилия", "имя", "фио", "отчество",
    "сотрудник", "клиент", "дата рождения", "піб", "ім'я", "прізвище", "дата народження", "ονοματεπώνυμο", "όνομα",
    "επώνυμο", "ad", "soyad", "ad soyad", "adı soyadı", "isim", "doğum tarihi", "müşteri", "שם", "שם מלא", "שם פרטי",
    "שם משפחה", "الاسم", "اسم", "الاسم الكامل", "نام", "نام خانوادگی", "नाम", "নাম", "ชื่อ", "tên", "họ tên",
    "họ và tên", "nama", "nama lengkap", "姓名", "名字", "客户", "员工", "出生日期", "氏名", "名前", "生年月日",
    "이름", "성명", "생년월일", "jina",
)  # fmt: skip
#: What tells more of a column, before its name.
BEFORE: Final = frozenset(
    (
        "db", "database", "user", "users", "admin", "administrator", "root", "login", "account", "acct", "temp",
        "temporary", "initial", "default", "current", "new", "old", "wifi", "wlan", "guest", "master", "router",
        "vpn", "email", "mail", "app", "ftp", "ssh", "smtp", "imap", "portal", "website", "web", "system", "server",
        "windows", "network", "device", "client", "customer", "employee", "emp", "staff", "student", "patient",
        "member", "primary", "secondary", "main", "alt", "alternative", "other", "home", "work", "office",
        "personal", "private", "emergency", "daytime", "evening", "contact", "parent", "guardian", "spouse",
        "applicant", "holder", "cardholder", "passenger", "traveller", "driver", "tenant", "owner", "buyer",
        "seller", "my", "your", "plain", "plaintext", "cleartext", "test", "sim", "card", "voicemail", "safe",
        "direct", "aws", "api", "github", "service", "bot", "us", "uk",
    )
)  # fmt: skip


#: Beside these a name tells of something else: of what is counted, measured or sold, of connections and of what errors
#: mean.
_AMOUNTS: Final = frozenset(
    (
        "gross", "net", "brutto", "netto", "salario", "irpf", "cofins", "icms", "total", "amount", "importe", "valor",
        "year", "jahr", "año", "année", "rok", "bundesland", "kanton", "asylum", "vat", "price", "preis", "prix",
        "precio", "qty", "quantity", "count",
    )
)  # fmt: skip
BESIDE: Final = {
    Form.PASSWORD: frozenset(("fail", "failed", "total", "skip", "skipped")),
    Form.CODE: _AMOUNTS | frozenset(
        (
            "net", "signal", "component", "function", "direction", "connector", "pad", "meaning", "description",
            "error", "ticker", "scripname", "office", "region", "country", "taluk", "pincode",
        )
    ),
    Form.KEY: _AMOUNTS | frozenset(("freq", "frequency", "logprob", "pos", "lemma", "value", "address")),
    Form.NUMBER: _AMOUNTS | frozenset(("version", "package", "author", "rev", "revision", "title")),
    Form.PHONE: _AMOUNTS | frozenset(
        ("desktop", "tablet", "internet", "fixed", "os", "capacity", "value", "attack", "torque", "segment", "campaign")
    ),
}  # fmt: skip


class _Listed(NamedTuple):
    name: Name
    names: Collection[str]


_LISTED: Final = (
    _Listed(Name("phone", Form.PHONE, True), _DOUBTFUL_PHONES),
    _Listed(Name("phone", Form.PHONE, False), _PHONES),
    _Listed(Name("id_number", Form.NUMBER, False), _NUMBERS),
    _Listed(Name("id_number", Form.NUMBER, True), _DOUBTFUL_NUMBERS),
    _Listed(Name("generic_secret", Form.KEY, False), _KEYS),
    _Listed(Name("generic_secret", Form.KEY, True), _DOUBTFUL_KEYS),
    _Listed(Name("password", Form.PASSWORD, True), _DOUBTFUL_PASSWORDS),
    _Listed(Name("password", Form.PASSWORD, False), _PASSWORDS),
    _Listed(Name("password", Form.CODE, False), _CODES),
)


def compact(name: str) -> str:
    """A name in small letters without what stands between words."""
    return name.translate(_NOTHING_BETWEEN)


_NOTHING_BETWEEN: Final = str.maketrans("", "", " '’")
#: Each name as it is listed, ...
SPELLED: Final = frozenset(name for listed in _LISTED for name in listed.names)
#: ... and without what stands between words.
KNOWN: Final = {compact(name): listed.name for listed in _LISTED for name in listed.names}
ACCOUNTS: Final = frozenset(map(compact, _ACCOUNTS))
PERSONS: Final = frozenset(map(compact, _PERSONS))
#: Columns of places, where a PIN code is the post's, ...
PLACES: Final = frozenset(
    ("address", "city", "state", "district", "town", "village", "street", "area", "locality", "postoffice", "branch")
)
OF_THE_POST: Final = frozenset(("pin", "pincode"))
#: ... and of companies, which have taxes and documents, too.
COMPANIES: Final = frozenset(
    (
        "company", "companyname", "vendor", "vendorname", "supplier", "suppliername", "business", "businessname",
        "organization", "organisation", "firm", "firma", "firmenname", "lieferant", "empresa", "proveedor",
        "société", "entreprise", "fournisseur", "azienda", "fornitore", "fornecedor", "bedrijf", "leverancier",
        "företag", "virksomhed", "bedrift", "yritys", "kontrahent", "організація", "контрагент", "организация",
        "компания", "поставщик", "şirket", "公司", "企业", "供应商", "会社名", "회사", "회사명", "merchant",
        "amount", "invoice",
    )
)  # fmt: skip
