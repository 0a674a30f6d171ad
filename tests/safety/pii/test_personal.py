"""Personal data of each kind, and what only looks like it."""

import pytest

from safety.pii.kinds import KINDS
from safety.pii.pii_filter import PiiFilter

FILTER = PiiFilter()

# Each text has one stretch of the kind, in braces.
FOUND = """
mac_address|lladdr {00:1b:44:11:3a:b7} STALE
mac_address|Physical Address: {3C-22-FB-90-0A-1E}
mac_address|Hardware address {001b.4411.3ab7},
email|Write to {a.b-c+d@sub.example.co.uk}.
email|<{bob@example.com}>, mailto:bob
email|O'Brien: {o'brien@example.ie}, who else?
email|{δοκιμή@παράδειγμα.δοκιμή}
email|{चाचा@डाटामेल.भारत} देखें
email|{用户@例子.公司}，谢谢
email|发邮件到{zhang.wei@example.cn}谢谢
email|{bob＠example.com}
email|{bob [at] example [dot] com}, please
email|{bob(at)example.com}
email|{lukas.m (at) fahrrad-ost (punkt) de} - die Bots nerven
phone|Call {(212) 555-0147} tomorrow
phone|w razie pytań dzwonić: {609 219 977}.
phone|y el convencional {04 749-6451}».
phone|{+1 212 555 0147} ext. 12
phone|{+1 212 555 0147 ext 12}
phone|Tel: {020 7946 0958}
phone|{+44 (0)20 7946 0958}
phone|Meine Nummer ist {030 1234567}
phone|{089/12345678}
phone|Mon numéro : {06 12 34 56 78}.
phone|llámame al {612 345 678}
phone|Pots trucar-me al {655 200 318} a la tarda
phone|truca'm al {655200318}
phone|chiamami al {347 1234567}
phone|mobile number: {9876543210}
phone|Ligue para {(11) 91234-5678}
phone|電話は{03-1234-5678}です
phone|我的手机号是{13812345678}
phone|전화번호는 {010-1234-5678}입니다
phone|رقم الهاتف {٠٥٠١٢٣٤٥٦٧}
phone|call {４１５-５５５-０１３２} now
phone|TEL {０９０－４１８４－９６５７} です
phone|txt me {(678)5550133}
credit_card|{4111111111111111}
credit_card|pay {4242 4242 4242 4242}, exp 04/27, thanks
credit_card|{3782 822463 10005}
iban|{DE89370400440532013000}
iban|{FR14 2004 1010 0505 0001 3M02 606}
iban|{IT60 X 05428 11101 000000123456}
iban|{PT50.0002.0123.12345678901.54}
iban|{mt84malt011000012345mtlcast001s}
iban|{NL 91 ABNA 0417 1643 00}
credit_card|card {4111  1111  1111  1111}
ip_address|{::ffff:192.0.2.128}
ip_address|from {203.0.113.42}:8080
ip_address|[{2001:db8::ff00:42:8329}]:443
ip_address|ssh deploy@{198.51.100.7} ls
us_ssn|{536-22-1234}
us_ssn|my ssn is {536221234}
us_ssn|S0CIAL SECURITY NO.  {268 - 71 - 3390}
us_itin|ITIN {912-78-1234}
uk_nino|{AB 12 34 56 C}
uk_nhs|NHS number {943 476 5919}
ca_sin|SIN {046 454 286}
de_tax_id|Steuer-ID: {86 095 742 719}
fr_nir|sécu: {2 55 08 14 168 025 38}
es_dni|{12.345.678-Z}
es_nie|NIE {X1234567L}
it_codice_fiscale|{RSSMRA85T10A562S}
nl_bsn|BSN {111222333}
be_nn|{85.07.30-033.28}
pl_pesel|PESEL {44051401359}
se_personnummer|{811218-9876}
fi_hetu|{131052-308T}
fi_hetu|{010594Y9032}
dk_cpr|CPR {070761-4285}
no_fodselsnummer|fødselsnummer {01019012480}
ch_ahv|{756.9217.0769.85}
ch_ahv|Versichertennummer {7569217076985}
ch_ahv|mon numéro AVS est le {756 9217 076985}
at_svnr|SVNR {1237 010180}
de_rvnr|an: SV-Nummer {53 041254 F 712}, Steuerklasse I
de_rvnr|Rentenversicherungsnummer {65170839J003}
pt_nif|NIF {123456789}
ie_pps|PPS {1234567T}
cz_rodne_cislo|{736028/5163}
bg_egn|ЕГН {7523169263}
tr_tckn|T.C. kimlik no {10000000146}
br_cpf|{123.456.789-09}
ar_cuit|{20-12345678-6}
cl_rut|{12.345.678-5}
mx_curp|{HEGG560427MVZRRL04}
in_aadhaar|{2341 2341 2346}
in_pan|PAN: {ABCPE1234F}
cn_resident_id|身份证号{11010519491231002X}
hk_hkid|{A123456(3)}
tw_national_id|身分證字號 {A123456789}
jp_my_number|マイナンバー {123456789018}
kr_rrn|{900101-1234567}
au_tfn|TFN {123 456 782}
sg_nric|{S1234567D}
za_id|{8001015009087}
ee_isikukood|Minu isikukood on {38305080054}.
lt_asmens_kodas|asmens kodas {49012275212}
lv_personas_kods|Personas kods: {161175-40972}
is_kennitala|kennitala {120174-2230}
hr_oib|moj OIB je {75032015034}
rs_jmbg|JMBG {0101990033421}
rs_jmbg|EMŠO: {0101990033421}
hu_taj|TAJ szám: {976 644 288}
hu_tax_id|adóazonosító jelem {8844830566}
gr_afm|ΑΦΜ {791947290}
gr_amka|ΑΜΚΑ: {15068527561}
ru_inn|ИНН физлица {725192063549}, налог
ru_snils|СНИЛС {193-445-273 88}
ru_snils|снилс {19344527388}
ua_rnokpp|РНОКПП {0508027564}
kz_iin|ЖСН/ИИН {900412115509}
il_id|תעודת זהות {049803331}
il_id|המטופל ת"ז {04980333-1}
sa_national_id|رقم الهوية {1345017543}
ae_emirates_id|{784-1987-2780227-8}
eg_national_id|الرقم القومي {29001012199747}
ir_national_code|کد ملی {7525636192}
pk_cnic|CNIC {29998-8850788-0}
th_national_id|{1-9950-39020-83-0}
my_mykad|MyKad {850713-32-4660}
id_nik|NIK {3171061611568813}
vn_cccd|CCCD: {057107014275}
ng_nin|my NIN is {12345678901}
co_cedula|cédula de ciudadanía {1.020.345.678}
ec_cedula|cédula {1764164602}
pe_dni|DNI {45678912}
uy_ci|C.I. {4.967.793-3}
ro_cnp|CNP {2850101645411}
ro_cnp|CNP {2 850101 64541 1}
passport|passport no. {X1234567}
passport|US passport {512345678}
passport|Passport number {NW2KR8L47} (Dutch)
passport|Reisepass Nr. {C01X0006H}, gültig bis 2031
passport|passeport français, passport no: {12AB34567}
passport|pasaporte {PAA123456}
passport|Russian passport No. {75 4182093}
passport|паспорт {4509 123456}
passport|une copie du passeport n° {13OR59141} délivré le 3 juin
de_id_card|Personalausweisnummer {YGKJW7FN06}, Nettoeinkommen
de_id_card|Ausweisnummer: {T22000129}
passport|document_type=PASSPORT country=ITA document_number={YB4471903} name
passport|the passport of the new director, number {K4471902E}, expires
passport|Passport of the minor: {533870412} (United Kingdom)
pl_id_card|Dowód osobisty: seria i numer {CDK481207}.
de_rvnr|incl. social security number {48 231174 M 510} to the wrong person
de_tax_id|may I have your tax number? / Caller: sure, it's {76 974 013 853}.
phone|phone=%2B{33612847790}
email|GET /u?mail={bob.k%40example.com}&x=1
id_number|Texas driver license {28416593}, exp
id_number|Numéro fiscal de référence : {30 24 918 226 071}. Montant
id_number|Führerscheinnummer {B072001234}
id_number|Hänen henkilötunnuksensa on {041192X482}
id_number|Henkilötunnus: {230671Y113K}
id_number|Malta ID card no. {618204L}
id_number|Паспорт: серия и номер {4509 123456789}, выдан
id_number|在留カード番号 {UH39061337EA}
id_number|Dowód osobisty {CDK4812081}
id_number|driver license (WA) {WDL7K4R29B6M}.
id_number|USCIS/A-Number: {A204817365}
id_number|旅券番号：{TR5784418}
id_number|運転免許証番号：{301745395174}
id_number|αρ. ταυτότητας {ΑΖ 583920}.
id_number|Паспорт {КН 482913}
id_number|Személyi igazolvány száma: {275901KA}, lakcím
id_number|Ghana Card {GHA-710979029-5} don expire
id_number|N.º utente SNS: {311 860 995}
id_number|Namba yangu ya NIDA ni {19930417-14112-35922-34}, nimepoteza
uk_driving_licence|Owen,{PRITC802117O99RX},Transit
uk_driving_licence|licence {KEANE755203S99AB}
us_mbi|my medicare number is {7QK2-XD4-WP65}, date
us_mbi|{2TA7-UR4-WK63}
id_number|운전면허번호: {11-08-257487-07}, 갱신
id_number|permesso di soggiorno n. {I01234567}
phone|Ik heb mijn rijbewijs nog niet ontvangen. Bel me gerust: {06-41839487}.
id_number|driving_license: {28416593}
id_number|"national_id":"{31760284123}"
id_number|Zambia NRC {204565/64/1}, phone
passport|kids' passports — Elsie {562910384}
mx_rfc|RFC {GEDR830720LM8}, correo
il_id|מספר הזהות שלי הוא {330824392} ואפשר
ip_address|peer {2001:470:1f0b:8e2::2}:51820, retrying
phone|Du kan ringe på {28 41 73 06}.
phone|the after-hours line is {617.355.8190}. Bedtime
es_dni|se me olvidó el dni, apunta: {12.345.678-z}
br_cpf|nome,cpf;Jussara,{123 456 789 09},jussara(a)escola
cn_resident_id|身份证 {110105 19491231 002X}
hk_hkid|HKID {A1234563}
credit_card|American Express {3782 822463 10005}
credit_card|card number is {4047737215142}
credit_card|my old JCB card: {180016070420458}
credit_card|charge the card {630427373398} please
phone|dispatch context {345-899-3560x4587}, fax below
phone|Dreux Joly, Box 9168, {416 60 039} office
phone|not my card but my phone: {4155550132}
phone|The customer's number is {13812345678}, ask for Anna
phone|hmu at {6465550172} when ur outside
phone|unter {0431 / 55 90 16-0} zu erreichen
phone|Rückfragen unter {+49 (0)30 / 14512-71}.
phone|az osztály száma {(1) 315-6242}.
phone|Skambinti dukrai {8 623 72736}.
phone|Хабарласу: {8 (727) 634-00-62}.
phone|{8 029 123-45-67}
phone|Træffes på {25 26 69 52} hverdage
phone|har du nr til fyren? ja: {959 95 095}, spør
phone|मेरा नंबर लिख लो {९७८७२२२२८६}
phone|{098765 43210}
phone|{۰۹۱۲۳۴۵۶۷۸۹}
phone|{0(532) 123 45 67}
phone|{06-30/123-4567}
phone|{0475/12.34.56}
phone|{06-12-34-56-78}
phone|{9 1234 5678} cel
phone|{912 345 67 89} telemóvel
phone|https://wa.me/{4915112345678}?text=hi
phone|tālr. {21234567}
phone|iptal etmek istiyorum. Cep: {0532 418 84 65}
phone|numărul meu: {721 123 456}
nz_nhi|NHI: {EVL4773}. Laparoscopic
nz_nhi|patient NHI {ZAC53TG}
uk_nino|my nino is {ab123456c}
no_fodselsnummer|mann, f.nr. {01019012480}, kutt
lt_asmens_kodas|a. k. {49012275212}, būklė
my_mykad|IC: {850713-32-4660}
es_dni|D.N.I. {12345678z}
id_number|cédula {V-12.345.678} caracas
id_number|sendte pas nr. {211514296} og
id_number|dowód osobisty {CDB 147925}, a
id_number|cestovní pas {12345678}
id_number|דרכון מספר {12345678}
id_number|شماره گذرنامه {A12345678}
id_number|permiso de residencia {E12345678}
id_number|ВНЖ {82 1234567}
id_number|verblijfsvergunning {NLA123456}
id_number|KVNR {A123456780}
id_number|medicaid {AB12345C}
id_number|驾照号 {110105199003078888}
id_number|BVN {22123456789}
id_number|УНЗР {19900101-12345}
ie_pps|Mine, on the Irish side, is {1234567T}. Sign page 4
phone|you can reach me at my number {6 12 34 56 78} ok
"""


@pytest.mark.parametrize("line", FOUND.strip().splitlines())
def test_it_is_found(line: str) -> None:
    kind, marked = line.split("|", 1)
    before, _, rest = marked.rpartition("{")
    value, _, after = rest.partition("}")
    text = before + value + after
    assert [(m.label, text[m.start : m.end]) for m in FILTER.scan(text)] == [(kind, value)]


@pytest.mark.parametrize(
    "numbers",
    [
        ["+49 170 1234567", "+44 20 7946 0958", "+1 212 555 0147"],
        ["(415) 555-2671", "(212) 555-1234"],
        ["0170 1234567,", "0171 7654321,"],
    ],
)
def test_phone_numbers_one_after_the_other(numbers: list[str]) -> None:
    text = " ".join(numbers)
    assert [text[m.start : m.end] for m in FILTER.scan(text)] == [number.rstrip(",") for number in numbers]


def test_the_second_letter_of_an_older_pps_number_does_not_count() -> None:
    assert [m.label for m in FILTER.scan("PPS No: 0291268WA")] == ["ie_pps"]


CHECKED = (
    "credit_card",
    "iban",
    "de_tax_id",
    "nl_bsn",
    "pl_pesel",
    "se_personnummer",
    "fi_hetu",
    "es_dni",
    "es_nie",
    "uk_nhs",
    "ca_sin",
    "br_cpf",
    "in_aadhaar",
    "tr_tckn",
    "bg_egn",
    "ch_ahv",
    "be_nn",
    "za_id",
    "sg_nric",
    "au_tfn",
    "pt_nif",
    "it_codice_fiscale",
    "cn_resident_id",
    "no_fodselsnummer",
    "cz_rodne_cislo",
    "ar_cuit",
    "cl_rut",
    "mx_curp",
    "hk_hkid",
    "jp_my_number",
    "tw_national_id",
    "ie_pps",
    "at_svnr",
    "ee_isikukood",
    "lt_asmens_kodas",
    "lv_personas_kods",
    "is_kennitala",
    "hr_oib",
    "rs_jmbg",
    "hu_taj",
    "hu_tax_id",
    "gr_afm",
    "gr_amka",
    "ru_inn",
    "ru_snils",
    "ua_rnokpp",
    "kz_iin",
    "il_id",
    "sa_national_id",
    "ae_emirates_id",
    "ir_national_code",
    "th_national_id",
    "ec_cedula",
    "uy_ci",
    "ro_cnp",
)


@pytest.mark.parametrize("line", [line for line in FOUND.strip().splitlines() if line.split("|")[0] in CHECKED])
def test_another_last_character_is_not_it(line: str) -> None:
    kind, marked = line.split("|", 1)
    before, _, rest = marked.rpartition("{")
    value, _, after = rest.partition("}")
    place = max(i for i, c in enumerate(value) if c.isalnum())
    last = value[place]
    others = "0123456789" if last.isdigit() else "ABCDEFGHJKLMNPQRSTVWXYZ"
    other = others[(others.index(last.upper()) + 1) % len(others)]
    text = before + value[:place] + other + value[place + 1 :] + after
    assert kind not in [m.label for m in FILTER.scan(text)]


@pytest.mark.parametrize(
    "bare", ["536221234", "9434765919", "111222333", "44051401359", "12345678909", "123456782", "5551234567"]
)
def test_bare_digits_need_a_word(bare: str) -> None:
    assert FILTER.scan(f"The result was {bare} today") == []


def test_each_of_a_list_is_found() -> None:
    for value in ("415-555-0132", "078-05-1120", "4242424242424242", "bob@example.com"):
        for between in (" ", ", ", "\n", ";", "|"):
            assert len(FILTER.scan(between.join([value] * 5))) == 5


def test_only_the_kinds_that_are_asked_for() -> None:
    text = "bob@example.com, (212) 555-0147"
    assert [m.label for m in PiiFilter({"phone"}).scan(text)] == ["phone"]
    assert PiiFilter(()).scan(text) == []


def test_wide_figures_may_have_wide_blanks_between() -> None:
    assert [m.label for m in FILTER.scan("４１１１\u3000１１１１\u3000１１１１\u3000１１１１")] == ["credit_card"]


def test_both_ends_of_a_range_are_found() -> None:
    assert [m.label for m in FILTER.scan("203.0.113.7-203.0.113.99")] == ["ip_address"] * 2
    assert FILTER.scan("kernel-4.18.0.80-1.2.el8") == []


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match="no such kind: shoe_size"):
        PiiFilter({"email", "shoe_size"})


def test_every_personal_kind_has_an_example() -> None:
    kinds = {line.split("|")[0] for line in FOUND.strip().splitlines()}
    assert {name for name, kind in KINDS.items() if not kind.secret} <= kinds
