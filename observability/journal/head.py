"""Read and write the head file, which names a chain's last acknowledged block and so reveals a cut at its end.

The file is one signed record. It is synchronized and then renamed over the one before, so at every moment there is one
whole record. It never names a block that is not durable; after a power cut it may name an earlier one than there is.
"""

import os
import struct
from pathlib import Path
from typing import Final, NamedTuple

from observability.journal.signer import Signer

NAME: Final = "head"
_FORM: Final = struct.Struct("<8s8s8sIQq32s")
_LINK_BYTES: Final = 32
_MAGIC: Final = b"PENSHEAD"
#: Earlier versions wrote two records by turns, each padded to this many bytes.
_OLD_RECORD_BYTES: Final = 256


class Head(NamedTuple):
    """The last durable block, and the segment's length after it. `sequence` is 0 where there is no block yet."""

    chain: bytes
    segment: int
    offset: int
    sequence: int
    link: bytes


def write_head(folder: Path, head: Head, signer: Signer) -> None:
    """Replace the head. Where it raises OSError, the old one is still there."""
    fresh = folder / f"{NAME}.new"
    body = _FORM.pack(_MAGIC, head.chain, signer.key_id, *head[1:])
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(body + signer.link(body))
        file.flush()
        os.fsync(descriptor)
    fresh.replace(folder / NAME)


def read_head(folder: Path, signer: Signer) -> Head | None:
    """Read how far the chain of a folder was acknowledged; None where there is no file.

    Raises:
        ValueError: The file cannot be used; the text says why.
        OSError: The file cannot be read.
    """
    try:
        data = (folder / NAME).read_bytes()
    except FileNotFoundError:
        return None
    if len(data) != 2 * _OLD_RECORD_BYTES:
        return _unpacked(data, signer)
    records = [_unpacked(data[start : start + _OLD_RECORD_BYTES], signer) for start in (0, _OLD_RECORD_BYTES)]
    before, head = sorted(records, key=lambda record: record.sequence)
    # Blanking or copying a record to make the file name an earlier block is detected.
    if (before.chain, before.sequence) != (head.chain, head.sequence - 1):
        raise ValueError("was changed: its two records are not of blocks that follow each other")
    return head


def _unpacked(data: bytes, signer: Signer) -> Head:
    body, link = data[: _FORM.size], data[_FORM.size : _FORM.size + _LINK_BYTES]
    if len(body) == _FORM.size:
        magic, chain, key_id, *rest = _FORM.unpack(body)
        # A record without a key or with another one may be forged, after the chain was cut.
        if magic == _MAGIC and key_id == signer.key_id and link == signer.link(body):
            return Head(chain, *rest)
    raise ValueError("was not made with this key, or was changed")
