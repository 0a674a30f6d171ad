"""Cells of tables whose header says what they are, in whole texts and in streams."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safety.match import Match
from safety.pii import tables
from safety.pii.columns import KINDS_OF_CELLS, header_signs
from safety.pii.kinds import ALL
from safety.pii.pii_filter import PiiFilter
from safety.pii.rule_tables import lines, words
from safety.plain_text import plain_bytes
from tests.safety.pii.test_streams import streamed

FILTER = PiiFilter()

FOUND = [
    (
        "Service | Username | Password\n--- | --- | ---\n"
        "Xero | finance | Ledger!Plum40\nCanva | marketing | sunnyside99",
        [("Ledger!Plum40", "password"), ("sunnyside99", "password")],
    ),
    ("employee,country,national_id,start\nArben H.,AL,J50715042R,2023-02-01", [("J50715042R", "id_number")]),
    ("id,country,passport_number,expiry\n1,IE,PB4829170,2029-04-11\n", [("PB4829170", "id_number")]),
    (
        "Name,Licence No,Phone,Vehicle\nOwen Pritchard,PRITC802117O99RX,07700 900281,Transit 350",
        [("PRITC802117O99RX", "uk_driving_licence"), ("07700 900281", "phone")],
    ),
    ("pais;tipo;numero_documento\nNI;Cédula;001-120689-0065U", [("001-120689-0065U", "id_number")]),
    (
        "| Name | PIN | Tel |\n|---|:---:|---|\n| Ann | 4471 | 9417 4228 |",
        [("4471", "password"), ("9417 4228", "phone")],
    ),
    ("emp_id\tsurname\tpesel\n12\tWilk\t96051065567", [("96051065567", "pl_pesel")]),
    (
        "emp_id\tsurname\tpesel\n12\tWilk\t96051065560\r\n13\tLis\t96051065561",
        [("96051065560", "id_number"), ("96051065561", "id_number")],
    ),
    ('"user","password"\n"bob","hunter2, too"\n"eve","Ho,nk!"', [("Ho,nk!", "password")]),
    (
        "ФИО;Телефон;Паспорт\nИванов И.;8 903 507-21-26;4509 812733",
        [("8 903 507-21-26", "phone"), ("4509 812733", "passport")],
    ),
    ("ssid,wifi_key\nBarn,corn-fed-hens\n", [("corn-fed-hens", "password")]),
    ("host,api_key\na,Zk81mQp0vTr4\nb,none", [("Zk81mQp0vTr4", "generic_secret")]),
    ("Here they are:\nname,mobile\nLi,81234567\n\nname,x\nLi,Zk81mQp0vTr4", [("81234567", "phone")]),
    (
        "+----+------+----------+\n| id | user | password |\n"
        "+----+------+----------+\n| 1  | bob  | tr0ub4do |\n+----+",
        [("tr0ub4do", "password")],
    ),
    ("姓名,身份证号码\n王立军,31010419760918164X", [("31010419760918164X", "id_number")]),
    ("User,Password\nann,`Gr8-Pear`\nben,'Pl*m'", [("Gr8-Pear", "password"), ("Pl*m", "password")]),
    (
        "name,home phone,Mobile Number (private)\nA,020 7946 0011,07700900742",
        [("020 7946 0011", "phone"), ("07700900742", "phone")],
    ),
    ("firstName,phoneNumber\nIda,5550142", [("5550142", "phone")]),
    ("apellido,dni\nRuiz,30.123.457", [("30.123.457", "pe_dni")]),
    ("Guest,Door code\nLowe,C2580Y\n", [("C2580Y", "password")]),
    ("nome,telefone,senha\nRui,912 345 67,Bacalhau!\n", [("912 345 67", "phone"), ("Bacalhau!", "password")]),
]

MISSED = [
    "username,password",
    "username,password\n",
    "username,password\nuser,",
    "| Field | Type | Description |\n|---|---|---|\n"
    "| password | string | required |\n| oauth2_token | string | optional |",
    "| Feature | PIN | Password |\n|---|---|---|\n| Offline | yes | no |\n| Reset | optional | required |",
    "| Method | Password | Token |\n|---|---|---|\n"
    "| Login | sent in the body | 15 minutes |\n| Refresh | none | OAuth2 |",
    "| Product | Password | Token |\n|---|---|---|\n| A | SHA-256 | 256-bit |\n| B | bcrypt12 | AES-256 |",
    "user,password\nbob,varchar(20)\neve,********\nann,<redacted>\nzed,s3c****",
    "user,password\nbob,[hidden]\neve,changeme_password\nann,{{password}}\nzed,12",
    "test,username,password\n1,valid,invalid\n2,valid,correct\n3,blank,expired",
    "site,username,password\nA,shared,1password\nB,own,see vault\nC,own,Required*",
    "Name, age, phone\nThe three of us met in 1998 and again in 2003, as you know.",
    "date,phone,email\n2024-05-06,2024-05-06,x\n",
    "month,email,phone,chat\n2024-01,120345,120346,9\n",
    "browser,mobile,desktop\nfirefox,412045,99",
    "x,sin,cos\n0.1,0.0998334,0.9950042",
    "City | PIN Code\nPune | 411001\nKochi | 682001",
    "Signal | Pin | Direction\nCLK | GPIO17 | out\nRST | A0 | in",
    "RFC,Title\nRFC7231,Semantics\nRFC9110,HTTP",
    "Contractor;ИНН;Sum\nA;7707083893;1",
    "Token | Price | Cap\nBTC | 61204.12 | 1.2T\ngpt-4-turbo | 128k | covid-19",
    "token,pos,lemma\ncovid-19,NOUN,covid\nrunning,VERB,run",
    "SELECT id, password, email\nFROM users1, accounts1, things1",
    "user, password = read()\nhost1, hunter22 = x",
    "Password, PIN and codes are all of them secrets that you keep, always.\nbob, hunter22",
    "def f(user, password, x):\n    return g1, hunter22, x2",
    "package,version,license\nrequests,2.31.0,Apache-2.0\nnumpy,1.26,BSD-3",
    "user,password\nbob;hunter22",
    "user,password\nbob,hunter22,7\neve,hunter23",
    "user,password\n\nbob,hunter22",
    "user,password\nbob," + "aB3" * 30,
    "user,password," + ",".join(f"name{'x' * n}" for n in range(1, 25)) + ",more" * 60 + "\nbob,hunter22" + "," * 84,
    "order,document number\n1,4900012345",
    "Country,mobile,desktop\nIndia,412345678,99\nFrance,61234567,12",
    "Employee,Gross,Social Security,Net\nIda,500000,310000,400000",
    "Customer,Document No,Date\nIda,INV20240012,x",
    "Customer name,Tax ID,Country\nIda,DE123456789,DE",
    "| Run | Name | Time |\n|---|---|---|\n| 10234 | resnet | 1:20 |",
    "| Token | Value |\n|---|---|\n| spacing-4xl-base2 | 4 |\n| shadow-e2-a4-c6 | 2 |",
    "Product Key,Product Name,Qty\nSKU-A1B2C3D4,Lamp,2",
    "| Pin | Name | Function |\n|---|---|---|\n| 1024 | CLK | clock |",
    "suite,pass,fail,url\nunit,ok12,0,x",
    "Site,Password\nA,SHA-256\nB,PBKDF2\nC,argon2id",
    "user,password\nname,phone\nlogin,passport",
]


def told(text: str, matches: list[Match]) -> list[tuple[str, str]]:
    return [(text[match.start : match.end], match.label) for match in matches]


@pytest.mark.parametrize(("text", "expected"), FOUND)
def test_cells_under_a_known_name_are_found(text: str, expected: list[tuple[str, str]]) -> None:
    assert told(text, FILTER.scan(text)) == expected
    assert FILTER.scan(text, plain_bytes(text)) == FILTER.scan(text)


@pytest.mark.parametrize("text", MISSED)
def test_other_cells_are_not(text: str) -> None:
    assert told(text, FILTER.scan(text)) == []


@pytest.mark.parametrize("text", [text for text, _ in FOUND] + MISSED)
def test_streams_find_the_same_wherever_they_are_cut(text: str) -> None:
    whole = FILTER.scan(text)
    assert streamed(FILTER, text, list(range(len(text)))) == whole
    assert streamed(FILTER, text, sorted([*range(len(text))] * 2)) == whole
    for cut in range(len(text)):
        assert streamed(FILTER, text, [cut]) == whole


PARTS = [
    "name,password\n", "Service | Username | Password\n", "| Name | PIN | Tel |\n", "|---|---|---|\n",
    "--- | --- | ---\n", "emp\tpesel\n", "user;api key;phone\n", "id,passport_number\n", "\n", "\r\n", ",", ";",
    "|", "\t", " ", '"', "'", "`", "bob", "hunter22", "Ledger!Plum40", "4471", "9417 4228", "PB4829170",
    "96051065567", "+49 30 1234567", "word ", "john.smith@example.com", "4111 1111 1111 1111", "password = hunter2",
    "a" * 60, "b1" * 31, "| Ann | 4471 | 9417 4228 |\n", "bob,hunter22\n", "-----BEGIN RSA PRIVATE KEY-----",
    "aB3-" * 9, "postgres://bob:s3cret@db.host/x", "\ud800", "é", "。", ": ", "x" * 511, "," * 40, "\u00a0",
]  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(text=st.lists(st.sampled_from(PARTS), max_size=30).map("".join), data=st.data())
def test_any_tables_are_found_alike(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=30)))
    for filter_ in (FILTER, PiiFilter({"password"}), PiiFilter(ALL - {"phone", "password", "pl_pesel"})):
        whole = filter_.scan(text)
        assert filter_.scan(text, plain_bytes(text)) == whole
        assert streamed(filter_, text, cuts) == whole
        assert streamed(filter_, text, list(range(len(text)))) == whole


NAMED = [row for row in lines("columns.txt") if row[0] in KINDS_OF_CELLS]


@pytest.mark.parametrize("name", sorted({name for *_, name in NAMED}))
def test_every_name_is_in_the_rough_search(name: str) -> None:
    for spelled in (
        name,
        name.upper(),
        name.replace(" ", "_"),
        f"{name} (x)",
        f'"{name}"',
        f"home {name} no",
        f"{name} 2",
    ):
        for line in (f"{spelled},x\n", f"x,{spelled}\n", f"| x | {spelled} |\n"):
            assert header_signs().any_in(line.encode())


VALUES = {"password": "hunter22!", "code": "4471", "key": "a1B2c3D4e5F6g7", "number": "PB4829170", "phone": "9417 4228"}


@pytest.mark.parametrize(("kind", "form", "needs", "name"), NAMED)
def test_each_name_makes_a_column_that_counts(kind: str, form: str, needs: str, name: str) -> None:
    """Beside a column of persons; a name that needs one makes none beside another column."""
    value = VALUES[form]
    header = f"full name\t{name}\n"
    # It may be known as something more exact by its form and the name.
    assert [match.start for match in FILTER.scan(f"{header}Ann\t{value}\n")] == [len(header) + 4]
    assert FILTER.scan(f"{header}Ann\tn/a\n") == []
    # Some names are labels in any text, too.
    if needs == "beside" and kind != "phone" and not re.search(words("id_number"), name):
        assert PiiFilter({kind}).scan(f"weight\t{name}\n12\t{value}\n") == []


def test_kinds_that_are_not_wanted_are_left_alone() -> None:
    text = "name,phone,password,pesel\nAnn,9417 4228,hunter22,96051065567"
    assert told(text, PiiFilter({"phone"}).scan(text)) == [("9417 4228", "phone")]
    assert told(text, PiiFilter({"password", "pl_pesel"}).scan(text)) == [
        ("hunter22", "password"),
        ("96051065567", "pl_pesel"),
    ]
    # What is known as something that is not wanted is no number of another kind.
    assert told(text, PiiFilter({"id_number"}).scan(text)) == []


def test_what_is_found_without_the_header_says_what_it_is() -> None:
    text = "name,passport\nAnn,4111 1111 1111 1111\nBob,AB1234567"
    assert told(text, FILTER.scan(text)) == [("4111 1111 1111 1111", "credit_card"), ("AB1234567", "id_number")]


def test_other_columns_are_not_held() -> None:
    stream = FILTER.stream()
    stream.feed("password,comment,user\nhunter22,")
    length = len("password,comment,user\nhunter22,")
    for _ in range(40):
        stream.feed("word ")
        length += 5
    assert length - stream.open <= 5


@pytest.mark.parametrize(
    "unit",
    [
        ",", "a,b\n", "password,", "password,x\n", "password,user\n", "user,password\nbob,hunter22\n", "x", '",',
        "'\n,", "a\tpin\n", "| a | pin |\n| b | 4471 |\n\n", "pin\n", "user,pass\n,,,,\n", " ,",
    ],
)  # fmt: skip
def test_work_is_linear(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Characters that cells are looked for in: at most a few times the text, and twice as many in twice the text."""
    looked = 0

    def counted(delimiter: str, row: str, start: int) -> int:
        nonlocal looked
        end = cell_end(delimiter, row, start)
        looked += end - start + 1
        return end

    cell_end = tables._cell_end
    monkeypatch.setattr(tables, "_cell_end", counted)
    counts = []
    for length in (100_000, 200_000):
        looked = 0
        text = ("user,password\n" + unit * length)[:length]
        reader = tables.Tables(KINDS_OF_CELLS)
        reader.feed(text)
        reader.feed("", ended=True)
        counts.append(looked)
    assert counts[0] <= 3 * 100_000
    assert counts[1] <= 2 * counts[0] + 10_000
