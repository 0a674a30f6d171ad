"""Recognise media types by their first bytes."""

import re
from typing import Final

#: Magic bytes of each type, as (offset, bytes) pairs that must all match.
_MAGIC: Final[tuple[tuple[str, tuple[tuple[int, bytes], ...]], ...]] = (
    ("image/png", ((0, b"\x89PNG\r\n\x1a\n"),)),
    ("image/jpeg", ((0, b"\xff\xd8\xff"),)),
    ("image/gif", ((0, b"GIF87a"),)),
    ("image/gif", ((0, b"GIF89a"),)),
    ("image/webp", ((0, b"RIFF"), (8, b"WEBP"))),
    ("audio/wav", ((0, b"RIFF"), (8, b"WAVE"))),
    ("audio/mpeg", ((0, b"ID3"),)),
    ("audio/flac", ((0, b"fLaC"),)),
    ("audio/ogg", ((0, b"OggS"),)),
    ("video/mp4", ((4, b"ftyp"),)),
    ("video/webm", ((0, b"\x1a\x45\xdf\xa3"),)),
    ("application/pdf", ((0, b"%PDF-"),)),
)
HEAD_BYTES: Final = 512
#: Other names of the types; containers of audio and of video have the same first bytes.
_SAME: Final = {
    "image/jpg": "image/jpeg",
    "audio/mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/x-flac": "audio/flac",
    "audio/opus": "audio/ogg",
    "audio/mp4": "video/mp4",
    "audio/m4a": "video/mp4",
    "audio/x-m4a": "video/mp4",
    "video/quicktime": "video/mp4",
    "audio/webm": "video/webm",
}
#: Markup that a viewer would run. Other text has no magic bytes.
_MARKUP: Final = re.compile(
    rb"\s*(?:\xef\xbb\xbf)?\s*<\s*(?:!doctype|\?xml|html|head|body|svg|script|iframe|!--)", re.I
)
_UNPRINTED: Final = bytes(set(range(32)) - set(b"\t\n\r\f\x1b"))


def one_name(media_type: str) -> str:
    """Give the canonical name of a media type, as `kind_of` returns it."""
    return _SAME.get(media_type, media_type)


def kind_of(head: bytes) -> str | None:
    """Recognise the media type by the first bytes; `text/plain` for text that is no markup, None for all else."""
    for kind, magic in _MAGIC:
        if all(head.startswith(piece, offset) for offset, piece in magic):
            return kind
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2:
        return "audio/mpeg"  # a frame of layer III, without tags before it
    if not head or _MARKUP.match(head) or head.translate(None, _UNPRINTED) != head:
        return None
    return "text/plain"
