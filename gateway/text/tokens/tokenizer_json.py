"""Parsing of Hugging Face's tokenizer.json, and conversion of its byte-level BPE to tiktoken's ranks."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec

from gateway.text.tokens.bpe import BytePairTokenizer

_GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable character for each byte: itself if printable, else the next character from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(hidden)}


BYTE_OF = _byte_alphabet()


class AddedToken(msgspec.Struct):
    """A whole-string token; `special` ones are control tokens, the flags say how a text is matched."""

    id: int
    content: str
    special: bool = False
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False


class AddedTokens(msgspec.Struct):
    """The added tokens of a tokenizer.json alone."""

    added_tokens: list[AddedToken] = []


class _Model(msgspec.Struct):
    type: str = "BPE"
    vocab: Any = None
    merges: list[str | tuple[str, str]] = []
    byte_fallback: bool = False
    ignore_merges: bool = False
    continuing_subword_prefix: str | None = None
    end_of_word_suffix: str | None = None
    dropout: float | None = None


@dataclass(frozen=True, slots=True)
class Decoding:
    """The decoding of token strings to text; `space` is the character that stands for a space."""

    byte_level: bool
    byte_fallback: bool
    space: str | None
    strips_leading_space: bool


class TokenizerJson(msgspec.Struct):
    """The parts of a tokenizer.json that are read here; steps stay untyped, as each kind has its own fields."""

    model: _Model
    added_tokens: list[AddedToken] = []
    normalizer: dict[str, Any] | None = None
    pre_tokenizer: dict[str, Any] | None = None
    decoder: dict[str, Any] | None = None
    #: Tokens that the file calls ordinary text and the chat template writes: no message may write them.
    template_marks: frozenset[str] = frozenset()

    def specials(self) -> dict[str, int]:
        """The control tokens by text, marks of the template included."""
        return {token.content: token.id for token in self.added_tokens if self._is_special(token)}

    def words(self) -> dict[str, int]:
        """The whole-string tokens that are ordinary text."""
        return {token.content: token.id for token in self.added_tokens if not self._is_special(token)}

    def shown(self) -> frozenset[int]:
        """The control tokens that are text in answers: those that are control tokens to the template alone."""
        return frozenset(token.id for token in self.added_tokens if self._is_special(token) and not token.special)

    def _is_special(self, token: AddedToken) -> bool:
        return token.special or token.content in self.template_marks

    def decoding(self) -> Decoding:
        """The decoding of token strings; raises ValueError for an unknown decoder."""
        byte_level = byte_fallback = strips = False
        space = None
        for step in _steps(self.decoder, "decoders"):
            match step:
                case {"type": "ByteLevel"}:
                    byte_level = True
                case {"type": "ByteFallback"}:
                    byte_fallback = True
                case {"type": "Replace", "pattern": {"String": str(stand_in)}, "content": " "}:
                    space = stand_in
                case {"type": "Metaspace", **rest}:
                    space = str(rest.get("replacement", "▁"))
                    strips = rest.get("prepend_scheme", "always") != "never"
                case {"type": "Strip", "content": " ", "start": start}:
                    strips = start > 0
                case {"type": "Fuse"}:
                    pass
                case _:
                    raise ValueError(f"decoder {step.get('type')!r} is not supported")
        return Decoding(byte_level, byte_fallback, space, strips)


def _steps(step: dict[str, Any] | None, key: str) -> list[dict[str, Any]]:
    """The steps of a sequence, listed under `key`, or the single step."""
    if step is None:
        return []
    return list(step[key]) if step.get("type") == "Sequence" else [step]


def byte_pair_tokenizer(
    parsed: TokenizerJson, *, eos_ids: frozenset[int], bos_id: int | None
) -> BytePairTokenizer | None:
    """Make the tokenizer for tiktoken, or None if tiktoken cannot run the file's vocabulary.

    The result is a candidate: the caller compares its ids with the library's, since ranks carry less than merges.
    """
    pattern = _pattern(parsed)
    steps = _steps(parsed.normalizer, "normalizers")
    compose = steps == [{"type": "NFC"}]
    odd = any(token.lstrip or token.rstrip or token.single_word for token in parsed.added_tokens)
    if pattern is None or odd or (steps and not compose):
        return None
    ranks = _ranks(parsed)
    if ranks is None:
        return None
    added = parsed.specials() | parsed.words()
    try:
        return BytePairTokenizer(
            ranks,
            pattern,
            specials=parsed.specials(),
            words=parsed.words(),
            shown=parsed.shown(),
            vocab_size=max(*ranks.values(), *added.values()) + 1,
            eos_ids=eos_ids,
            bos_id=bos_id,
            compose=compose,
        )
    except ValueError:
        return None  # a pattern that tiktoken's regex engine does not support


def _pattern(parsed: TokenizerJson) -> str | None:
    match _steps(parsed.pre_tokenizer, "pretokenizers"):
        case [{"type": "ByteLevel", "add_prefix_space": False, **rest}] if rest.get("use_regex", True):
            return _GPT2_PATTERN
        case [
            {"type": "Split", "pattern": {"Regex": str(pattern)}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
        ]:
            return pattern
    return None


def _ranks(parsed: TokenizerJson) -> dict[bytes, int] | None:
    """Map bytes to ids if ids rise in the order of the merges that make them, else None."""
    model = parsed.model
    if model.type != "BPE" or not isinstance(model.vocab, dict) or model.byte_fallback or model.dropout:
        return None
    if model.continuing_subword_prefix or model.end_of_word_suffix:
        return None
    vocab: dict[str, int] = model.vocab
    added = {token.content for token in parsed.added_tokens}
    made: dict[str, None] = {}
    for merge in model.merges:
        left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
        made[left + right] = None
    ids = [vocab.get(word, -1) for word in made]
    # The first merge that makes a word determines its priority, and `made` keeps the first one.
    if any(later <= sooner for sooner, later in pairwise(ids)):
        return None
    if not all(len(word) == 1 or word in made or word in added for word in vocab):
        return None
    try:
        ranks = {bytes(BYTE_OF[char] for char in word): id_ for word, id_ in vocab.items() if word not in added}
    except KeyError:
        return None
    lowest = ids[0] if ids else len(vocab)
    singles = [ranks.get(bytes((byte,)), -1) for byte in range(256)]
    return ranks if all(0 <= id_ < lowest for id_ in singles) else None
