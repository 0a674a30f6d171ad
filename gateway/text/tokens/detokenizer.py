"""Incremental detokenization at the lowest cost per token."""

import codecs
import re
from collections.abc import Sequence
from typing import Final, cast

import orjson

from gateway.text.tokens.marked import TokenBytes


class _Raw(dict[int, bytes]):
    """A cache of the tokenizer's `token_bytes`: a lookup costs a tenth of the call."""

    __slots__ = ("_tokenizer",)

    def __init__(self, tokenizer: TokenBytes) -> None:
        super().__init__()
        self._tokenizer = tokenizer

    def __missing__(self, token_id: int) -> bytes:
        raw = self._tokenizer.token_bytes(token_id)
        if 0 <= token_id < self._tokenizer.vocab_size:
            self[token_id] = raw
        return raw


class _Texts(dict[int, str | None]):
    """A cache of tokens' texts, bounded by the vocabulary: ids outside of it are not cached."""

    __slots__ = ("_tokenizer",)

    def __init__(self, tokenizer: TokenBytes) -> None:
        super().__init__()
        self._tokenizer = tokenizer

    def __missing__(self, token_id: int) -> str | None:
        try:
            text: str | None = self._tokenizer.token_bytes(token_id).decode()
        except UnicodeDecodeError:
            text = None
        if 0 <= token_id < self._tokenizer.vocab_size:
            self[token_id] = text
        return text


class _Escaped(dict[int, bytes | None]):
    """A cache of JSON-escaped texts, bounded by the vocabulary."""

    __slots__ = ("_tokenizer",)

    def __init__(self, tokenizer: TokenBytes) -> None:
        super().__init__()
        self._tokenizer = tokenizer

    def __missing__(self, token_id: int) -> bytes | None:
        raw = self._tokenizer.token_bytes(token_id)
        try:
            escaped: bytes | None = orjson.dumps(raw.decode())[1:-1]
        except UnicodeDecodeError:
            escaped = None
        if 0 <= token_id < self._tokenizer.vocab_size:
            self[token_id] = escaped
        return escaped


#: Starts of reasoning and call markers, and ends of JSON strings and values. Newlines are not printable.
_NOT_CALM: Final = re.compile(r"[<\[\]{}\"`\\]")


def is_calm(text: str) -> bool:
    """Whether no marker of reasoning or a call can begin within the text, nor a JSON string or value end."""
    return text.isprintable() and not _NOT_CALM.search(text)


class _Calm(dict[int, bytes | None]):
    """A cache of calm escaped texts, bounded by the vocabulary."""

    __slots__ = ("_table",)

    def __init__(self, table: "TokenTable") -> None:
        super().__init__()
        self._table = table

    def __missing__(self, token_id: int) -> bytes | None:
        text, calm = self._table.texts[token_id], None
        if text and is_calm(text):
            calm = self._table.escaped[token_id]
        if token_id in self._table.escaped:
            self[token_id] = calm
        return calm


class TokenTable:
    """The texts of a vocabulary's tokens; one table per model, shared by all its streams.

    `texts[id]` is a token's text (possibly empty), or None where the token is not whole characters by itself, and
    `escaped[id]` the same as the inside of a JSON string. An answer's next token can be written with them unless its
    `Detokenizer` is `pending`. `calm[id]` is the same for tokens whose text `is_calm`, and None for others.
    """

    __slots__ = ("calm", "escaped", "strips_leading_space", "texts", "token_bytes")

    def __init__(self, tokenizer: TokenBytes) -> None:
        """Entries are filled on first use: at most three of about 150 bytes for each token of the vocabulary."""
        self.escaped: dict[int, bytes | None] = _Escaped(tokenizer)
        self.texts: dict[int, str | None] = _Texts(tokenizer)
        self.calm: dict[int, bytes | None] = _Calm(self)
        self.token_bytes = _Raw(tokenizer).__getitem__
        self.strips_leading_space = tokenizer.strips_leading_space


def whole_text(table: TokenTable, token_ids: Sequence[int]) -> str:
    """The whole text of an ended sequence, as a `Detokenizer` would have given it."""
    data = b"".join(map(table.token_bytes, token_ids))
    return (data.removeprefix(b" ") if table.strips_leading_space else data).decode(errors="replace")


def written_text(table: TokenTable, token_ids: Sequence[int]) -> str:
    """The whole text of a sequence that was written with the table's `escaped`, still in the processor's caches."""
    pieces = list(map(table.escaped.__getitem__, token_ids))
    if None in pieces:
        return whole_text(table, token_ids)
    text: str = orjson.loads(b'"%b"' % b"".join(cast("list[bytes]", pieces)))
    return text.removeprefix(" ") if table.strips_leading_space else text


class Detokenizer:
    """Detokenizes one sequence incrementally.

    Bytes that do not make a character yet (three at most) are held until they do or cannot; bytes that never do become
    U+FFFD, as by Python's "replace". `pending` says that the next token's text depends on what came before: bytes are
    held, or the space that opens a SentencePiece answer is still to be dropped. While it is False, a token whose
    `TokenTable.escaped` entry is not None may be written from there and need not be fed.
    """

    __slots__ = ("_at_start", "_held", "_token_bytes", "pending")

    def __init__(self, table: TokenTable) -> None:
        self._token_bytes = table.token_bytes
        self._held = b""
        self._at_start = self.pending = table.strips_leading_space

    def feed(self, token_ids: Sequence[int]) -> str:
        """Add tokens; returns the text that they complete, maybe empty."""
        data = b"".join(map(self._token_bytes, token_ids))
        if self._held:
            data = self._held + data
        if self._at_start and data:
            self._at_start = False
            data = data.removeprefix(b" ")
        text, used = codecs.utf_8_decode(data, "replace", False)
        self._held = data[used:]
        self.pending = self._at_start or used < len(data)
        return text

    def last(self, token_ids: Sequence[int]) -> str:
        """Add the answer's last tokens and end it; returns the text that was not given yet, as `feed` and `flush`."""
        data = self._held + b"".join(map(self._token_bytes, token_ids))
        if self._at_start:
            data = data.removeprefix(b" ")
        return data.decode(errors="replace")

    def flush(self) -> str:
        """End the answer; returns the held bytes as U+FFFD."""
        text = self._held.decode(errors="replace")
        self._held = b""
        self.pending = self._at_start
        return text
