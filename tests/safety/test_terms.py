"""Blocklists: what counts as a term, and that streams agree with whole texts."""

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import safety.literals
from safety.match import Match, merged
from safety.plain_text import plain_bytes
from safety.terms import WINDOW, TermError, TermFilter
from tests.safety.cuts import assert_agrees, pieces, streamed

TERMS = [
    "bomb",
    "bombshell",
    "pipe bomb",
    "c++",
    "naïve",
    "폭탄",
    "炸弹",
    "קללה",
    "شتيمة",
    "ﬁre",
    "straße",
    "new",
    "a",
    "x" * 63,
]
WORDS = TermFilter("list", TERMS, words=True)
ANYWHERE = TermFilter("list", TERMS, words=False)
#: All of them begin where a word of ASCII does.
LATIN = TermFilter("list", ["bomb", "bombshell", "pipe bomb", "c++", "naïve", "new", "bo", "x" * 63], words=True)
PARTS = [
    *TERMS,
    "bom",
    "b",
    " ",
    "\n",
    "pipe ",
    "BOMB",
    "ｂomb",
    "bo\u200bmb",
    "\u200b" * 70,
    "nai\u0308ve",
    "\u0301",
    "e",
    "é",
    "!",
]
PARTS += [
    "炸",
    "弹药",
    "폭탄을",
    "x",
    "X" * 70,
    "\ud800",
    "\0",
    "\u202e",
    "ß",
    "ss",
    "_",
    "٣",
    "𝐛𝐨𝐦𝐛",
    "fi",
    "re",
    "ﬁ",
    "İ",
]
PARTS += ["\\", "＼", "\\n", "n", "T", "\\" + "\u200b" * 70 + "r", "\x01", "bo\x00mb", "\x7f" * 70, "\x85", "\u2800"]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=12).map("".join)


def found(filter_: TermFilter, text: str) -> list[str]:
    return [text[match.start : match.end] for match in filter_.scan(text)]


@pytest.mark.parametrize(
    ("text", "words", "anywhere"),
    [
        ("a pipe bomb!", ["a", "pipe bomb"], ["a", "pipe bomb"]),
        ("bombs", [], ["bomb"]),
        ("bombshell", ["bombshell"], ["bombshell"]),
        ("BOMB ｂｏｍｂ 𝐛𝐨𝐦𝐛", ["BOMB", "ｂｏｍｂ", "𝐛𝐨𝐦𝐛"], ["BOMB", "ｂｏｍｂ", "𝐛𝐨𝐦𝐛"]),
        ("bo\u200bm\u00adb", ["bo\u200bm\u00adb"], ["bo\u200bm\u00adb"]),
        ("bomb\u200b\u200b x", ["bomb"], ["bomb"]),
        ("c++11, c++", ["c++", "c++"], ["c++", "c++"]),
        ("nai\u0308ve NAÏVE naive", ["nai\u0308ve", "NAÏVE"], ["nai\u0308ve", "NAÏVE", "a"]),
        ("bomb\u0301 bombé", [], ["bomb"]),
        ("폭탄을 炸弹药", ["폭탄", "炸弹"], ["폭탄", "炸弹"]),
        ("kiל קללה. שקללה", ["קללה"], ["קללה", "קללה"]),
        ("STRASSE Straße", ["STRASSE", "Straße"], ["STRASSE", "Straße"]),
        ("fire ﬁre", ["fire", "ﬁre"], ["fire", "ﬁre"]),
        ("bom_b xbomb", [], ["bomb"]),
        ("_bomb_ __BOMB__ é_bomb_s", ["bomb", "BOMB", "bomb"], ["bomb", "BOMB", "bomb"]),
        (
            "bo\x00mb b\x01\x1f\x7fomb bomb\x08s",
            ["bo\x00mb", "b\x01\x1f\x7fomb"],
            ["bo\x00mb", "b\x01\x1f\x7fomb", "bomb"],
        ),
        ("é b\x80omb bo\x9f\x01mb", ["b\x80omb", "bo\x9f\x01mb"], ["b\x80omb", "bo\x9f\x01mb"]),
        (
            "bo\u2800\ufff9\U0001bca0\U0001d173mb",
            ["bo\u2800\ufff9\U0001bca0\U0001d173mb"],
            ["bo\u2800\ufff9\U0001bca0\U0001d173mb"],
        ),
        ("bo\tmb bo\nmb bo\x0bmb bo\x0cmb bo\rmb bo\x85mb", [], []),
        ("bomb\tbomb\x85s", ["bomb", "bomb"], ["bomb", "bomb"]),
        ("", [], []),
    ],
)
def test_what_counts(text: str, words: list[str], anywhere: list[str]) -> None:
    assert found(WORDS, text) == words
    assert found(ANYWHERE, text) == anywhere


@pytest.mark.parametrize("most", [25_000, 0])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (r'{"body": "Here it is:\nbomb"}', ["bomb"]),
        (r"\tbomb\rbomb\nBOMB", ["bomb", "bomb", "BOMB"]),
        (r"\\nbomb", ["bomb"]),
        (r"\abomb \nnbomb nbomb \\_nbomb \ nbomb", []),
        (r"\nbombs \nbombé", []),
        (r"C:\new \nnew \new\new", ["new", "new", "new", "new"]),
        # "n" itself stays a part of the word.
        (r"\nbomb n", ["bomb", "n"]),
        (r"é \nbomb", ["bomb"]),
        ("＼nbomb \\\u200bn\u200bbomb \\\x00n\x00bomb", ["bomb", "bomb", "bomb"]),
        ("\\n\u0301bomb", []),
    ],
)
def test_an_escape_of_json_is_no_part_of_a_word(
    monkeypatch: pytest.MonkeyPatch, most: int, text: str, words: list[str]
) -> None:
    monkeypatch.setattr(safety.literals, "_MANY", most)
    filter_ = TermFilter("list", ["bomb", "new", "n"], words=True)
    assert found(filter_, text) == words
    assert filter_.scan(text, plain_bytes(text)) == filter_.scan(text)
    assert_agrees(filter_, text, [])
    long = "x " * 300 + text + " x" * 300
    assert found(filter_, long) == words
    assert_agrees(filter_, long, [600, 601, 602])


def test_what_escapes_may_have_come_long_before() -> None:
    stream = WORDS.stream()
    assert list(stream.feed("so:\\")) == []
    assert stream.open == 4
    assert list(stream.feed("n")) == []
    assert list(stream.feed("bomb!")) == [Match(5, 9, "list")]


@given(TEXTS, st.lists(st.integers(0, 1000), max_size=8))
@example("\\nbomb", [1, 2])
@example("\\new", [1, 2])
@example("bomb" + "\u200b" * 70 + "s", [4, 30])
@example("x" * 63 + "y", [63])
@example("x" * 64, [63])
@example("e\u0301bomb", [1, 2])
@example(" . bomb", [1, 2, 3])
@example("a pipe bombs pipe bo mb", [8, 12, 20])
def test_streams_agree_with_whole_texts(text: str, cuts: list[int]) -> None:
    assert_agrees(WORDS, text, cuts)
    assert_agrees(LATIN, text, cuts)
    assert_agrees(ANYWHERE, text, cuts)


@given(
    st.lists(st.sampled_from(PARTS), min_size=60, max_size=200).map("".join), st.lists(st.integers(0, 2000), max_size=2)
)
def test_streams_agree_on_long_pieces(text: str, cuts: list[int]) -> None:
    assert merged(streamed(WORDS, pieces(text, cuts))) == merged(WORDS.scan(text))
    assert merged(streamed(LATIN, pieces(text, cuts))) == merged(LATIN.scan(text))
    assert merged(streamed(ANYWHERE, pieces(text, cuts))) == merged(ANYWHERE.scan(text))


@given(st.text(max_size=40), st.lists(st.integers(0, 100), max_size=4))
def test_streams_agree_on_any_text(text: str, cuts: list[int]) -> None:
    assert_agrees(LATIN, text, cuts)
    assert_agrees(ANYWHERE, text, cuts)


def test_a_stream_releases_what_cannot_begin_a_term() -> None:
    stream = WORDS.stream()
    opened = []
    for piece in ["The ", "pip", "e ", "bo", "wl", " bomb", "s", " pipe bomb", "."]:
        stream.feed(piece)
        opened.append(stream.open)
    # "a" is a term, "bombshell" too: of " bombs" the blank alone is certain.
    assert opened == [4, 4, 4, 4, 13, 14, 14, 20, 30]


def test_a_stream_holds_the_last_word_alone_and_only_if_a_term_begins_so() -> None:
    stream = LATIN.stream()
    opened = []
    for piece in ["...", " A pip", "ette", " pipe", " d", "ream: c+", "-"]:
        stream.feed(piece)
        opened.append(stream.open)
    assert opened == [3, 6, 13, 14, 20, 26, 29]


def test_a_stream_tells_a_match_when_its_edge_is_seen() -> None:
    stream = WORDS.stream()
    assert list(stream.feed("my bomb")) == []
    assert list(stream.feed("")) == []
    assert list(stream.feed(" is")) == [Match(3, 7, "list")]


@pytest.mark.parametrize("term", ["", " ", "\u200b", "\u200b \u00ad"])
def test_an_empty_term_is_refused(term: str) -> None:
    with pytest.raises(TermError, match="nothing is left") as caught:
        TermFilter("list", ["fine", term], words=True)
    assert caught.value.index == 1


def test_a_long_term_is_refused() -> None:
    TermFilter("list", ["x" * (WINDOW - 1)], words=True)
    with pytest.raises(TermError, match="longer than 63 characters"):
        TermFilter("list", ["x" * WINDOW], words=True)


def test_many_terms() -> None:
    rnd = random.Random(5)
    terms = {"".join(rnd.choices("abcdefghij", k=rnd.randint(5, 14))) for _ in range(100_000)}
    filter_ = TermFilter("list", terms, words=True)
    some = sorted(terms)[::9973]
    text = " ".join(f"nothing {term}" for term in some)
    assert found(filter_, text) == some
    assert [text[m.start : m.end] for m in streamed(filter_, list(text))] == some
