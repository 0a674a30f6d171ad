"""A vocabulary some of whose control tokens can be read in an answer: what takes answers apart looks for them."""

from collections.abc import Collection
from typing import Protocol

from gateway.text.tokens.tokenizer import Tokenizer


class TokenBytes(Protocol):
    """As much of a tokenizer as it takes to write answers."""

    @property
    def vocab_size(self) -> int:
        """As Tokenizer has it."""

    @property
    def strips_leading_space(self) -> bool:
        """As Tokenizer has it."""

    def token_bytes(self, token_id: int) -> bytes:
        """As Tokenizer has it."""


class MarkedTokens:
    """The tokens of a vocabulary, with the control tokens in `marks` written as their text."""

    def __init__(self, tokenizer: Tokenizer, marks: Collection[str]) -> None:
        """Marks that the vocabulary lacks are left out."""
        self._tokenizer = tokenizer
        self._marks = {token: text.encode() for text, token in tokenizer.specials.items() if text in marks}
        self.vocab_size = tokenizer.vocab_size
        self.strips_leading_space = tokenizer.strips_leading_space

    def token_bytes(self, token_id: int) -> bytes:
        """What a token writes, control tokens that are no marks nothing."""
        mark = self._marks.get(token_id)
        return self._tokenizer.token_bytes(token_id) if mark is None else mark
