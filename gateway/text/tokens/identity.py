"""A tokenizer's identity: a hash of what its tokens mean, independent of its files."""

import struct
from hashlib import blake2b
from typing import Final

from gateway.text.tokens.loader import LoadedTokenizer

_DIGEST_BYTES: Final = 8


def tokenizer_hash(loaded: LoadedTokenizer) -> str:
    """16 hexadecimal digits. Tokenizers with the same hash are interchangeable on the two ends of a session.

    It covers each token's bytes by id, the control tokens, and the tokens that begin and end a text. It takes some
    tens of milliseconds.
    """
    tokenizer = loaded.tokenizer
    words = list(map(tokenizer.token_bytes, range(tokenizer.vocab_size)))
    # Unused ids are not hashed: files differ in how many they reserve at the end.
    while words and not words[-1]:
        words.pop()
    digest = blake2b(digest_size=_DIGEST_BYTES)
    digest.update(struct.pack(f"<I{len(words)}I", len(words), *map(len, words)))
    digest.update(b"".join(words))
    for text, token_id in sorted(tokenizer.specials.items()):
        raw = text.encode()
        digest.update(struct.pack("<II", token_id, len(raw)) + raw)
    digest.update(b"|")
    digest.update(struct.pack("<q", -1 if tokenizer.bos_id is None else tokenizer.bos_id))
    digest.update(struct.pack(f"<{len(tokenizer.eos_ids)}I", *sorted(tokenizer.eos_ids)))
    return digest.hexdigest()
