"""Hash prompt prefixes so that gateway and replica agree on KV blocks: chained 64-bit hashes of full blocks.

Equal hashes mean equal prefixes and equal salts, whatever an engine calls its blocks. XXH3 is fast and the same on
every
machine, but no protection against a client that searches for collisions: the most that one can cause is a wrong
estimate
of where its own prompt is cached, never access to another's tokens.
"""

from array import array
from collections.abc import Sequence
from struct import iter_unpack

from xxhash import xxh3_64_intdigest

TOKEN_BYTES = 4
#: The root of an unsalted chain.
ROOT = 0


def root_of(salt: str) -> int:
    """Return the root of a salt's chain; the empty salt has the common one."""
    return xxh3_64_intdigest(salt.encode()) if salt else ROOT


def prefix_hashes(ids: Sequence[int], block_tokens: int, parent: int = ROOT) -> list[int]:
    """Return one hash for each full block of `ids` (each below 2**32), chained from `parent`."""
    # The machine's byte order equals the wire's only where it is little-endian, as on every machine with a GPU.
    packed, width = array("I", ids).tobytes(), TOKEN_BYTES * block_tokens
    if len(packed) % width:
        packed = packed[: -(len(packed) % width)]
    return [parent := xxh3_64_intdigest(block, parent) for (block,) in iter_unpack(f"{width}s", packed)]


def hashes_of_packed(packed: bytes | memoryview, block_tokens: int, parent: int = ROOT) -> list[int]:
    """Return the hashes of ids of four bytes each, as `prefix_hashes` does."""
    width = TOKEN_BYTES * block_tokens
    view = memoryview(packed)
    blocks = iter_unpack(f"{width}s", view[: len(view) // width * width])
    return [parent := xxh3_64_intdigest(block, parent) for (block,) in blocks]
