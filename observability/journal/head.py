"""How far a chain was acknowledged, in a file beside its segments: a cut at its end could not be seen without it.

It has two places that are written by turns, so that one of them is whole whenever the process or the machine ends. Most
of the time it is not synchronized to disk: after a power cut it may say less than there is, never more.
"""

import os
import struct
from pathlib import Path
from typing import Final, NamedTuple

from observability.journal.signer import Signer

NAME: Final = "head"
_FORM: Final = struct.Struct("<8s8s8sIQQ32s")
_LINK_BYTES: Final = 32
_MAGIC: Final = b"PENSHEAD"
_PLACE: Final = 256
#: So that writing it never needs new space on the disk.
BYTES: Final = 2 * _PLACE


class Head(NamedTuple):
    """The last block that is durable, and where its segment ended then."""

    chain: bytes
    segment: int
    offset: int
    sequence: int
    link: bytes


def write_head(descriptor: int, head: Head, signer: Signer) -> None:
    """Put the head where it belongs by its sequence number. Raises OSError."""
    body = _FORM.pack(_MAGIC, head.chain, signer.key_id, *head[1:])
    os.pwrite(descriptor, body + signer.link(body), head.sequence % 2 * _PLACE)


def read_head(folder: Path, signer: Signer) -> Head | None:
    """The latest head of a chain's folder that is whole; None where nothing was acknowledged yet, or there is no file.

    Raises:
        ValueError: There is a file, and nothing in it can be used.
        OSError: It cannot be read.
    """
    try:
        with (folder / NAME).open("rb") as file:
            data = file.read(BYTES)
    except FileNotFoundError:
        return None
    if not any(data):
        return None
    found = [head for at in (0, _PLACE) if (head := _head(data[at : at + _PLACE], signer)) is not None]
    if not found:
        raise ValueError("nothing in it can be used")
    return max(found, key=lambda head: head.sequence)


def _head(data: bytes, signer: Signer) -> Head | None:
    body, link = data[: _FORM.size], data[_FORM.size : _FORM.size + _LINK_BYTES]
    if len(body) < _FORM.size:
        return None
    magic, chain, key_id, *rest = _FORM.unpack(body)
    # A head with no key or with another one could be anybody's, who has cut the chain before.
    if magic != _MAGIC or key_id != signer.key_id or link != signer.link(body):
        return None
    return Head(chain, *rest)
