"""For models whose tokenizer nobody here has: their upstreams take text and give text."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gateway.text.tokens.chat_format import Messages
from gateway.text.tokens.tokenizer import Tokenizer

#: Larger than any vocabulary, so that a token id of a client is left to its upstream to guard.
ANY_ID: Final = 1 << 32


class UnknownTokenizer:
    """A `Tokenizer` by name only: every id may be a token, none has text, and text cannot be encoded."""

    vocab_size = ANY_ID
    eos_ids: frozenset[int] = frozenset()
    bos_id: int | None = None
    specials: Mapping[str, int] = {}
    strips_leading_space = False

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Not possible: requests of such a model are never tokenized."""
        raise NotImplementedError

    def encode_parts(self, parts: Sequence[str]) -> list[int]:
        """Not possible either."""
        raise NotImplementedError

    def token_bytes(self, token_id: int) -> bytes:
        """Nothing is known of any token."""
        del token_id
        return b""


class UnknownChatFormat:
    """The `ChatFormat` that goes with it."""

    reads: frozenset[str] = frozenset()
    calls = False

    def encode_chat(self, tokenizer: Tokenizer, messages: Messages, **extras: Any) -> list[int]:
        """Not possible."""
        raise NotImplementedError
