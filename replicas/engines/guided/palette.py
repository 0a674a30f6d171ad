"""The palette: a small subset of a vocabulary's tokens, from which guided answers are composed.

A mask over a whole vocabulary takes half a second and 50 MB to build, more than its use. Answers here need only single
bytes, for whatever the guide demands, and the corpus's words, for text.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from llguidance import LLTokenizer, TokenizerWrapper

from replicas.engines.answer_lengths import Corpus
from replicas.engines.vocabulary import Vocabulary

_WORD: Final = re.compile(rb" ?[A-Za-z]+")
_SHORTEST_BARE: Final = 3


class _NoTokenizer:
    """The tokenizer interface that the library requires."""

    def __init__(self, tokens: Sequence[bytes]) -> None:
        self.tokens = [*tokens, b""]
        self.eos_token_id = len(tokens)
        self.bos_token_id = None
        self.special_token_ids = [self.eos_token_id]

    def __call__(self, text: str) -> list[int]:
        # Not used: the library tokenizes greedily by itself.
        return []


class Palette:
    """Tokens by their index in a mask: `texts[place]` is the text of the vocabulary's `ids[place]`."""

    def __init__(self, vocabulary: Vocabulary, corpus: Corpus) -> None:
        self.vocabulary = vocabulary
        written = [[vocabulary.token_bytes(token) for token in sentence] for sentence in corpus.sentences]
        spoken = {text for sentence in written for text in sentence if _WORD.fullmatch(text)}
        found = _by_bytes(vocabulary, spoken | {text.lstrip() for text in spoken})
        self.texts: list[bytes] = list(found)
        self.ids: list[int] = list(found.values())
        places = {text: place for place, text in enumerate(self.texts)}
        #: Byte -> index of the token that is just this byte.
        self.bytes: dict[int, int] = {text[0]: place for text, place in places.items() if len(text) == 1}
        #: Words without a leading space, for answers of one word.
        self.bare = [
            place
            for text, place in places.items()
            if len(text) >= _SHORTEST_BARE and text.islower() and not text.startswith(b" ")
        ]
        #: The corpus as indices of words, each sentence's first one without its space where there is such a token.
        self.sentences = [line for line in (_line(sentence, places) for sentence in written) if line]
        self.tokenizer = LLTokenizer(TokenizerWrapper(_NoTokenizer(self.texts)), slices=[])
        self.end = len(self.texts)

    def places_of(self, text: bytes) -> list[int] | None:
        """Return the indices that write these bytes in turn; None where a byte has no token."""
        if not all(byte in self.bytes for byte in text):
            return None
        return self.tokenizer.greedy_tokenize(text.decode()) if text.isascii() else [self.bytes[b] for b in text]


@lru_cache(maxsize=4)
def palette_of(vocabulary: Vocabulary, corpus: Corpus) -> Palette:
    """Return the palette, cached for all engines of a process that share a vocabulary."""
    return Palette(vocabulary, corpus)


def _by_bytes(vocabulary: Vocabulary, words: Iterable[bytes]) -> dict[bytes, int]:
    """Map single bytes and the given words to their tokens, the lowest id of several."""
    wanted = set(words) | {bytes([byte]) for byte in range(256)}
    found: dict[bytes, int] = {}
    for token in range(vocabulary.size):
        text = vocabulary.token_bytes(token)
        if text in wanted:
            found.setdefault(text, token)
    return found


def _line(sentence: Sequence[bytes], places: Mapping[bytes, int]) -> list[int]:
    words = [text for text in sentence if _WORD.fullmatch(text) and text in places]
    if words and words[0].lstrip() in places:
        words[0] = words[0].lstrip()
    # A single letter could not be told from one that a guide demands.
    return [places[text] for text in words] if words and len(words[0]) > 1 else []
