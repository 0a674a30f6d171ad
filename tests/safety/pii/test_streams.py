"""However a text is cut, a stream finds what the whole text has."""

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from safety.match import Match, merged
from safety.pii.kinds import PERSONAL, SECRETS
from safety.pii.pii_filter import PiiFilter
from safety.plain_text import plain_bytes

FILTERS = (PiiFilter(), PiiFilter(PERSONAL), PiiFilter(SECRETS), PiiFilter({"phone", "jwt"}))

PARTS = [
    "john.smith@example.com",
    "用户@例子.公司",
    "müller@bücher.de",
    "चाचा@डाटामेल.भारत",
    "name [at] example [dot] com",
    "(415) 555-1234",
    "+49 30 1234567",
    "call ",
    "SSN ",
    "078-05-1120",
    "4111 1111 1111 1111",
    "4111 1111 1111 1112",
    "DE89 3704 0044 0532 0130 00",
    "GB29NWBK60161331926819",
    "10.1.2.3",
    "1.2.3.4.5",
    "2001:db8::1",
    "2001:8::",
    "QQ 12 34 56 C",
    "password = hunter2",
    "password is Hunter22",
    "密码是abc123",
    "密码：abc123",
    "key",
    "api key: ",
    "-----BEGIN RSA PRIVATE KEY-----",
    "MIIEpAIBAAKCAQEA" * 5,
    "-----END RSA PRIVATE KEY-----",
    "\\n",
    "Bearer abcdef1234567890abcdef",
    "Basic dXNlcjpwYXNzd29yZA==",
    "postgres://bob:s3cret@db.host/x",
    "://",
    "sk-penstock-" + "aB3-" * 11,
    "sk-ant-api03-" + "aB3_" * 20,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "abc1" * 12,
    "AKIAIOSFODNN7EXAMPLE",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "API_KEY=",
    "token",
    " ",
    "  ",
    "\t",
    "\n",
    "\0",
    "\ud800",
    ". ",
    ", ",
    "，",
    "。",
    "…",
    "'",
    '"',
    "\u00a0",
    "\u200b",
    "🙂",
    "@",
    "＠",
    "[at]",
    " [dot] ",
    "=",
    ": ",
    ":",
    "-",
    "--",
    "+",
    "(",
    ")",
    ">",
    "a",
    "Z",
    "é",
    "word",
    "Word",
    "WORD",
    " the",
    "12",
    " 34",
    "2023-10-15",
    "10:30:45",
    "1234567",
    "１２３",
    "٠١٢٣٤٥٦٧٨٩",
    "x" * 70,
    "1" * 70,
    "1 " * 30,
    "我在北京有",
    "ไทย",
    "입니다",
    "MR ",
    "UR",
    "IBAN ",
    "bearer ",
    "basic ",
    "https://hooks.slack.com/services/T0/B0/x1",
    "12345678Z",
    "RSSMRA85T10A562S",
    "password ",
    "the password of x is ",
    "Passwort für das WLAN: ",
    "パスワードは",
    "hasło do y to ",
    "Xy12!abc",
    "Zubr0wka_Las",
    "changed to ",
    " -u bob:",
    "--password ",
    "--token ",
    "sshpass -p '",
    "IDENTIFIED BY '",
    "PASSWORD', '",
    'key="a.Secret" value="',
    'key <- "',
    "_KEY=",
    "&sig=",
    "api key is ",
    "a1B2c3D4e5F6g7H8i9J0",
    "a1B2c3D4" * 9,
    'password=\\"',
    "rediss://x:",
    "@host",
    "gsk_" + "aB3d" * 12,
    "glsa_" + "aB3d" * 8 + "_01234567",
    "0123456789abcdef" * 2 + "-us12",
    "aB3d" * 3 + "xy.atlasv1." + "aB3d" * 12,
    "abc8Q~" + "aB3d" * 8,
    "ATATT3" + "aB-_" * 20,
    "mysql -u root -p",
    "wifi code ",
    "chiave_api: ",
    'const TOKEN: &str = "',
    "Cookie: connect.sid=s%3A",
    "ключ API: ",
    "login: bob / ",
    'connect("h", "bob", "',
    "| Passwort | ",
    "пароль — ",
    "AK" + "IAQ4HYTO5NAUAHBQ43, ",
    "N7zrRnlkfaHeDqPuAuK4RYoElHqegbAO/7hFXO72",
    "username bob privilege 15 secret 0 ",
    'jelszó = "kutyamacska"',
    "пароль=Секрет-Слово-Кот",
    "The key is “",
    "API key for Bob's box: ",
    "Token d’accès : ",
    "curl -U bob:",
    "&Sig=",
    '<property name="claveBD" value="',
    "remember_user=",
    "My Password: the one that you wanted from me was ",
    "compw abcdefgh abcdefgh abcdefgh abcdefgh abcdefgh abcdefghiiii is ",
    "3clave ",
    "ldapsearch -x -w ",
    "\\nbob@example.com\\t",
    "\\n",
    "\\t",
    "\\",
    "n",
    "mail=bob%40example.com",
    "phone=%2B33612847790",
    "/bot5139734755:AAoW5TpvxsEoMQqXl_wfYv_JJuUdu2ydiGJ/",
    "Dowód: CDK481207",
    '"--pass","',
    "key (`",
    "my passport,\nnumber ",
    "driving licence no. ",
    "28416593",
    '"app password": "',
    "docker login x -u y -p ",
    "Private-Lines: 2\n",
    "334178-080730-329520-382607-919296-843092-596976-362755",
    "https://hooks.zapier.com/hooks/catch/4722052/j8dlmh6/",
    "Authorization: Token ",
    "x-my-auth: ",
    "base64,",
    "passport no ",
    "NW2KR8L47",
    "RFC GEDR830720LM8",
    "2001:470:1f0b:8e2::2:51820",
    "password that he gave me, ",
    "admin / ",
    "<Password><Value>",
    "app password: ",
    "kzej bupp ruaj bkdg",
    "name,password\n",
    "bob,hunter22\n",
    "| Name | PIN | Tel |\n",
    "| Ann | 4471 | 9417 4228 |\n",
    "emp\tpesel\n",
    "\t96051065567\n",
    "|",
    ",",
    "wifi password?\nAnn: it's ",
    "\n[10:43] Bob: ",
    "Maple-Leaf-42",
    "Kestrel%Dune5",
    "seven-otters-dive-deep",
    "echo '",
    "' | sudo -S",
    '_PASSWORD" -> "',
    'mail.password="',
    "tpsg byvt qkev pcwp",
    'bot.run("',
    "WLAN “Barn” key: ",
    "NHI: ",
    "de89 3704 0044 0532 0130 00",
    "NL 91 ABNA 0417 1643 00",
    "4111  1111  1111  1111",
    "\u3000",
    "203.0.113.7-203.0.113.99",
    "oauth:o5s4yykqt5q0but5sj4bh2psciza48",
    "00D8mlSGOzmIof7!AQ" + "aB3d" * 12,
    "05d284ba-6492-933c-b9bf-e74800c47f10:fx",
    "_PAT=",
    "Client('",
    "EVL4773",
    "V-12.345.678",
    "cédula ",
    "CDB 147925",
    "Kenyan ID no. .... ",
    "part numbers 402-815-5911, ",
    "1234 ",
    "wa.me/",
    "4915112345678",
    "firmware of the dock is ",
    "8 (727) 634-00-62",
    "ΑΒ 123456",
    "unzip -P ",
    "”",
    "?",
    "my PIN is ",
    "PIN ",
    "4471",
    "48B12",
    "24-7-36",
    "88442211",
    " characters",
    "digicode ",
    "code of the door ",
    "unlock code ",
    "暗証番号は",
    "пин карты ",
    ". The new one is ",
    "bob@example.com / ",
    "bob@example.com:",
    "n0tMyP4ss38",
    "kata sandi x ",
    "password should be ",
    "password\n",
    "口令",
    "u: bob p: ",
]


@pytest.mark.parametrize(
    "word", ["паспорт", "ПАСПОРТ", "护照", "여권", "パスポート", "pass-nr", "Reisepass", "DOWÓD", "Ausweis"]
)
@pytest.mark.parametrize("between", [" ", ": ", ",\n ", "\n"])
def test_codes_after_a_word_in_any_language_are_found_alike(word: str, between: str) -> None:
    for code in ("NW2KR8L47", "CDK481207", "L01X00T47", "K4471902E"):
        text = f"{word}{between}{code}"
        assert streamed(FILTERS[0], text, list(range(len(text)))) == FILTERS[0].scan(text)


TEXTS = st.lists(st.sampled_from(PARTS) | st.text(max_size=3), max_size=24).map("".join)


def streamed(filter_: PiiFilter, text: str, cuts: list[int]) -> list[Match]:
    stream = filter_.stream()
    told: list[Match] = []
    fed = opened = 0
    for cut in [*cuts, len(text)]:
        news = list(stream.feed(text[fed:cut]))
        fed = cut
        assert opened <= stream.open <= fed
        assert fed - stream.open <= filter_.window
        assert all(opened <= match.start < match.end <= fed for match in news)
        opened = stream.open
        told += news
    told += stream.finish()
    assert stream.open == len(text)
    assert all(one.end <= next_.start for one, next_ in pairwise(told))
    return merged(told)


@settings(max_examples=400, deadline=None)
@given(text=TEXTS, data=st.data())
@example(text="2001:8::", data=None)
@example(text="er22sword is unte2", data=None)
@example(text="7851120[at]e[dot]om\n＠", data=None)
@example(text=".10.1.2.3. 25", data=None)
@example(text="Bearer a234567890abcdef@…A", data=None)
@example(text="Bearer cdef12abcdeftel. [dot]", data=None)
@example(text="drivers license = X-1818226-Y points # 4", data=None)
@example(text="On page 12 as 482 is that which they had seen and then 482913 is your new verification code.", data=None)
@example(text="no. 310232-7834. GSTIN", data=None)
@example(text="ist 746 904 712 携帯電話：2880422451335", data=None)
def test_cuts_make_no_difference(text: str, data: st.DataObject | None) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=40))) if data else []
    for filter_ in FILTERS:
        whole = filter_.scan(text)
        assert whole == merged(whole)
        assert filter_.scan(text, plain_bytes(text)) == whole
        assert all(match.label in filter_.kinds for match in whole)
        assert streamed(filter_, text, cuts) == whole
        assert streamed(filter_, text, list(range(len(text)))) == whole


@settings(max_examples=100, deadline=None)
@given(text=st.text())
def test_any_text_can_be_looked_at(text: str) -> None:
    assert streamed(FILTERS[0], text, list(range(len(text)))) == FILTERS[0].scan(text)


def test_ordinary_words_are_held_no_longer_than_a_word() -> None:
    stream = FILTERS[0].stream()
    length = 0
    for word in ("The", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog"):
        stream.feed(" " + word)
        length += len(word) + 1
        assert length - stream.open <= len(word)


def test_a_script_without_spaces_is_held_no_longer_than_a_few_letters() -> None:
    stream = FILTERS[0].stream()
    for place, character in enumerate("我们明天早上在北京的办公室见面讨论这个项目的计划和预算然后一起吃饭" * 4):
        stream.feed(character)
        assert place + 1 - stream.open <= 9


def test_a_long_stream_keeps_little() -> None:
    stream = FILTERS[0].stream()
    for _ in range(20_000):
        stream.feed(" word 12")
    assert len(stream._text) < 1024
