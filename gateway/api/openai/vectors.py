"""Convert embeddings between a JSON array of numbers and base64 of little-endian 32-bit floats."""

import binascii
import math
import sys
from array import array
from typing import Final, Literal

import msgspec

_NUMBERS: Final = msgspec.json.Decoder(list[float])
_TEXT: Final = msgspec.json.Decoder(str)
_FLOAT_BYTES: Final = 4


class VectorError(ValueError):
    """An upstream's vector is invalid; the message says why."""


def converted(raw: msgspec.Raw, encoding: Literal["float", "base64"]) -> tuple[msgspec.Raw, int]:
    """Convert a vector; return its bytes (unchanged if already in that form) and dimensions. Raises VectorError."""
    given = bytes(raw).lstrip()[:1]
    if given == b'"':
        numbers = _from_base64(raw)
        written = raw if encoding == "base64" else msgspec.Raw(msgspec.json.encode(numbers.tolist()))
    elif given == b"[":
        numbers = _from_json(raw)
        written = raw if encoding == "float" else _to_base64(numbers)
    else:
        raise VectorError("is neither numbers nor base64")
    if not numbers:
        raise VectorError("is empty")
    # One NaN or infinity makes the sum so; no sum of 32-bit floats is too large for a double.
    if not math.isfinite(sum(numbers)):
        raise VectorError("has numbers that are not finite")
    # A copy: the decoder's slices would keep the raw text of the whole answer alive.
    return msgspec.Raw(bytes(written)), len(numbers)


def _from_json(raw: msgspec.Raw) -> "array[float]":
    try:
        return array("f", _NUMBERS.decode(raw))
    except (msgspec.DecodeError, OverflowError):
        raise VectorError("is not made of numbers") from None


def _from_base64(raw: msgspec.Raw) -> "array[float]":
    try:
        data = binascii.a2b_base64(_TEXT.decode(raw), strict_mode=True)
    except ValueError:
        raise VectorError("is not base64") from None
    if len(data) % _FLOAT_BYTES:
        raise VectorError("is not made of 32-bit floats")
    numbers = array("f")
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _to_base64(numbers: "array[float]") -> msgspec.Raw:
    if sys.byteorder == "big":
        numbers = array("f", numbers)
        numbers.byteswap()
    return msgspec.Raw(b'"%b"' % binascii.b2a_base64(numbers.tobytes(), newline=False))
