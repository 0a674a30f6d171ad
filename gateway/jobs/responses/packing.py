"""Pack JSON texts for the store: long ones compressed, each with its length in front."""

import asyncio
import struct
import zlib
from typing import Final

_PLAIN: Final = b"j"
_DEFLATED: Final = b"z"
#: Whether it is compressed, and the bytes of the text.
_HEAD: Final = struct.Struct(">cI")
#: Shorter texts gain little from compression.
_WORTH_BYTES: Final = 2048
#: Longer texts are packed off the event loop, which they would block for some milliseconds.
_INLINE_BYTES: Final = 256 * 1024


async def pack(text: bytes) -> bytes:
    """Pack a text for the store."""
    if len(text) >= _WORTH_BYTES:
        packed = await asyncio.to_thread(_deflated, text) if len(text) > _INLINE_BYTES else _deflated(text)
        # Images do not compress further.
        if len(packed) < len(text):
            return _HEAD.pack(_DEFLATED, len(text)) + packed
    return _HEAD.pack(_PLAIN, len(text)) + text


def size(stored: bytes) -> int:
    """Give the bytes of the packed text, once unpacked. Raises ValueError for invalid data."""
    if len(stored) < _HEAD.size:
        raise ValueError("not a packed text")
    length: int = _HEAD.unpack_from(stored)[1]
    return length


async def unpack(stored: bytes) -> bytes:
    """Unpack a text. Raises ValueError for invalid data."""
    length = size(stored)
    kind, rest = stored[:1], stored[_HEAD.size :]
    if kind == _DEFLATED:
        rest = await asyncio.to_thread(_inflated, rest, length) if length > _INLINE_BYTES else _inflated(rest, length)
    elif kind != _PLAIN:
        raise ValueError("not a packed text")
    if len(rest) != length:
        raise ValueError("not a packed text")
    return rest


def _deflated(text: bytes) -> bytes:
    return zlib.compress(text, 1)


def _inflated(packed: bytes, length: int) -> bytes:
    try:
        return zlib.decompressobj().decompress(packed, length + 1)
    except zlib.error:
        raise ValueError("not a packed text") from None
