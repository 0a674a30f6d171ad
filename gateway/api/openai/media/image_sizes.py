"""Read an image's decoded size in pixels from its headers. Nothing is decoded, and every walk is bounded.

Each reader takes the size that decoders would: where a file states it twice, the larger one, or the file is refused.
Libraries that read an image's size (imagesize) take the first one and count no frames, but a small file may have a
thousand frames; libraries that count frames (Pillow) allocate a canvas for it.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from gateway.api.openai.media.media_data import Base64Bytes

#: Bound on a file's parts, such as frames, and on its data blocks; for the blocks one more for every so many bytes.
_MOST_PARTS: Final = 2048
_MOST_BLOCKS: Final = 2048
_BLOCK_BYTES: Final = 64

_STANDALONE: Final = frozenset((0x01, *range(0xD0, 0xD8)))
_FRAME_SIZES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_START_OF_SCAN: Final = 0xDA
_END_OF_IMAGE: Final = 0xD9


class ImageSize(NamedTuple):
    """An image's size in pixels, and its frames."""

    width: int
    height: int
    frames: int = 1

    @property
    def pixels(self) -> int:
        """The pixels of all frames."""
        return self.width * self.height * self.frames


class BadImage(ValueError):
    """The headers are cut short or contradictory."""


class _Reader:
    """A cursor over the bytes."""

    def __init__(self, data: Base64Bytes) -> None:
        self.data = data
        self.at = 0
        self._window = b""
        self._start = 0
        self._parts = _MOST_PARTS
        self._blocks = _MOST_BLOCKS + len(data) // _BLOCK_BYTES

    def take(self, size: int) -> bytes:
        """Take the next bytes. Raises BadImage at the end of the data."""
        within = self.at - self._start
        if within < 0 or within + size > len(self._window):
            self._window, self._start, within = self.data.at(self.at, 4096), self.at, 0
        taken = self._window[within : within + size]
        if len(taken) < size:
            raise BadImage("its headers are cut short")
        self.at += size
        return taken

    def number(self, size: int, order: str = "big") -> int:
        """Take the next bytes as a number."""
        return int.from_bytes(self.take(size), "little" if order == "little" else "big")

    def skip(self, size: int) -> None:
        """Skip bytes, whether or not they exist."""
        self.at += size

    def skip_blocks(self) -> None:
        """Skip length-prefixed blocks up to an empty one or the end. Raises BadImage."""
        size = 256
        while not self.over:
            # A frame may have two bytes or a million: each read takes in more than the one before it.
            size = min(2 * size, 1 << 16)
            window, at = self.data.at(self.at, size), 0
            while at < len(window):
                length = window[at]
                at += length + 1
                self._blocks -= 1
                if not length:
                    self.at += at
                    return
            self.at += at
            if self._blocks < 0:
                raise BadImage("it is made of too many parts")

    def step(self) -> None:
        """Count a part. Raises BadImage after too many."""
        self._parts -= 1
        if self._parts < 0:
            raise BadImage("it is made of too many parts")

    @property
    def over(self) -> bool:
        """Whether the data is at its end."""
        return self.at >= len(self.data)


def png_size(data: Base64Bytes) -> ImageSize:
    """Read the size; a chunk before the image data states how many frames there are."""
    reader = _Reader(data)
    reader.skip(8)
    if reader.take(8) != b"\x00\x00\x00\rIHDR":
        raise BadImage("its headers are not those of a PNG")
    width, height, frames = reader.number(4), reader.number(4), 1
    reader.skip(9)
    while True:
        reader.step()
        size, name = reader.number(4), reader.take(4)
        if name in (b"IDAT", b"IEND"):
            return ImageSize(width, height, frames)
        if name == b"IHDR":
            raise BadImage("it has two headers")
        if name == b"acTL":
            frames = max(frames, reader.number(4))
            size -= 4
        reader.skip(max(size, 0) + 4)


def jpeg_size(data: Base64Bytes) -> ImageSize:
    """Read the size of the single frame, which comes before the first scan."""
    reader = _Reader(data)
    reader.skip(2)
    found = None
    while True:
        reader.step()
        if reader.number(1) != 0xFF:
            raise BadImage("its headers are not those of a JPEG")
        marker = 0xFF
        while marker == 0xFF:
            reader.step()
            marker = reader.number(1)
        if marker in (_START_OF_SCAN, _END_OF_IMAGE):
            if found is None:
                raise BadImage("it does not say its size")
            return found
        if marker in _STANDALONE:
            continue
        size = reader.number(2)
        if size < 2:
            raise BadImage("its headers are not those of a JPEG")
        if marker in _FRAME_SIZES:
            if found is not None:
                raise BadImage("it has two headers")
            reader.skip(1)
            height = reader.number(2)
            found = ImageSize(reader.number(2), height)
            size -= 5
        reader.skip(max(size - 2, 0))


def gif_size(data: Base64Bytes) -> ImageSize:
    """Read the size; a frame larger than the screen enlarges the screen."""
    reader = _Reader(data)
    reader.skip(6)
    width, height = reader.number(2, "little"), reader.number(2, "little")
    _skip_colours(reader, skipped=2)
    frames = 0
    while not reader.over:
        reader.step()
        match reader.number(1):
            case 0x2C:
                left, top = reader.number(2, "little"), reader.number(2, "little")
                width = max(width, left + reader.number(2, "little"))
                height = max(height, top + reader.number(2, "little"))
                _skip_colours(reader, skipped=0)
                reader.skip(1)
                frames += 1
            case 0x21:
                reader.skip(1)
            case 0x3B:
                break
            case _:
                continue  # as decoders do: they look for the next part that they know
        reader.skip_blocks()
    if not frames:
        raise BadImage("it has no frames")
    return ImageSize(width, height, frames)


def _skip_colours(reader: _Reader, *, skipped: int) -> None:
    flags = reader.number(1)
    reader.skip(skipped + (3 << ((flags & 7) + 1) if flags & 0x80 else 0))


def webp_size(data: Base64Bytes) -> ImageSize:
    """Read the size."""
    reader = _Reader(data)
    reader.skip(12)
    kind = reader.take(4)
    reader.skip(4)
    if kind == b"VP8 ":
        reader.skip(3)
        if reader.take(3) != b"\x9d\x01\x2a":
            raise BadImage("its headers are not those of a WebP")
        return ImageSize(reader.number(2, "little") & 0x3FFF, reader.number(2, "little") & 0x3FFF)
    if kind == b"VP8L":
        if reader.number(1) != 0x2F:
            raise BadImage("its headers are not those of a WebP")
        bits = reader.number(4, "little")
        return ImageSize((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if kind != b"VP8X":
        raise BadImage("its headers are not those of a WebP")
    reader.skip(4)
    width, height, frames = reader.number(3, "little") + 1, reader.number(3, "little") + 1, 0
    while reader.at + 8 <= len(data):
        reader.step()
        name, size = reader.take(4), reader.number(4, "little")
        frames += name == b"ANMF"
        reader.skip(size + (size & 1))
    return ImageSize(width, height, max(frames, 1))


#: Media type -> its reader.
SIZES: Final[dict[str, Callable[[Base64Bytes], ImageSize]]] = {
    "image/png": png_size,
    "image/jpeg": jpeg_size,
    "image/gif": gif_size,
    "image/webp": webp_size,
}
