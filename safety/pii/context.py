"""The words to the left of a number that say what it is."""

import re
from functools import cache
from typing import Final

import re2

_ESCAPED: Final = re.compile(r"\\[nrt]")
#: So many characters to the left are looked at.
REACH: Final = 64

#: What makes a number of an ambiguous form one of a kind: any of these, at the beginning of a word.
WORDS: Final = {
    "us_ssn": r"ssn|security n(?:o|um)|ss ?#|social[ -]?sec|soc\.? sec|my social is|taxpayer id|tax id|seguro social",
    "us_itin": r"itin|individual tax|taxpayer|tax id",
    "uk_nino": r"nino|national ins|ni (?:n|#)|n\.i\.",
    "nz_nhi": r"nhi\b",
    "uk_nhs": r"nhs|national health|patient (?:id|no|num)",
    "ca_sin": r"sin\b|social ins|nas\b|assurance sociale|canadian (?:id|tax)",
    "de_tax_id": r"steuer|idnr|id-nr|tin\b|tax|identifikationsn|st-?id",
    "de_rvnr": r"sv-?n|sozialvers|rentenvers|social sec|pension ins|versicherungsn|rvnr|vsnr|rv-nr",
    "pl_id_card": r"dow[oó]d",
    "de_id_card": r"(?:personal)?ausweis",
    "fr_nir": r"nir\b|s[eé]curit[eé] sociale|sécu|n° ?ss|insee|social security|carte vitale",
    "nl_bsn": r"bsn|burgerservice|sofi|citizen service|sofinummer",
    "be_nn": r"rijksregister|insz|niss|nn\b|registre national|national n|numéro national|rrn|nrn",
    "pl_pesel": r"pesel|pacjent",
    "se_personnummer": r"person-?(?:nummer|nr)|pers\.?nr|personal (?:id|num)|samordningsn|pnr|swedish",
    "dk_cpr": r"cpr|personnummer|danish",
    "no_fodselsnummer": r"f[øo]dsels|f\.? ?nr|personnummer|d-nummer|norwegian|national id",
    "is_kennitala": r"kennit|kt\b",
    "ch_ahv": r"ahv|avs\b|oasi\b|sozialvers|versichertenn|assur[ée] social|social sec",
    "at_svnr": r"sv-?n|sozialvers|versicherungsn|svnr|social (?:ins|sec)",
    "pt_nif": r"n\.?i\.?f\b|contribuinte|identificação fiscal|tax",
    "ie_pps": r"pps|psp\b|uimhir|irish (?:side|tax|tin|id|number|no|one)",
    "cz_rodne_cislo": r"r\. ?č|rodn|rč\b",
    "ro_cnp": r"cnp\b|cod numeric",
    "bg_egn": r"egn\b|егн",
    "hr_oib": r"oib\b",
    "rs_jmbg": r"jmbg|emšo|emso\b|матични|матичен|јмбг|ембг|embg|matičn",
    "hu_taj": r"taj\b|taj-",
    "hu_tax_id": r"adóazonos|adó ?az|adójel",
    "gr_afm": r"αφμ|α\.φ\.μ|afm\b",
    "gr_amka": r"αμκα|α\.μ\.κ\.α|amka",
    "ee_isikukood": r"isikuko|estonian",
    "lt_asmens_kodas": r"asmens kod|a\. ?k\.|lithuanian",
    "lv_personas_kods": r"personas kod|p\. ?k\.|latvian",
    "ru_inn": r"инн(?:$|[^а-яё])|inn\b",
    "ru_snils": r"снилс|snils|страховой номер",
    "ua_rnokpp": r"рнокпп|іпн|ипн|ідентифікаційн|податк|rnokpp|itn\b|itin",
    "kz_iin": r"иин|жсн|iin\b",
    "tr_tckn": r"t\.?c\.?\b|tckn|kimlik|turkish id",
    "il_id": r"תעודת ה?זהות|ת\.?[\"״'׳.]ז(?:$|[^א-ת])|מספר ה?זהות|teudat|israeli id",
    "sa_national_id": r"هوية|هويتي|الهوية|إقامة|اقامة|iqama|saudi",
    "ae_emirates_id": r"emirates|هوية|الهوية",
    "eg_national_id": r"رقم قومي|الرقم القومي|القومي|egyptian|national id",
    "ir_national_code": r"کد ملی|کدملی|شماره ملی|national code|melli",
    "pk_cnic": r"cnic|شناختی|nadra",
    "in_aadhaar": r"aa?dh?aa?r|uidai|uid\b|आधार|aadhar",
    "cn_resident_id": r"身份证|身份證|resident id|id card",
    "hk_hkid": r"hkid|香港身份|身份證|身份证|hong kong id",
    "tw_national_id": r"身分證|身份證|身分証|national id|id (?:no|num|card)|identity",
    "jp_my_number": r"my ?number|マイナンバー|個人番号|individual number",
    "kr_rrn": r"주민|rrn\b|resident reg",
    "th_national_id": r"บัตรประชาชน|ประจำตัวประชาชน|thai id|national id",
    "my_mykad": r"mykad|ic\b|no\.? kp|kad pengenalan|nric",
    "id_nik": r"nik\b|ktp",
    "vn_cccd": r"cccd|căn cước|cmnd|chứng minh",
    "au_tfn": r"tfn|tax file",
    "mx_rfc": r"rfc",
    "br_cpf": r"cpf",
    "ar_cuit": r"cui[tl]",
    "cl_rut": r"rut\b|cédula",
    "uy_ci": r"c\.i\.|cédula|cedula",
    "pe_dni": r"dni|d\.n\.i",
    "co_cedula": r"c[eé]dula|c\.c\.",
    "ec_cedula": r"c[eé]dula|c\.i\.",
    "es_dni": r"dni|d\.n\.i|n\.?i\.?f\b|documento|identidad",
    "za_id": r"(?:sa|south african) id|id n|identity n|rsa id",
    "ng_nin": r"nin\b|national identification",
    "passport": (
        r"passport (?:n|#|is|card)|passport\W[^0-9\n]{0,40}(?:number|no\b|nr\b)|passport of |"
        r"passports? ?[:—–]|us passport|my passport|passeport|pasaport|passaport|"
        r"reisepass|pass-?nr|паспорт|护照|護照|パスポート|여권|جواز|paszport|pasport"
    ),
    "credit_card": (
        r"card(?:s|holder)?\b|card ?n|cc\b|visa|mastercard|maestro|amex|american express|discover (?:card|n)|"
        r"diners|jcb|union ?pay|pan\b|pa(?:id|y|yment|ying) (?:with|by)|tarjeta|karte\b|kartenn|kreditkart|"
        r"carte\b|cart[ãa]o|carta\b|credit\b|debit\b|"
        r"kort\b|kortn|kart[aıiy]?u?\b|"
        r"kártya|kartu|thẻ|карт|κάρτα|بطاقة|कार्ड|카드|信用卡|银行卡|銀行卡|卡号|卡號|付款卡|カード"
    ),
}  # fmt: skip

_PHONE: Final = (
    r"phone|tel(?:[^a-z]|e?f|p|n[ro]|$)|call(?:ed|ing|s|back)?(?:$|[^a-z])|cell(?:$|[^us])|"
    r"mobil|whats ?app|fax|text(?:ed|ing)? (?:me|us|him|her|them|$)|sms|"
    r"messages? to|registered mobile|contact|txt|dial|pager|voice ?mail|answering at|hmu|hit me up|"
    r"reach(?:able|ed)? (?:me|us|him|her|them|at|on)|(?:ring|phone) (?:me|us|him|her|them)|hotline|helpline|landline|"
    r"switchboard|ext\b|"
    r"(?:my|our|your|his|her|their|whose|work|home|office|new|old|emergency|registered|"
    r"callback) (?:new |best |work |home )?(?:numbers?|no\.|nr)|"
    r"s (?:new |best |work |home )?(?:number\b|no\.|nr)|registered$|"
    r"ring |ringe |træffes|træf mig|kontakt(?:$|[^l])|t[eé]l[eé](?:[^v]|$)|portable|(?:r?appel|joind|joign)|(?:mon|"
    r"son|ton|"
    r"votre|notre) num|fon\b|(?:an|zurück)?ruf|handy|(?:meine?|ihre?|seine?|unsere?|deine?) nummer|durchwahl|"
    r"erreich|móvil|movil|celular|cel\b|llám|llam[ae]|(?:mi|su|tu|nuestro) número|cellulare|chiama|truca|recapito|"
    r"convencional|(?:mio|suo|tuo) numero|ligue|liga|contato|telem[oó]|(?:meu|seu) número|bel\b|bellen|mijn nummer|"
    r"zadzwo|dzwo[nń]|kom[óo]r|(?:mój|mojego|pod|nowy|nowego|stary) numer|"
    r"infolini|tlf|treff|nås på|puh\b|soita|mitt nummer|mit nummer|zavol|sun[aăa]|hívj|"
    r"sím|volal|cep(?: tel|im)|gsm\b|ara(?:yın|yabilir)?\b|pozov|nazov|zov[ie]|viber|signal|telegram|"
    r"helist|t[āa]lr|zvan|skambin|хабарлас|qo['’ʻ]ng['’ʻ]iroq|numaram|(?:moje|naše|její|jeho) číslo|számom|hívható|"
    r"num[ăa]rul meu|numeroni|mu?n(?:un)? numero|nomor ?(?:ku|saya)|nomer|namba (?:yangu|yake)|number ko\b|"
    r"số (?:của )?(?:tôi|em|anh|chị|mình)\b|volej|nå meg|mitt? nr (?:er|är)|vipps(?:e|a)? ti?ll?|swish(?:a)? till|"
    r"тел|моб|(?:пере|по|со|до)?зв[оа]н|(?:по|пере)?дзвон|зателеф|обад|(?:мой|твой|ваш|наш|его|её|ее|мій|твій|його|її|"
    r"мојот|моя) номер|νούμερ|номер тел|позов|τηλ|κινητ|πάρε|καλέσ|电话|電話|手机|手機|我的?号码|我的?號碼|"
    r"打[给俾畀比我]|联系|聯絡|聯繫|致电|致電|微信|携帯|連絡|"
    r"(?:제|내|우리) ?번호|전화|휴대|연락|핸드폰|هاتف|"
    r"رقمه|جوال|اتصل|رقمي|موبايل|تلفن|موبایل|تماس|شماره من|فون|"
    r"फोन|फ़ोन|मोबाइल|कॉल|व्हाट्स|(?:मेरा|मेरे|मेरो|अपना|आपका|उनका|उसका|का) (?:नया )?(?:नंबर|नम्बर)|আমার নম্বর|"
    r"میرا نمبر|ফোন|মোবাইল|தொலைபேசி|โทร|เบอร์|טלפון|נייד|"
    r"המספר של|חייג|điện thoại|sđt|gọi|hubungi|telp|hp\b|wa\b|simu\b"
)


def _at_word(words: str) -> str:
    return rf"(?i)(?:^|[^a-zß-ſа-яёіїєґў])(?:{words})"


#: Expressions of RE2.
KINDS_SPOKEN_OF: Final = _at_word("|".join(WORDS.values()))
PHONE_WORDS: Final = _at_word(_PHONE)
_ANY: Final = re2.compile(KINDS_SPOKEN_OF)
_PHONE_WORD: Final = re2.compile(PHONE_WORDS)


@cache
def _words_of(kind: str) -> "re2._Regexp":
    return re2.compile(_at_word(WORDS[kind]))


_NOT_PERSONAL: Final = re2.compile(
    r"(?i)(?:^|[^a-z])(?:order|invoice|tracking|track|shipment|parcel|isbn|issn|ean|upc|gtin|barcode|sku|serial|imei|"
    r"part|model|suku cadang|spare|(?:seal|repair|gasket|service) kit|ersatzteil\w*|repuesto|recambio|ricambio|"
    r"pi[eè]ce|pezzo|"
    r"peça|reservdel|reservedel|varaosa|część|alkatrész|yedek parça|запчасть|"
    r"ticket|case|version|build|commit|receipt|transaction|txn|reference|ref|bestell|rechnung|auftrag|sendung|commande|"
    r"facture|pedido|factura|ordine|fattura|batch|lot|viite|viitenumero|revision|job|request|trace|span|product|item|"
    r"article|artikel|"
    r"订单|訂單|注文|주문|송장|계좌|快递|单号|單號|追跡|заказ|накладн|счет|"
    r"流水号|流水號|交易号|凭证号|序列号|序號|批号|批號|工单|料号|品番|型番|製造番号|部品番号|伝票番号|受付番号|"
    r"整理番号|会員番号|"
    r"일련번호|운송장|접수번호|사건번호|품번|رقم الطلب|رقم الفاتورة|رقم الشحنة|الرقم التسلسلي|הזמנה|ऑर्डर|सीरियल|"
    r"เลขพัสดุ|รหัสสินค้า|mã đơn(?: hàng)?|mã vận đơn|no\.? (?:pesanan|resi)|артикул|арт|серийный|серійний|деталь|"
    r"детали|"
    r"(?:onderdeel|serie|serien|teile|artikel|varu|vare|vara|tilaus|sarja|ordre|beställnings|liefer|vertrags|akten|"
    r"vorgangs|"
    r"fall|policen|inventar|zähler|dossier|volg|bestel|zending)-?(?:nummer|nommer|nr|numero)|"
    r"(?:n[º°o]\.?|número|numéro|numero|numer|číslo) (?:de |di |d['’])?(?:pieza|serie|série|seri[ae]|seryjny|compte|"
    r"cuenta|"
    r"conto|konta|commande|dossier|lote|lotto|suivi|guía|rastreo|protocolo|contrat|police|contrato|contratto|umowy|tramo)|"
    r"výrobní číslo|sorozatszám|rendelés|leveran|mpan|mprn|chassis|vin|"
    r"sipariş|takip|kargo|contrat|zamówien|faktur|objedn|doi|pid|uid|duns|m?awb|waybill|consignment|gst|pmid|ndc|refer[eê]ncia|"
    r"ondernemingsnummer|"
    r"session|epoch|"
    r"timestamp|checksum|sample|seed|offset|bytes|lines|line (?:no|nr|num)|"
    r"row|rows|hash|"
    r"confirmation|vat|tva|btw|mwst|ust-?id|cnpj|siren|siret|kvk|cvr|cif|nip|regon|krs|ičo|ico|dič|ein|abn|acn|"
    r"gstin?|hrb|plz|"
    r"zip|postcode|postal|routing(?: transit)?|aba|iva|booking|flight|policy|po|docket|coordinates?|lat|lon|lng|"
    r"population|revenue|total|accession|project|shelf|"
    r"asset|meter|device|konto|kontonummer|licen[cs]e|(?:baggage|luggage|bag|asset|name|price) tags?|"
    r"(?:account|acct|customer|client|member|membership|employee|student|kunden|vendor|supplier|candidate|centre|"
    r"center|exam|"
    r"seat|loyalty|coupon|voucher|contract|claim|rma|permit|school|court|file|property|unit|store|branch|sort|cost|"
    r"catalogu?e?|"
    r"stock|badge|locker|patent|grant)"
    r"(?:[ _-]?(?:numbers?|num|nr|no|ids?|codes?|#|nummer)))"
    r"(?:[ _-]?(?:numbers?|num|nr|no|ids?|codes?|#|n[º°o]|n\.|nummer|number is|was|is|are|such as|like|号|號|番号|"
    r"at|be|ch|de|dk|es|fr|it|lu|nl|pl))*(?:[.: ]{1,3}(?:(?-i:[A-Z]{2})|CHE)\b)?[.:#=\s\"'(№]*"
    # Further ones of a list.
    r"(?:[0-9][0-9 \-]{5,14}(?:, | and | & |/| und | et | y | e )(?:and )?){0,3}(?:[0-9]{3,6}[ .\-/]){0,3}$"
)


def unbroken(left: str) -> str:
    """A text with its escaped line breaks and tabs as they are meant: no word begins with the rest of one."""
    return _ESCAPED.sub("\n ", left) if "\\" in left else left


def speaks(text: str, position: int) -> bytes | None:
    """What stands a little to the left of a position, if a word in it speaks of any kind of identity number or card."""
    left = left_of(text, position)
    return left if _ANY.search(left) is not None else None


def spoken_of(kind: str, left: bytes) -> int:
    """Where the last word ends that speaks of a kind, or -1."""
    return _last(_words_of(kind), left)


def phone_word(text: str, position: int) -> int:
    """Where, in what stands a little to the left of a position, the last word ends that speaks of phones, or -1."""
    return _last(_PHONE_WORD, left_of(text, position))


def near(kind: str, text: str, position: int) -> bool:
    """Whether a word that speaks of the kind stands a little to the left of a position."""
    return _words_of(kind).search(left_of(text, position)) is not None


def named_otherwise(text: str, position: int) -> bool:
    """Whether the word just before a position says that it is an order, a part, a book, but nothing personal."""
    left = unbroken(text[max(0, position - 48) : position])
    return _NOT_PERSONAL.search(left.encode("utf-8", "surrogatepass")) is not None


def left_of(text: str, position: int) -> bytes:
    """What stands a little to the left of a position, in UTF-8."""
    return unbroken(text[max(0, position - REACH) : position]).encode("utf-8", "surrogatepass")


def _last(words: "re2._Regexp", left: bytes) -> int:
    return max((found.end() for found in words.finditer(left)), default=-1)
