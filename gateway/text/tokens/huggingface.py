"""Vocabularies that only the `tokenizers` library can run: SentencePiece-like, and unusual byte-level ones."""

import re
from collections.abc import Mapping, Sequence

import msgspec
from tokenizers import Tokenizer as NativeTokenizer

from gateway.text.tokens.prompt_unit import Unit, units_at_controls
from gateway.text.tokens.tokenizer import TokenizerError, without_surrogates
from gateway.text.tokens.tokenizer_json import BYTE_OF, TokenizerJson

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class HuggingFaceTokenizer:
    """A `Tokenizer` over a tokenizer.json, run by the `tokenizers` library."""

    def __init__(self, text: str, parsed: TokenizerJson, *, eos_ids: frozenset[int], bos_id: int | None) -> None:
        """`text` is the file that `parsed` describes; raises TokenizerError for one that the library refuses."""
        if parsed.template_marks:
            text = _with_marks(text, parsed.template_marks)
        try:
            self._marked = NativeTokenizer.from_str(text)
            self._plain = NativeTokenizer.from_str(text)
        except Exception as error:  # the library raises bare Exception
            raise TokenizerError(f"not a tokenizer: {error}") from error
        # Recognition of special tokens is a setting of the whole tokenizer, which threads share.
        self._plain.encode_special_tokens = True
        for native in (self._marked, self._plain):
            native.no_truncation()
            native.no_padding()
        self.vocab_size = max(self._plain.get_vocab(with_added_tokens=True).values()) + 1
        self.eos_ids = eos_ids
        self.bos_id = bos_id
        self.specials: Mapping[str, int] = parsed.specials()
        longest_first = sorted(self.specials, key=len, reverse=True)
        self._find_specials = re.compile("|".join(map(re.escape, longest_first)) or "(?!)").findall
        self._control = frozenset(self.specials.values())
        self._shown = parsed.shown()
        self._words = frozenset(parsed.words().values()) | self._shown
        decoding = parsed.decoding()
        self.strips_leading_space = decoding.strips_leading_space
        self._byte_level = decoding.byte_level
        self._byte_fallback = decoding.byte_fallback
        self._space = decoding.space

    def encode(self, text: str, *, special: bool) -> list[int]:
        native = self._marked if special else self._plain
        try:
            return native.encode(text, add_special_tokens=False).ids
        except TypeError:  # "must be str": the library's error for a lone surrogate
            return native.encode(without_surrogates(text), add_special_tokens=False).ids

    def encode_parts(self, parts: Sequence[str]) -> list[int]:
        """Encode a prompt in parts, as whole text where possible.

        A SentencePiece vocabulary may encode a text's first word unlike a later one, so the prompt is encoded whole.
        Only if that would read a control token in a text is it encoded in parts; each part is then a text of its own.
        """
        controls = [self.specials[part] for part in parts[1::2]]
        whole = "".join(parts)
        if self._find_specials(whole) == parts[1::2] and (whole_ids := self._encode_whole(whole, controls)):
            return whole_ids
        ids: list[int] = []
        for index, part in enumerate(parts):
            if index % 2:
                ids.append(self.specials[part])
            elif part:
                ids += self.encode(part, special=False)
        return ids

    def _encode_whole(self, text: str, controls: Sequence[int]) -> list[int] | None:
        """Encode a text with these control tokens; None if the library finds others.

        It may find some in the normalized text that the raw text does not have.
        """
        ids = self.encode(text, special=True)
        return ids if [token for token in ids if token in self._control] == controls else None

    def units(self, parts: Sequence[str]) -> Sequence[Unit]:
        """Cut a prompt at control tokens: the library encodes what lies between two of them on its own."""
        alone = len(parts) == 1 or self._find_specials("".join(parts)) != parts[1::2]
        return () if alone else units_at_controls(parts)

    def encode_unit(self, unit: Unit) -> list[int] | None:
        controls = [self.specials[part] for part in unit.parts[1::2]]
        ids = self._encode_whole("".join(unit.parts), controls)
        if ids is None or not unit.after:
            return ids
        # Something before the control token is the text's first word, which the whole prompt does not have there.
        return ids[1:] if ids[0] == controls[0] else None

    def token_bytes(self, token_id: int) -> bytes:
        if (token_id in self._control and token_id not in self._shown) or not 0 <= token_id < self.vocab_size:
            return b""
        word = self._plain.id_to_token(token_id)
        if word is None:
            return b""
        if token_id in self._words:
            return word.encode()
        if self._byte_level:
            return bytes(BYTE_OF[char] for char in word if char in BYTE_OF)
        if self._byte_fallback and (byte := _BYTE_TOKEN.fullmatch(word)):
            return bytes((int(byte[1], 16),))
        return word.replace(self._space, " ").encode() if self._space else word.encode()


def _with_marks(text: str, marks: frozenset[str]) -> str:
    """Make these added tokens control tokens, which the library can be told not to find in a text."""
    fields = msgspec.json.decode(text)
    for token in fields["added_tokens"]:
        token["special"] = token.get("special", False) or token["content"] in marks
    return msgspec.json.encode(fields).decode()
