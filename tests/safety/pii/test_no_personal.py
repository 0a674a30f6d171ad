"""Texts that look like personal data and are none."""

import pytest

from safety.pii.pii_filter import PiiFilter

FILTER = PiiFilter()

NOTHING = """
The meeting is on 2023-10-15 at 10:30:45, or 05.06.2024 13:45.
$1,234.56, €99.99, 1.234.567,89 EUR, 12 345 678 Ft, ₹12,34,567
Order #112-3456789-1234567 and order 4155550132 have shipped
Tracking 1Z 999 AA1 01 2345 6784, FedEx 123456789012
ISBN 978-3-16-148410-0, ISBN 0306406152, ISSN 2049-3630, EAN 4006381333931
version 1.2.3.4, upgraded from 10.0.1.2 to 10.0.2.0, Chrome/120.0.6099.109
commit 9fceb02d0ae598e95dc970b74767f19372d61af8 of 123e4567-e89b-12d3-a456-426614174000
timestamps 1700000000, 1700000000123, 20240115103045, 2024-01-15T10:30:45.123456Z
40.7128, -74.0060 and lat=37.7749295 lon=-122.4194155
ports 8080, 8443 and 5432; years 2019-2020, 1998–2004
3.14159265358979323846; 2^64 = 18446744073709551616
Listening on 127.0.0.1:8080 and 0.0.0.0, mask 255.255.255.0
192.168.1.256 and 1.2.840.113549.1.1.11 are no addresses
git clone git@github.com:org/repo.git; npm install lodash@4.17.21; logo@2x.png
`ssh -T git@github.com` greets you; line no 617.355.8190; see RFC 2616 and RFC GEDR831320LM8
my passport expired; my order number is AMZ123456; Ausweisnummer fehlt, Ticket NRT123456
driving licence fee 1234567 EUR; Mã số thuế công ty 0302823746, passport valid until 12.03.2031; Reisepass 12.03.2031
EIN 41-5703937, DUNS 04-182-2079; Referência 335 193 076; MAWB 020-25446356, PMID 32342353, NDC 0431-4490-93
Health insurance 4500000 people; my medicare plan costs 1234567 dollars; id card 2024 edition 1234567 copies
| phone | yes | +00 000 0000000 |; Produkt CDK4812081; 100%40 and 50%40discount
Enter a number 1000000 or greater, a number: 31415926; tin 1234567 of peaches, Tin CAS No. 7440-31-5; TIN mesh 1000000
Ihre RG 20240815 vom 15.08., N° RG 19/04567, RG 12345/2022; factura seria ABC nr. 1234567; seria LT2301A
NIC X710-DA4 and NIC I350-T4; "nid": 123456789; BRP 420956745 oil filter; std::cin 1234567; qid=20394857&page=2
Passport cover RFID B08ABC1234; id card reader ACR39U-I1; Health insurance form CMS1500; CPR No 305/2011; Ley 1000/1993
Паспорт изделия № 0012345; Идентификационный номер товара 1234567; Aufenthalt Hotel Adria, Nr. 2305119
mit Nr. 4711081 im Sortiment; swish 1234567890 kr; Model 9HT7-RR5-HM12 pump
Ausweis: MINUTEN30; passport renewal form DS-82; medicare part B2024
Ghana Card office, room AB12345; licence plate no GH4821X
passport control opens at 08:15 in C01X0006HALL and NW2KR8L4Z; 2001:470:1f0b:8e2::2:5182z
password = auth[2], pw = pw[:-1]; pass_stmt = mod.body[4]; CLIENT_AUTH = '1.3.6.1.5.5.7.3.2'
f(mode, s3_disable_express_session_auth=s3_disable_express_session_auth)
Ordine n. 20241107-0093 confermato; bag tags 0220 174613 and 0220 928914; systemctl status postgresql@15-main.service
@dataclass def f(x: str) -> None: a@b.c, user@localhost
999-99-9999 000-12-3456 4111 1111 1111 1112
DE89 3704 0044 0532 0130 01, 12345678A, 111.222.333-44
Customer 123456789, part number 555-1234-567
TVA BE 0610.623.668, CNPJ 41.829.370/0001-05, CEP 01310-100
shelf mark 821.914, accession 0031 4500 2217; project 0044-7700-12
the example NL00 BANK 0123 4567 89 has no right check digits
communication structurée +++806/5106/99242+++
The card was drawn 4047737215143 times; ИНН 725192063548, OIB 75032015035
длинный 725192063549
Your employee number is 20883635 and your account number 87654321
a::b::c std::vector<int>::iterator 10:30:45.123 ::1 SHA1 fe:dc:ba:98:76:54:32 00:00:00:00:00:00
See 4.2.1.3 for scope and 12.6.2.11 below; SV-Nummer 53 041254 F 713 with a wrong digit
Office hours: 8.30–12.00 and 13.00–17.30; article 730-118-0045/R
population 331 002 651, call function 1234567 times
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
https://example.com/users/4155550132
1 2 3 4 5 6 7 8 9 10 11 12 13 14
1000000 mobile phones sold
5000000 phone calls
3000000 office workers and 9999999 direct messages
CI run 12345674 passed; we run 10000000 iterations and 12345674 more; volatile uint32 4294967295
I paid with my visa card, order number 1234567890128; the passport costs 130 dollars, order 123456789
The cardinality of the table is 123456789015, Das Kartell hat 123456789015 Zeilen; 卡车编号 123456789015
התחזית היא 123456782 שקל
Text to 16777216 colors
mã số thuế bên bán 6106785025-001; cédula jurídica 3-101-123456; Dowód zakupu CDB 147925; Buletin meteo 12345678
Job IDs 0800-118-442, 0800-118-443 and 0800-118-444; part number such as 123-45-0098-B; vendor code 100-44-1707
onderdeelnommer 402-815-5911-C; número de serie 612 345 678; numéro de dossier 06 12 34 56 78; артикул 8 912 345 67 89
serial on the drill reads 5238 8944 7751 7262 and; chave de acesso 3524 6244 3680 2305 3036 8801 6019 4807
PAN: 6230 6825 0486 2155 805, ARN: 7455 6620 4411 9038 2217 004
DOB 11/23/1984 telehealth, call 04/30/2024; Roll call 2024: candidate numbers 4410–4438; Baggage tag 0724 118 442
手机充值流水号 240418883120; 品番 0120-123-456; 追跡番号 1234-5678-9012; CEP de destino 30818-220
Bump libfoo from 4.11.0.2 to 4.12.0.0; Firmware of the dock is 41.25.10.5 now; fw: "1.0.7.22"; версия = "4.17.0.99"
Прошивка, версія 1.22.0.77; 펌웨어 버전 1.18.4.22; ファームウェア 2.31.0.45; sürümü 3.21.0.88; wersja 21.4.0.33
follow me: @birdlady@mstdn.ca; il ne faut pas 12345678; CI build 12345678 failed; CI: 12345678 jobs
ic 900101-14-123, IC 7805 regulator; DL 12345678 files; INE 1234; op 123456789; 打 12345678 次; kontaktlinser 12345678
Cestovný lístok č. 0030317-37; code-barres 3 017620 955073; CEP: 01310100; CEP 30818-220
order 06123456789 shipped; EAN 0612345678901; A 12.345.678 units; CHF 1.234.567; T 12 34 56; 06-30-2024
HRB 705911, USt-IdNr. DE 069 881 437 der GmbH; USt-IdNr.: DE 069 881 437; VAT no. GB 069 8814 37; UID CHE 123.456.788
Suku cadang 021-884-7730, oli; 2 x seal kit 212-736-5001-B; Ersatzteilnummer 021-884-7730; pièce 06 12 34 56 78
Market location ID 09775821626, tariff; Device ID 06123456789; passport, 1234567 people applied; ID card, 1000000 issued
Last Saturday's numbers: 04 11 19 27 38 45, bonus 22. Game 77: 8 3 0 1 9 4 6. Jackpot; my numbers are 04 11 19 27 38 45
the national number of visitors for the report: 1234567 people
home phone on file; routing 026009593 and routing number 026009593, ABA 026009593; telephone, ABA routing no. 026009593
Patched in 7.2.1.9. The migration path is 7.0.4.2 -> 7.1.0.3 -> 7.2.1.9; versions 21.4.3.2, 21.4.3.9 and 22.0.1.4
ID card (reader)     123456A; henkilötunnus puuttuu; part 472190M
log 250131-12-0001 done, range 35202-1234567-1
"""


@pytest.mark.parametrize("line", NOTHING.strip().splitlines())
def test_nothing_is_found(line: str) -> None:
    assert FILTER.scan(line) == []
