"""The header of a GGUF file: its architecture's numbers, without tensors (github.com/ggml-org/ggml, docs/gguf.md)."""

import struct
from pathlib import Path
from typing import BinaryIO, Final

from gateway.scan.sizing.families import Architecture

_MAGIC: Final = b"GGUF"
#: Sizes of the types of values by their number; 8 is a text, 9 a list.
_SIZES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_INTEGERS: Final = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 10: "<Q", 11: "<q"}
_MOST_PAIRS: Final = 4096
_MOST_BYTES: Final = 64 << 20
_LONGEST_KEY: Final = 1024


class NoGgufError(ValueError):
    """A file that is no GGUF, or is damaged."""


def read_gguf(path: Path) -> Architecture:
    """Read what the header says.

    Raises:
        NoGgufError: The file is no GGUF of version 2 or 3, or is cut short.
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        if file.read(4) != _MAGIC:
            raise NoGgufError("no GGUF file")
        version, _, pairs = struct.unpack("<IQQ", _exactly(file, 20))
        if version not in (2, 3) or pairs > _MOST_PAIRS:
            raise NoGgufError(f"version {version} of GGUF with {pairs} fields")
        numbers: dict[str, int] = {}
        for _ in range(pairs):
            key = _text(file, _LONGEST_KEY)
            value = _value(file, struct.unpack("<I", _exactly(file, 4))[0], 0)
            if isinstance(value, int):
                numbers[key.partition(".")[2]] = value
            if file.tell() > _MOST_BYTES:
                break
    heads, size = numbers.get("attention.head_count"), numbers.get("embedding_length")
    head_size = numbers.get("attention.key_length") or (size // heads if heads and size else None)
    return Architecture(
        layers=numbers.get("block_count"),
        heads=heads,
        kv_heads=numbers.get("attention.head_count_kv", heads),
        head_size=head_size,
        context=min(numbers.get("context_length", 0), 10**8) or None,
    )


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise NoGgufError("cut short")
    return data


def _text(file: BinaryIO, longest: int) -> str:
    length = struct.unpack("<Q", _exactly(file, 8))[0]
    if length > longest:
        raise NoGgufError("a name is too long")
    return _exactly(file, length).decode("utf-8", "replace")


def _value(file: BinaryIO, kind: int, depth: int) -> int | None:
    """Read or pass over one value; only integers are told."""
    if kind == 8:
        length = struct.unpack("<Q", _exactly(file, 8))[0]
        if length > _MOST_BYTES:
            raise NoGgufError("a text is too long")
        file.seek(length, 1)
        return None
    if kind == 9:
        inner, count = struct.unpack("<IQ", _exactly(file, 12))
        if depth > 2 or count > _MOST_BYTES:
            raise NoGgufError("a list is too long")
        if inner in _SIZES:
            file.seek(_SIZES[inner] * count, 1)
        else:
            for _ in range(min(count, 2_000_000)):
                _value(file, inner, depth + 1)
        return None
    if kind not in _SIZES:
        raise NoGgufError(f"an unknown type of value: {kind}")
    data = _exactly(file, _SIZES[kind])
    return int(struct.unpack(_INTEGERS[kind], data)[0]) if kind in _INTEGERS else None
