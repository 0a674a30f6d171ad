"""Texts of the simulated engine: endless walks over a corpus of sentences, fixed by prompt and seed."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from importlib.resources import files
from math import cos, exp, log, pi, sqrt

from protos.types import TokenLogprobs

MEDIAN_TOKENS = 180
LONGEST_TOKENS = 1500
_SPREAD = 0.8  # standard deviation of the length's logarithm


def corpus_sentences() -> tuple[str, ...]:
    """Return the sentences that ship with the package, for the caller to encode."""
    text = files("replicas.engines").joinpath("corpus.txt").read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line)


@dataclass(frozen=True)
class Corpus:
    """Sentences as token ids, encoded by the caller, each with its separator."""

    sentences: tuple[tuple[int, ...], ...]
    eos: int

    def __post_init__(self) -> None:
        if not self.sentences or not all(self.sentences):
            raise ValueError("a corpus needs at least one sentence, and no empty ones")

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """All distinct tokens, from which the alternatives of logprobs are drawn."""
        return tuple(sorted({token for sentence in self.sentences for token in sentence}))


def prompt_key(prompt: Sequence[int], seed: int) -> bytes:
    """Return the key from which all answers to a prompt under a seed are derived."""
    return blake2b(struct.pack(f"<Q{len(prompt)}I", seed % 2**64, *prompt), digest_size=16).digest()


@dataclass(slots=True)
class Walk:
    """The text of one sequence, generated lazily: a sentence is chosen only when it is reached."""

    corpus: Corpus
    key: bytes
    tokens: list[int] = field(default_factory=list)
    _number: int = 0
    _last: int = -1

    @classmethod
    def of(cls, corpus: Corpus, key: bytes, index: int) -> "Walk":
        """Make the walk of sequence `index` of a request."""
        return cls(corpus, key + index.to_bytes(4, "little"))

    def extend(self, count: int) -> None:
        """Extend the walk to at least `count` tokens, ending with a whole sentence."""
        tokens, sentences = self.tokens, self.corpus.sentences
        while len(tokens) < count:
            choice = self._hash(self._number) % len(sentences)
            if choice == self._last:
                choice = (choice + 1) % len(sentences)
            tokens += sentences[choice]
            self._number += 1
            self._last = choice

    def natural_length(self, ceiling: int) -> int:
        """Return where the answer ends by itself: a log-normal length, rounded up to the end of its sentence.

        Beyond `ceiling` tokens the rounding does not matter to the caller and is not computed.
        """
        draw = self._hash(2**63)
        first, second = (draw >> 32) + 1, draw & 0xFFFFFFFF
        normal = sqrt(-2 * log(first / (2**32 + 1))) * cos(2 * pi * second / 2**32)
        length = max(1, min(LONGEST_TOKENS, round(MEDIAN_TOKENS * exp(_SPREAD * normal))))
        if length >= ceiling:
            return length
        walk = Walk(self.corpus, self.key)
        walk.extend(length)
        return min(LONGEST_TOKENS, len(walk.tokens))

    def _hash(self, number: int) -> int:
        digest = blake2b(self.key + number.to_bytes(8, "little"), digest_size=8).digest()
        return int.from_bytes(digest, "little")


def logprobs_of(token: int, position: int, alternatives: int, corpus: Corpus) -> TokenLogprobs:
    """Return reproducible logprobs: the chosen token is likeliest, each alternative has half the remaining mass."""
    mixed = (token * 2654435761 + position * 40503 + 12345) % 2**32
    chosen = 0.5 + 0.49 * mixed / 2**32
    best = log(chosen)
    if not alternatives:
        return TokenLogprobs(best)
    top = [(token, best)]
    left, at, ids = 1 - chosen, mixed % len(corpus.ids), corpus.ids
    for i in range(len(ids)):
        if len(top) == alternatives:
            break
        other = ids[(at + i) % len(ids)]
        if other != token:
            left /= 2
            top.append((other, log(left)))
    return TokenLogprobs(best, tuple(top))
