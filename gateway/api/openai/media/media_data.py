"""Base64 text as bytes that are decoded slice by slice."""

import binascii
from typing import Final

_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


class Base64Bytes:
    """The bytes of a base64 text; `len()` is their number. Slices are decoded anew each time."""

    __slots__ = ("_length", "_text")

    def __init__(self, text: str) -> None:
        """Raises ValueError for text that is not padded base64 without gaps (RFC 4648)."""
        data = text.encode("ascii")
        padding = len(data) - len(data.rstrip(b"="))
        if len(data) % 4 or padding > 2 or data.translate(None, _ALPHABET) != b"=" * padding:
            raise ValueError("not base64")
        self._text = data
        self._length = len(data) // 4 * 3 - padding

    @classmethod
    def checked(cls, text: str) -> "Base64Bytes":
        """The bytes of a text that has been checked before."""
        self = cls.__new__(cls)
        self._text = text.encode("ascii")
        self._length = len(text) // 4 * 3 - (len(text) - len(text.rstrip("=")))
        return self

    def __len__(self) -> int:
        return self._length

    def at(self, offset: int, size: int) -> bytes:
        """Decode at most `size` bytes from `offset` on."""
        first = offset // 3
        group = self._text[first * 4 : -(-(offset + size) // 3) * 4]
        skipped = offset - first * 3
        return binascii.a2b_base64(group)[skipped : skipped + size]
