"""Decompress request bodies within a bound (RFC 9110, 8.4)."""

import asyncio
import zlib
from collections.abc import Iterator
from typing import Final

from protos.errors import BodyTooLarge, InvalidRequest, UnsupportedEncoding

#: The `accept-encoding` header of a refusal.
ACCEPTED: Final = b"gzip, deflate"
_IDENTITY: Final = (b"", b"identity")
_GZIP: Final = (b"gzip", b"x-gzip")
_DEFLATE: Final = b"deflate"
#: `wbits` of zlib: what follows is a gzip member, a zlib stream, or a bare deflate stream.
_AS_GZIP: Final = 16 + zlib.MAX_WBITS
_AS_ZLIB: Final = zlib.MAX_WBITS
_BARE: Final = -zlib.MAX_WBITS
#: Output up to this size is made on the event loop, the rest in a thread.
_AT_ONCE: Final = 1 << 18
#: Input is taken in windows, because zlib copies what it leaves of its input.
_WINDOW: Final = 1 << 16
#: Bound on the gzip members of a body. Parallel packers write many, but thousands of empty ones would cost too much.
_MOST_MEMBERS: Final = 4096


async def unpacked(body: bytes, coding: bytes, limit: int) -> bytes:
    """Decompress a body to at most `limit` bytes.

    Raises UnsupportedEncoding, BodyTooLarge, or InvalidRequest for data that is not in that coding.
    """
    coding = coding.strip().lower()
    if coding in _IDENTITY:
        return body
    if coding not in (*_GZIP, _DEFLATE):
        shown = coding[:64].decode("ascii", "replace")
        raise UnsupportedEncoding(f"The content-encoding '{shown}' is not supported; gzip, deflate and none are.")
    parts = _parts(body, coding, limit)
    found: list[bytes] = []
    size = 0
    try:
        for part in parts:
            found.append(part)
            size += len(part)
            if size >= _AT_ONCE:
                found += await asyncio.to_thread(list, parts)
    except zlib.error:
        raise InvalidRequest(f"The request body is not valid {coding.decode()} data.") from None
    return b"".join(found)


def _parts(body: bytes, coding: bytes, limit: int) -> Iterator[bytes]:
    """Decompress piece by piece. Raises zlib.error, BodyTooLarge at the first byte too many, InvalidRequest."""
    wbits = _AS_GZIP if coding in _GZIP else _AS_ZLIB if _has_zlib_header(body) else _BARE
    member, members, size = zlib.decompressobj(wbits), 1, 0
    for start in range(0, len(body), _WINDOW):
        window = body[start : start + _WINDOW]
        while window:
            if member.eof:
                # A gzip body may have several members, one after the other.
                members += 1
                if wbits != _AS_GZIP or members > _MOST_MEMBERS:
                    raise InvalidRequest("Something follows the compressed request body.")
                member = zlib.decompressobj(wbits)
            part = member.decompress(window, min(_AT_ONCE, limit - size + 1))
            window = member.unused_data if member.eof else member.unconsumed_tail
            size += len(part)
            if size > limit:
                raise BodyTooLarge(f"The request body is longer than the limit of {limit} bytes once it is unpacked.")
            yield part
    # zlib may have taken in all input with output still to come.
    while part := b"" if member.eof else member.decompress(b"", _AT_ONCE):
        size += len(part)
        if size > limit:
            raise BodyTooLarge(f"The request body is longer than the limit of {limit} bytes once it is unpacked.")
        yield part
    if not member.eof:
        raise InvalidRequest("The compressed request body ends early.")


def _has_zlib_header(body: bytes) -> bool:
    """Test for the zlib header of RFC 1950; some clients send a bare deflate stream without it."""
    return len(body) > 1 and body[0] & 0x0F == zlib.DEFLATED and int.from_bytes(body[:2], "big") % 31 == 0
