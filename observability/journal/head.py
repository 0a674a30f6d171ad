"""How far a chain was acknowledged, in a file beside its segments: a cut at its end could not be seen without it.

It has two places that are written by turns, so that one of them is whole whenever the process or the machine ends. They
always speak of two blocks that follow each other, and it is there before the first block is: whoever blanks a place,
to have the file speak of the block before, is noticed. Most of the time it is not synchronized to disk: after a power
cut it may say less than there is, never more.
"""

import os
import struct
from pathlib import Path
from typing import Final, NamedTuple

from observability.journal.folder import sync_folder
from observability.journal.signer import Signer

NAME: Final = "head"
_FORM: Final = struct.Struct("<8s8s8sIQq32s")
_LINK_BYTES: Final = 32
_MAGIC: Final = b"PENSHEAD"
_PLACE: Final = 256
_BYTES: Final = 2 * _PLACE


class Head(NamedTuple):
    """The last block that is durable, and where its segment ended then. `sequence` is 0 where there is none yet; what
    was before that has -1.
    """

    chain: bytes
    segment: int
    offset: int
    sequence: int
    link: bytes


class Acknowledged(NamedTuple):
    """The latest head that can be used. `whole`: the other place has what belongs there, so this is the last one."""

    head: Head
    whole: bool


def make_head(folder: Path, head: Head, before: Head, signer: Signer) -> None:
    """Put a file with a head and the one before it in the place of what is there. Raises OSError."""
    fresh = folder / f"{NAME}.new"
    descriptor = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        # All of it now, so that writing a head later never needs new space on the disk.
        os.ftruncate(descriptor, _BYTES)
        for each in (before, head):
            write_head(descriptor, each, signer)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    fresh.replace(folder / NAME)
    sync_folder(folder)


def write_head(descriptor: int, head: Head, signer: Signer) -> None:
    """Put the head where it belongs by its sequence number. Raises OSError."""
    body = _FORM.pack(_MAGIC, head.chain, signer.key_id, *head[1:])
    os.pwrite(descriptor, body + signer.link(body), head.sequence % 2 * _PLACE)


def read_head(folder: Path, signer: Signer) -> Acknowledged | None:
    """How far the chain of a folder was acknowledged; None where there is no file.

    Raises:
        ValueError: There is a file, and nothing in it can be used.
        OSError: It cannot be read.
    """
    try:
        with (folder / NAME).open("rb") as file:
            data = file.read(_BYTES)
    except FileNotFoundError:
        return None
    places = [_head(data[place * _PLACE : (place + 1) * _PLACE], place, signer) for place in (0, 1)]
    found = sorted((head for head in places if head is not None), key=lambda head: head.sequence)
    if not found or found[-1].sequence < 0:
        raise ValueError("nothing in it can be used")
    head, before = found[-1], found[0]
    return Acknowledged(head, (before.chain, before.sequence) == (head.chain, head.sequence - 1))


def _head(data: bytes, place: int, signer: Signer) -> Head | None:
    body, link = data[: _FORM.size], data[_FORM.size : _FORM.size + _LINK_BYTES]
    if len(body) < _FORM.size:
        return None
    magic, chain, key_id, *rest = _FORM.unpack(body)
    # A head with no key or with another one could be anybody's, who has cut the chain before.
    if magic != _MAGIC or key_id != signer.key_id or link != signer.link(body):
        return None
    head = Head(chain, *rest)
    # Else the older one could be put in the place of the newer one.
    return head if head.sequence % 2 == place else None
