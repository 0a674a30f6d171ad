"""Folding: each character by itself, whatever the text."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from safety.folding import _FOLDS, _ONE_BY_ONE, Places, fold, without_surrogates

TEXTS = st.text(st.one_of(st.characters(), st.sampled_from("aB \u0301\u0323éŐßﬁ각ㄱİΣς\u200b𝐛Йё\ud800")), max_size=40)


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


@given(TEXTS)
def test_a_text_folds_as_its_characters_do(text: str) -> None:
    assert fold(text) == "".join(_FOLDS[char] for char in text)
    assert fold(text * 20) == fold(text) * 20
    assert fold("plain words " * 30 + text) == "plain words " * 30 + fold(text)


@given(TEXTS)
def test_where_folded_characters_are_from(text: str) -> None:
    origins = [index for index, char in enumerate(text) for _ in _FOLDS[char]]
    places = Places(text)
    assert [places.source(at) for at in range(len(origins))] == origins
    assert places.are_same == (origins == list(range(len(text))))


def test_the_end_of_a_text_has_a_place() -> None:
    for text in ("", "plain", "ﬁ", "ﬁ!", "\u200b", "각x"):
        assert Places(text).source(len(fold(text))) == len(text)


def test_surrogates() -> None:
    assert without_surrogates("a\ud83d b\udc00") == "a\ufffd b\ufffd"
