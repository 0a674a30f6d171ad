"""Names of KV blocks that gateway and replica both work out from token ids: chained 64-bit hashes of full blocks.

Equal names mean equal prefixes and equal salts, whatever an engine calls its blocks. XXH3 is fast and the same on every
machine, but no protection against a client that searches for collisions: the worst that one can win is a wrong guess of
where its own prompt is cached, never another's tokens.
"""

from array import array
from collections.abc import Sequence
from struct import iter_unpack

from xxhash import xxh3_64_intdigest

_TOKEN_BYTES = 4
#: Where an unsalted chain begins.
ROOT = 0


def root_of(salt: str) -> int:
    """Where the chain of a salt begins; the empty salt's is the common one."""
    return xxh3_64_intdigest(salt.encode()) if salt else ROOT


def prefix_hashes(ids: Sequence[int], block_tokens: int, parent: int = ROOT) -> list[int]:
    """One hash for each full block of `ids` (each below 2**32), chained from `parent`."""
    # The machine's own byte order is the wire's only where it is little-endian, as every machine with a GPU is.
    packed = array("I", ids).tobytes()
    width = _TOKEN_BYTES * block_tokens
    blocks = iter_unpack(f"{width}s", memoryview(packed)[: len(ids) // block_tokens * width])
    return [parent := xxh3_64_intdigest(block, parent) for (block,) in blocks]
