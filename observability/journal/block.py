"""Encode and scan blocks: compressed lines behind a header that links them to the block before.

Header and lines are two frames of Zstandard (RFC 8878): a skippable frame, which readers pass over, and a data frame.
So a segment is a compressed file that `zstdcat` and DuckDB read as it is.
"""

import hashlib
import struct
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from observability.journal.signer import NO_KEY, Signer

#: Bounds of a block's lines before compression, and of its data frame, in bytes.
MOST_BYTES: Final = 16 << 20
#: Flag: the block has events of the journal itself. Earlier versions flagged a segment's last block with 2.
EVENTS: Final = 1
FIRST_LINK: Final = bytes(32)

_VERSION: Final = 1
_SKIPPABLE: Final = struct.Struct("<II")
_HEADER: Final = struct.Struct("<8sHHI8s8sQQIII32s32s")
_LINK_BYTES: Final = 32
_MAGIC: Final = _SKIPPABLE.pack(0x184D2A57, _HEADER.size + _LINK_BYTES) + b"PENSTOCK"
#: Bytes before the lines.
HEAD_BYTES: Final = _SKIPPABLE.size + _HEADER.size + _LINK_BYTES
_WINDOW: Final = 1 << 20


class Header(NamedTuple):
    """The signed header. `written` is in microseconds since 1970, `chain` and `key_id` are 8 bytes, the hashes 32."""

    flags: int
    segment: int
    chain: bytes
    key_id: bytes
    sequence: int
    written: int
    entries: int
    raw_bytes: int
    frame_bytes: int
    previous: bytes
    frame_hash: bytes


class Block(NamedTuple):
    """A whole block. `checked`: its link was made with the signer's key, or is a plain one."""

    header: Header
    link: bytes
    offset: int
    checked: bool

    @property
    def end(self) -> int:
        """Return the offset of the next block."""
        return self.offset + HEAD_BYTES + self.header.frame_bytes


class Damage(NamedTuple):
    """A range of bytes that is not a block."""

    offset: int
    end: int
    problem: str


def encode_block(header: Header, frame: bytes, signer: Signer) -> tuple[bytes, bytes]:
    """Encode a block and return it with its link. The header's `frame_bytes` and `frame_hash` are those of `frame`."""
    written = _HEADER.pack(_MAGIC[_SKIPPABLE.size :], _VERSION, *header)
    link = signer.link(written)
    return b"".join((_MAGIC[: _SKIPPABLE.size], written, link, frame)), link


def frame_hash(frame: bytes) -> bytes:
    """Return the hash that a header states of its frame."""
    return hashlib.sha256(frame).digest()


def scan(file: BinaryIO, signer: Signer, offset: int = 0) -> Iterator[Block | Damage]:
    """Yield all blocks of a file from an offset on, and the damage between them; each block is checked by itself."""
    while True:
        found = _read(file, offset, signer)
        if found is None:
            return
        if isinstance(found, str):
            end = _next(file, offset, signer)
            yield Damage(offset, end, found)
            offset = end
        else:
            yield found
            offset = found.end


def _next(file: BinaryIO, offset: int, signer: Signer) -> int:
    """Return the offset of the first whole block after an offset, or the file's end."""
    at = offset + 1
    while True:
        file.seek(at)
        window = file.read(_WINDOW)
        place = window.find(_MAGIC)
        if place >= 0:
            if isinstance(_read(file, at + place, signer), Block):
                return at + place
            at += place + 1
        elif len(window) < _WINDOW:
            return at + len(window)
        else:
            at += len(window) - len(_MAGIC) + 1


def _read(file: BinaryIO, offset: int, signer: Signer) -> Block | str | None:
    """Read the block at an offset; return the damage instead where there is any, and None at the file's end."""
    file.seek(offset)
    head = file.read(HEAD_BYTES)
    if not head:
        return None
    if not head.startswith(_MAGIC[: len(head)]):
        return "no block begins here"
    if len(head) < HEAD_BYTES:
        return "the file ends within a block's header"
    written, link = head[_SKIPPABLE.size : -_LINK_BYTES], head[-_LINK_BYTES:]
    _, version, *fields = _HEADER.unpack(written)
    header = Header(*fields)
    if version != _VERSION:
        return f"a block of version {version}, which this program cannot read"
    plain = header.key_id == NO_KEY
    checked = plain or header.key_id == signer.key_id
    if checked and link != (Signer() if plain else signer).link(written):
        return "a block's header is not what was written"
    if header.frame_bytes > MOST_BYTES:
        return "a block's header is not what was written"
    frame = file.read(header.frame_bytes)
    if len(frame) < header.frame_bytes:
        return "the file ends within a block"
    if frame_hash(frame) != header.frame_hash:
        return "a block's lines are not what was written"
    return Block(header, link, offset, checked)
