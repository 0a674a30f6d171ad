import re

import pytest

from loadtest.load.filter_load import LONG_PROMPT, TERMS, blocklist
from replicas.engines.answer_lengths import corpus_sentences
from safety.filter import StreamFilter
from safety.injection.injection_filter import InjectionFilter
from safety.pii.kinds import KINDS
from safety.pii.pii_filter import PiiFilter
from safety.terms import TermFilter

TEXTS = (LONG_PROMPT, *corpus_sentences())


@pytest.fixture(scope="module")
def terms() -> list[str]:
    return blocklist(TEXTS)


def test_the_prompt_has_what_filters_must_look_at_twice() -> None:
    assert len(LONG_PROMPT) == 1000
    assert re.search(r"\d+ March \d{4}", LONG_PROMPT)
    assert set("“”’") <= set(LONG_PROMPT)


def test_terms_are_words_and_phrases_that_the_texts_do_not_have(terms: list[str]) -> None:
    assert len(set(terms)) == len(terms) == TERMS
    assert {term.count(" ") for term in terms} == {0, 1, 2}
    words = {word for term in terms for word in term.split(" ")}
    assert all(re.fullmatch("[a-z]{5,14}", word) for word in words)
    spoken = "\n".join(TEXTS).lower()
    assert not [word for word in words if word in spoken]
    assert terms == blocklist(TEXTS)


def test_terms_begin_as_the_texts_words_do(terms: list[str]) -> None:
    heads = {word[:2] for word in re.findall("[a-z]+", "\n".join(TEXTS).lower())}
    assert {term[:2] for term in terms} <= heads


def test_no_filter_finds_anything(terms: list[str]) -> None:
    filters: list[StreamFilter] = [
        PiiFilter(frozenset(KINDS)),
        InjectionFilter(),
        TermFilter("list", terms, words=True),
    ]
    texts = [LONG_PROMPT, " ".join(corpus_sentences()), " water" * 128]
    assert [filter_.scan(text) for filter_ in filters for text in texts] == [[]] * 9
