"""Placeholders for an unknown tokenizer, whose model's upstreams take and give text."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gateway.text.tokens.chat_format import Messages
from gateway.text.tokens.prompt_unit import Unit
from gateway.text.tokens.tokenizer import PartsEncoder

#: Larger than any vocabulary, so that a client's token ids are left to the upstream to check.
ANY_ID: Final = 1 << 32


class UnknownTokenizer:
    """A `Tokenizer` without a vocabulary: every id is accepted, none has text, and text cannot be encoded."""

    vocab_size = ANY_ID
    eos_ids: frozenset[int] = frozenset()
    bos_id: int | None = None
    specials: Mapping[str, int] = {}
    strips_leading_space = False

    def encode(self, text: str, *, special: bool) -> list[int]:
        raise NotImplementedError

    def encode_parts(self, parts: Sequence[str]) -> list[int]:
        raise NotImplementedError

    def units(self, parts: Sequence[str]) -> Sequence[Unit]:
        raise NotImplementedError

    def encode_unit(self, unit: Unit) -> list[int] | None:
        raise NotImplementedError

    def token_bytes(self, token_id: int) -> bytes:
        del token_id
        return b""


class UnknownChatFormat:
    """The `ChatFormat` of an unknown tokenizer."""

    reads: frozenset[str] = frozenset()
    calls = False

    def encode_chat(self, tokenizer: PartsEncoder, messages: Messages, **extras: Any) -> Sequence[int]:
        raise NotImplementedError
