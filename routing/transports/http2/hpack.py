"""Header fields of HTTP/2 (RFC 7541), for a peer that was told to keep no dynamic table.

So every block is read and written by itself. The tables are those of the RFC's appendices A and B.
"""

from collections.abc import Iterable
from typing import Final

from protos.protocol_error import ProtocolError

Fields = tuple[tuple[bytes, bytes], ...]

_STATIC: Final = """
:authority|:method GET|:method POST|:path /|:path /index.html|:scheme http|:scheme https|:status 200|:status 204
:status 206|:status 304|:status 400|:status 404|:status 500|accept-charset|accept-encoding gzip, deflate
accept-language|accept-ranges|accept|access-control-allow-origin|age|allow|authorization|cache-control
content-disposition|content-encoding|content-language|content-length|content-location|content-range|content-type
cookie|date|etag|expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since
last-modified|link|location|max-forwards|proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after
server|set-cookie|strict-transport-security|transfer-encoding|user-agent|vary|via|www-authenticate
"""
#: Index 1 and on: (name, value).
STATIC: Final = tuple(
    (name.encode(), value.encode())
    for name, _, value in (entry.partition(" ") for entry in _STATIC.strip().replace("\n", "|").split("|"))
)
#: Bits in the code of each byte and of the end mark; the codes are canonical, so that they follow from these.
_LENGTHS: Final = bytes.fromhex(
    "0d171c1c1c1c1c1c1c181e1c1c1e1c1c1c1c1c1c1c1c1e1c1c1c1c1c1c1c1c1c060a0a0c0d06080b0a0a080b080606060505050606060606"
    "060607080f060c0a0d06070707070707070707070707070707070707070707070807080d130d0e060f050605060506060605070706060605"
    "06070605050607070707070f0b0e0d1c14161414161616171617171717171817181816171817171717151617161717181615141616171715"
    "1716161815161717151516151716171714161616171616171a1a1413161716191a1a1a1b1b1a181913151a1b1b1a1b1815151a1a1c1b1b1b"
    "14181415161515171616191918181a171a1b1a1a1b1b1b1b1b1c1b1b1b1b1b1a1e"
)
_END: Final = 256


def _codes() -> dict[tuple[int, int], int]:
    """(bits, code) -> byte."""
    codes, code, before = {}, 0, 0
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(_LENGTHS)):
        code <<= length - before
        codes[length, code] = symbol
        code, before = code + 1, length
    return codes


_CODES: Final = _codes()


def unhuffed(data: bytes) -> bytes:
    """The text of a Huffman-coded string. Raises ProtocolError."""
    out, code, length = bytearray(), 0, 0
    for byte in data:
        for shift in range(7, -1, -1):
            code, length = code << 1 | byte >> shift & 1, length + 1
            symbol = _CODES.get((length, code))
            if symbol is not None:
                if symbol == _END:
                    raise ProtocolError("a header with a Huffman end mark")
                out.append(symbol)
                code = length = 0
    if length > 7 or code != (1 << length) - 1:
        raise ProtocolError("a header with bad Huffman padding")
    return bytes(out)


def decode(block: bytes) -> Fields:
    """The fields of a header block. Raises ProtocolError."""
    fields, at = [], 0
    try:
        while at < len(block):
            first = block[at]
            if first & 0x80:
                index, at = _integer(block, at, 7)
                fields.append(_static(index))
            elif first & 0xE0 == 0x20:
                size, at = _integer(block, at, 5)
                if size:
                    raise ProtocolError("a header table, where none was offered")
            else:
                # With a table of no size, what is to be added to it is not kept.
                index, at = _integer(block, at, 6 if first & 0x40 else 4)
                name, at = (_static(index)[0], at) if index else _string(block, at)
                value, at = _string(block, at)
                fields.append((name, value))
    except IndexError:
        raise ProtocolError("a header block that is cut off") from None
    return tuple(fields)


def _static(index: int) -> tuple[bytes, bytes]:
    if not 1 <= index <= len(STATIC):
        raise ProtocolError(f"header field {index}, which there is not")
    return STATIC[index - 1]


def _integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    most = (1 << bits) - 1
    value = block[at] & most
    at += 1
    if value < most:
        return value, at
    shift = 0
    while True:
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at
        if shift > 28:
            raise ProtocolError("a header with a number that is too large")


def _string(block: bytes, at: int) -> tuple[bytes, int]:
    huffed = block[at] & 0x80
    length, at = _integer(block, at, 7)
    text = block[at : at + length]
    if len(text) < length:
        raise ProtocolError("a header block that is cut off")
    return (unhuffed(text) if huffed else text), at + length


def encode(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A block of literal fields, which no table keeps."""
    block = bytearray()
    for name, value in fields:
        block += b"\x00" + _sized(name) + _sized(value)
    return bytes(block)


def _sized(text: bytes) -> bytes:
    length = len(text)
    if length < 0x7F:
        return bytes((length,)) + text
    sizes, length = bytearray(b"\x7f"), length - 0x7F
    while length > 0x7F:
        sizes.append(length & 0x7F | 0x80)
        length >>= 7
    sizes.append(length)
    return bytes(sizes) + text
