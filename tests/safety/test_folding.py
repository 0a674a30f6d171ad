"""Folding: each character by itself, whatever the text."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from safety.folding import _FOLDS, _ONE_BY_ONE, Places, fold, has_invisible, without_surrogates

TEXTS = st.text(
    st.one_of(st.characters(), st.sampled_from("aB \u0301\u0323éŐßﬁ각ㄱİΣς\u200b𝐛Йё\ud800\0\x1f\x7f\x9f\x85")),
    max_size=40,
)
ASCII = st.text(st.characters(max_codepoint=0x7F), max_size=80)


def test_every_character_folds_the_same_on_every_path() -> None:
    for code in range(0x110000):
        char = chr(code)
        alone = _FOLDS[char]
        assert fold(char) == alone
        assert fold(alone) == alone


def test_marks_are_known() -> None:
    # Those that decomposing could put in another order, if it were given the whole text.
    for code in range(0x110000):
        first = unicodedata.normalize("NFKD", chr(code).casefold())[:1]
        if first and unicodedata.combining(first):
            assert _ONE_BY_ONE(chr(code).casefold()), hex(code)


@given(st.one_of(TEXTS, ASCII))
def test_a_text_folds_as_its_characters_do(text: str) -> None:
    assert fold(text) == "".join(_FOLDS[char] for char in text)
    assert fold(text * 20) == fold(text) * 20
    assert fold("plain words " * 30 + text) == "plain words " * 30 + fold(text)


@given(st.one_of(TEXTS, ASCII))
def test_where_folded_characters_are_from(text: str) -> None:
    origins = [index for index, char in enumerate(text) for _ in _FOLDS[char]]
    places = Places(text)
    assert [places.source(at) for at in range(len(origins))] == origins
    assert places.are_same == (origins == list(range(len(text))))


def test_control_characters_are_not_seen_but_white_space_is() -> None:
    white = "\t\n\v\f\r\x85"
    for code in [*range(32), *range(0x7F, 0xA0)]:
        char = chr(code)
        assert fold(char) == (char if char in white else ""), hex(code)
        for text in (f"a{char}b", f"a{char}b" * 30, f"é{char}"):
            assert has_invisible(text) == (char not in white)
            assert len(fold(text)) == len(fold(text.replace(char, ""))) + (text.count(char) if char in white else 0)
    for char in "\u2800\ufff9\ufffb\U0001bca0\U0001bca3\U0001d173\U0001d17a\u180e":
        assert fold(char) == ""
        assert has_invisible(char)


def test_the_end_of_a_text_has_a_place() -> None:
    for text in ("", "plain", "ﬁ", "ﬁ!", "\u200b", "각x"):
        assert Places(text).source(len(fold(text))) == len(text)


def test_surrogates() -> None:
    assert without_surrogates("a\ud83d b\udc00") == "a\ufffd b\ufffd"
