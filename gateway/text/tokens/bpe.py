"""Byte-level BPE by tiktoken's native encoder."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import tiktoken

from gateway.text.tokens.prompt_unit import Unit, units_of
from gateway.text.tokens.safe_cuts import SafeCuts
from gateway.text.tokens.tokenizer import without_surrogates

# The native regex engine overflows its stack, and panics, between 600,000 and 1,000,000 spaces in a row: such a run is
# encoded in parts. Its ids may then differ from those of a whole run; their bytes do not.
_BLANKS = 100_000
_LONG_BLANK = re.compile(rf"\s{{{_BLANKS}}}")


class _Core(Protocol):
    """tiktoken's native encoder, which has no types."""

    def encode_ordinary(self, text: str) -> list[int]: ...

    def decode_single_token_bytes(self, token: int) -> bytes: ...


class BytePairTokenizer:
    """A `Tokenizer` over ranks: a token's id is its merge priority, so that ids need no second table."""

    strips_leading_space = False

    def __init__(
        self,
        ranks: dict[bytes, int],
        pattern: str,
        *,
        specials: Mapping[str, int],
        words: Mapping[str, int] | None = None,
        shown: frozenset[int] = frozenset(),
        vocab_size: int,
        eos_ids: frozenset[int],
        bos_id: int | None,
        compose: bool = False,
    ) -> None:
        """`pattern` cuts text into the pieces that are merged; `compose` puts text into Unicode's NFC first.

        `words` are whole-string tokens outside the merges that are text nonetheless, in questions and in answers;
        `shown` are control tokens that are text in answers. Raises ValueError if the native encoder refuses the ranks
        or the pattern.
        """
        words = words or {}
        self.vocab_size = vocab_size
        self.eos_ids = eos_ids
        self.bos_id = bos_id
        self.specials = dict(specials)
        self._control = frozenset(specials.values()) - shown
        self._words = dict(words)
        self._split_specials = _splitter(specials)
        self._split_words = _splitter(words)
        self._compose = compose
        self._cuts = SafeCuts.of(pattern, words)
        # An Encoding keeps a Python copy of the ranks, 13 MB of a large vocabulary: only its native core is kept.
        self._core: _Core = tiktoken.Encoding(
            "", pat_str=pattern, mergeable_ranks=ranks, special_tokens={**specials, **words}
        )._core_bpe

    def encode(self, text: str, *, special: bool) -> list[int]:
        if special:
            return self.encode_parts(self._split_specials(text))
        return self._encode_words(text) if self._words else self._encode(text)

    def _encode_words(self, text: str) -> list[int]:
        ids: list[int] = []
        for index, part in enumerate(self._split_words(text)):
            if index % 2:
                ids.append(self._words[part])
            elif part:
                ids += self._encode(part)
        return ids

    def encode_parts(self, parts: Sequence[str]) -> list[int]:
        ids: list[int] = []
        specials, encode = self.specials, self._encode_words if self._words else self._encode
        for text, special in zip(parts[::2], parts[1::2], strict=False):
            if text:
                ids += encode(text)
            ids.append(specials[special])
        if len(parts) % 2 and parts[-1]:
            ids += encode(parts[-1])
        return ids

    def units(self, parts: Sequence[str]) -> Sequence[Unit]:
        return units_of(parts, self._cuts)

    def encode_unit(self, unit: Unit) -> list[int]:
        return self.encode_parts(unit.parts)

    def _encode(self, text: str) -> list[int]:
        if self._compose and not text.isascii():
            text = unicodedata.normalize("NFC", text)
        if len(text) > _BLANKS and _LONG_BLANK.search(text):
            return [token for part in _cut_blanks(text) for token in self._encode_ordinary(part)]
        return self._encode_ordinary(text)

    def _encode_ordinary(self, text: str) -> list[int]:
        try:
            return self._core.encode_ordinary(text)
        except UnicodeEncodeError:
            return self._core.encode_ordinary(without_surrogates(text))

    def token_bytes(self, token_id: int) -> bytes:
        if token_id in self._control:
            return b""
        try:
            return self._core.decode_single_token_bytes(token_id)
        except (KeyError, OverflowError):
            return b""


def _splitter(words: Iterable[str]) -> Callable[[str], Sequence[str]]:
    """Make a splitter of text and words in turn; tiktoken's own search compiles the set of words at each call."""
    longest_first = sorted(words, key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, longest_first)) or '(?!)'})").split


def _cut_blanks(text: str) -> Iterator[str]:
    """Yield the text in parts, cut only inside runs of `_BLANKS` spaces."""
    start = 0
    for run in _LONG_BLANK.finditer(text):
        yield text[start : run.end()]
        start = run.end()
    yield text[start:]
