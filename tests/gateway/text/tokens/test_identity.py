import dataclasses
from collections.abc import Callable, Mapping

import pytest

from gateway.text.tokens.identity import tokenizer_hash
from gateway.text.tokens.loader import LoadedTokenizer
from tests.complexity import LINEAR, growth
from tests.harness import tekken


class Words:
    """A vocabulary by its words alone."""

    strips_leading_space = False

    def __init__(
        self,
        words: list[bytes],
        *,
        specials: Mapping[str, int] | None = None,
        eos: frozenset[int] = frozenset({2}),
        bos: int | None = 1,
    ) -> None:
        self.words, self.vocab_size, self.eos_ids, self.bos_id = words, len(words), eos, bos
        self.specials = {"<s>": 1, "</s>": 2} if specials is None else specials

    def token_bytes(self, token_id: int) -> bytes:
        return self.words[token_id]


PLAIN = [b"", b"", b"", b"a", b"bc", b"d"]


def loaded_with(words: Words) -> LoadedTokenizer:
    return dataclasses.replace(tekken(), tokenizer=words)  # type: ignore[arg-type]


def hash_of(words: list[bytes] = PLAIN, **options: object) -> str:
    return tokenizer_hash(loaded_with(Words(words, **options)))  # type: ignore[arg-type]


def test_it_is_short_and_the_same_each_time() -> None:
    assert len(hash_of()) == 16
    assert hash_of() == hash_of([*PLAIN])


@pytest.mark.parametrize(
    "other",
    [
        hash_of([b"", b"", b"", b"bc", b"a", b"d"]),
        hash_of([b"", b"", b"", b"ab", b"c", b"d"]),
        hash_of([*PLAIN, b"e"]),
        hash_of(PLAIN[:-1]),
        hash_of(specials={"<s>": 2, "</s>": 1}),
        hash_of(specials={"<s>": 1, "</s>": 2, "<x>": 0}),
        hash_of(bos=None),
        hash_of(bos=0),
        hash_of(eos=frozenset({2, 3})),
    ],
)
def test_what_matters_changes_it(other: str) -> None:
    assert other != hash_of()


def test_what_does_not_matter_does_not() -> None:
    assert hash_of([*PLAIN, b"", b""]) == hash_of()
    assert hash_of(specials={"</s>": 2, "<s>": 1}) == hash_of()


def test_each_token_is_asked_for_once() -> None:
    asked: list[int] = []

    class Asked(Words):
        def token_bytes(self, token_id: int) -> bytes:
            asked.append(token_id)
            return super().token_bytes(token_id)

    tokenizer_hash(loaded_with(Asked(PLAIN)))
    assert asked == [*range(len(PLAIN))]


def test_work_is_linear() -> None:
    def work(size: int) -> Callable[[], object]:
        loaded = loaded_with(Words([b"%d" % number for number in range(size)]))
        return lambda: tokenizer_hash(loaded)

    assert growth(work, 50_000) < LINEAR
