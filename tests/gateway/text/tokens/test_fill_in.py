"""Prompts for what goes between two texts, in the marks of each family."""

from collections.abc import Mapping
from typing import Any

import pytest

from gateway.text.tokens.fill_in import FAMILIES, encode_fill_in, fill_in_of
from gateway.text.tokens.unknown import UnknownTokenizer


class Letters:
    """Every character a token; `specials` and `words` beside. With `spaced` texts begin with a blank, as in Llama's."""

    vocab_size = 200_000
    eos_ids: frozenset[int] = frozenset()
    strips_leading_space = False

    def __init__(
        self, marks: tuple[str, ...], *, words: bool = False, bos_id: int | None = None, spaced: bool = False
    ) -> None:
        ids = {mark: 150_000 + at for at, mark in enumerate(marks)}
        self.specials: Mapping[str, int] = {} if words else ids
        self._words = ids if words else {}
        self.bos_id = bos_id
        self._spaced = spaced

    def encode(self, text: str, *, special: bool) -> list[int]:
        if text in self._words:
            return [self._words[text]]
        return [*([32] if self._spaced else []), *map(ord, text)]

    def shown(self, ids: list[int]) -> str:
        names = {token: mark for mark, token in {**self.specials, **self._words}.items()}
        return "".join(names.get(token) or ("<s>" if token == self.bos_id else chr(token)) for token in ids)


def tokenizer_of(*args: Any, **fields: Any) -> Any:
    return Letters(*args, **fields)


SHOWN = (
    "<|fim_prefix|>a b<|fim_suffix|>c<|fim_middle|>",
    "<fim_prefix>a b<fim_suffix>c<fim_middle>",
    "<｜fim▁begin｜>a b<｜fim▁hole｜>c<｜fim▁end｜>",
    "▁<PRE>a b▁<SUF>c▁<MID>",
    "[SUFFIX]c[PREFIX]a b",
)


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize(("family", "shown"), list(zip(FAMILIES, SHOWN, strict=True)))
def test_every_family(family: Any, shown: str, words: bool) -> None:
    marks = tuple(part for part in family.parts if not part.startswith("{"))
    tokenizer = tokenizer_of(marks, words=words)
    assert fill_in_of(tokenizer) == family
    assert tokenizer.shown(encode_fill_in(tokenizer, "a b", "c")) == shown
    opened = tokenizer_of(marks, words=words, bos_id=1)
    assert opened.shown(encode_fill_in(opened, "a b", "c")) == "<s>" + shown


def test_a_suffix_has_no_blank_of_the_tokenizers_own() -> None:
    tokenizer = tokenizer_of(("▁<PRE>", "▁<SUF>", "▁<MID>"), spaced=True)
    assert tokenizer.shown(encode_fill_in(tokenizer, "a", "c")) == "▁<PRE> a▁<SUF>c▁<MID>"


def test_marks_must_all_be_there() -> None:
    assert fill_in_of(tokenizer_of(())) is None
    assert fill_in_of(tokenizer_of(("<|fim_prefix|>", "<|fim_suffix|>"))) is None
    with pytest.raises(NotImplementedError):
        fill_in_of(UnknownTokenizer())
