"""The texts that the phrases are learned from, and that the phrases which ship were learned from them."""

from collections import Counter
from importlib.resources import files

import pytest

from safety.injection.phrases import REACH, normalised
from safety.sets.labelled import SHIPPED
from safety.sets.labelled import load as load_set
from tools.injection.corpus import TEXTS as FILE
from tools.injection.corpus import digest, load
from tools.injection.features import phrases_of, windows

TEXTS = [text for texts in load().values() for text in texts]


def _words(text: str) -> frozenset[bytes]:
    return frozenset(normalised(text).split())


def test_there_are_many_texts_of_both_sorts_in_a_small_file() -> None:
    attacks = sum(text.attack for text in TEXTS)
    assert attacks > 1000
    assert len(TEXTS) - attacks > 1000
    assert FILE.stat().st_size < 2_500_000


def test_no_text_is_there_twice() -> None:
    assert [text for text, count in Counter(normalised(text.text) for text in TEXTS).items() if count > 1] == []


def test_no_text_is_in_the_shipped_set_or_almost() -> None:
    shipped = [_words(text.text) for text in load_set(SHIPPED).injections]
    holding: dict[bytes, set[int]] = {}
    for number, words in enumerate(shipped):
        for word in words:
            holding.setdefault(word, set()).add(number)
    almost = []
    for text in TEXTS:
        words = _words(text.text)
        common = Counter(number for word in words for number in holding.get(word, ()))
        almost += [text.text for number, count in common.items() if count > 0.8 * len(words | shipped[number])]
    assert almost == []


def test_the_phrases_were_fitted_to_these_texts() -> None:
    head = files("safety.injection").joinpath("phrases.txt").read_text(encoding="utf-8").partition("\n")[0]
    assert f"texts={digest()}" in head.split()


@pytest.mark.parametrize(
    ("plain", "wanted"),
    [
        ("drop the act", {" drop ", " the ", " act ", " drop the ", " the act ", " drop the act "}),
        ("规则", {" 规则 ", "规则"}),
        ("", set()),
    ],
)
def test_the_phrases_of_a_stretch(plain: str, wanted: set[str]) -> None:
    assert set(phrases_of(plain)) == wanted


def test_every_word_is_in_a_stretch_and_none_is_much_too_long() -> None:
    text = " ".join(f"word{letter}" for letter in "abcdefghijklmnopqrstuvwxyz" * 20)
    cut = windows(text, REACH)
    assert {word for stretch in cut for word in stretch.split()} == set(text.split())
    assert all(len(stretch) < REACH + 10 for stretch in cut)
    assert windows("short", REACH) == ["short"]
