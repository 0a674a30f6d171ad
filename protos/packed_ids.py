"""Token ids of long prompts, packed: a list would take ten times the memory, and be converted again for each use."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, overload

from protos import replica_pb2 as pb

_ID_BYTES: Final = 4
_LENGTH_DELIMITED: Final = 2


class PackedIds(Sequence[int]):
    """Token ids, each below 2**32, that are never changed.

    `packed` has four bytes an id in the machine's order; `varints` has them as protobuf packs a repeated uint32.
    """

    __slots__ = ("packed", "varints")

    def __init__(self, packed: bytes, varints: bytes) -> None:
        self.packed = packed
        self.varints = varints

    @classmethod
    def of(cls, ids: Sequence[int]) -> "PackedIds":
        """Pack ids."""
        if not ids:
            return cls(b"", b"")
        field = pb.Submit(prompt_ids=ids).SerializeToString()
        start = 1  # the tag
        while field[start] & 0x80:
            start += 1
        return cls(array("I", ids).tobytes(), field[start + 1 :])

    @classmethod
    def joined(cls, parts: Iterable["PackedIds"]) -> "PackedIds":
        """Join ids."""
        parts = list(parts)
        return cls(b"".join([part.packed for part in parts]), b"".join([part.varints for part in parts]))

    def field(self, number: int) -> bytes:
        """Encode the ids as a message's repeated uint32 field of this number, which must have a tag of one byte."""
        return delimited(number, self.varints) if self.varints else b""

    def __len__(self) -> int:
        return len(self.packed) // _ID_BYTES

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> list[int]: ...

    def __getitem__(self, index: int | slice) -> int | list[int]:
        found = self._view()[index]
        return found.tolist() if isinstance(found, memoryview) else found

    def __iter__(self) -> Iterator[int]:
        return iter(self._view())

    def __eq__(self, other: object) -> bool:
        return self.packed == other.packed if isinstance(other, PackedIds) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def _view(self) -> "memoryview[int]":
        return memoryview(self.packed).cast("I")


def delimited(number: int, data: bytes) -> bytes:
    """Encode a message's field of bytes, or of a message; its number is at most 15, so that its tag has one byte."""
    header = bytearray((number << 3 | _LENGTH_DELIMITED,))
    length = len(data)
    while length > 0x7F:
        header.append(length & 0x7F | 0x80)
        length >>= 7
    header.append(length)
    return bytes(header) + data
