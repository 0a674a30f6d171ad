"""Names of KV blocks for requests without tokens: 64-bit hashes derived from a trace's block ids.

They replace the hashes of protos/prefix_hash.py. Where a trace has block ids, equal ids mean equal prefixes, so a name
need not cover its parent's.
"""

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import shake_128
from typing import Final

from replicas.kv_cache import TOKENS_PER_BLOCK

_MASK: Final = 2**64 - 1
#: An odd factor is a bijection of 64-bit numbers; this one (2**64 over the golden ratio) spreads small ones widely.
_SPREAD: Final = 0x9E3779B97F4A7C15
#: Names of answers' blocks consist of the request's number and the block's index, which has this many bits.
_PLACE_BITS: Final = 20


def expanded(ids: Iterable[int], id_tokens: int, prompt_tokens: int) -> list[int]:
    """Return the names of a prompt's full blocks, where each of `ids` covers `id_tokens` of its tokens."""
    per_id = id_tokens // TOKENS_PER_BLOCK
    chain: list[int] = []
    for number in ids:
        chain += _blocks_of(number, per_id)
    del chain[prompt_tokens // TOKENS_PER_BLOCK :]
    return chain


def own_blocks(number: int, first: int, count: int) -> list[int]:
    """Return the names of `count` blocks from index `first` that only request `number` (from 0) has."""
    start = ((number + 1) << _PLACE_BITS) + first
    return [at * _SPREAD & _MASK for at in range(start, start + count)]


def renamed(chain: Sequence[int], salt: int) -> list[int]:
    """Return other names, equal where the given ones were equal."""
    return [(name ^ salt * _SPREAD) & _MASK for name in chain]


@lru_cache(maxsize=1 << 20)
def _blocks_of(number: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f"<{count}Q", shake_128(number.to_bytes(8, "little")).digest(8 * count))
