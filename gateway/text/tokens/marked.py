"""A vocabulary with some control tokens written as text, for output parsers to find."""

from collections.abc import Collection
from typing import Protocol

from gateway.text.tokens.tokenizer import Tokenizer


class TokenBytes(Protocol):
    """The part of a tokenizer that detokenization needs."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def strips_leading_space(self) -> bool: ...

    def token_bytes(self, token_id: int) -> bytes: ...


class MarkedTokens:
    """A vocabulary's tokens, with the control tokens in `marks` written as their text."""

    def __init__(self, tokenizer: Tokenizer, marks: Collection[str]) -> None:
        """Marks that the vocabulary lacks are ignored."""
        self._tokenizer = tokenizer
        self._marks = {token: text.encode() for text, token in tokenizer.specials.items() if text in marks}
        self.vocab_size = tokenizer.vocab_size
        self.strips_leading_space = tokenizer.strips_leading_space

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of a token; empty for control tokens other than marks."""
        mark = self._marks.get(token_id)
        return self._tokenizer.token_bytes(token_id) if mark is None else mark
