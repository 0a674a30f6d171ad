"""Base64 as bytes that are decoded where they are looked at, and nowhere else."""

import binascii
from typing import Final

_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


class Base64Bytes:
    """What a text of base64 stands for; `len()` is its length. Slices are decoded anew each time."""

    __slots__ = ("_length", "_text")

    def __init__(self, text: str) -> None:
        """Raises ValueError for what is not base64 as RFC 4648 has it, with its padding and nothing between."""
        data = text.encode("ascii")
        padding = len(data) - len(data.rstrip(b"="))
        if len(data) % 4 or padding > 2 or data.translate(None, _ALPHABET) != b"=" * padding:
            raise ValueError("not base64")
        self._text = data
        self._length = len(data) // 4 * 3 - padding

    def __len__(self) -> int:
        return self._length

    def at(self, offset: int, size: int) -> bytes:
        """So many bytes from there on, or as many as there are."""
        first = offset // 3
        group = self._text[first * 4 : -(-(offset + size) // 3) * 4]
        skipped = offset - first * 3
        return binascii.a2b_base64(group)[skipped : skipped + size]
