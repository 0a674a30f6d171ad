"""Check that the blocks of a chain follow one another, across segments, up to the block that the head names."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from observability.journal.block import FIRST_LINK, Block, Damage
from observability.journal.head import Head
from observability.journal.segment import Contents, Segment, read_segment
from observability.journal.signer import Signer


@dataclass(frozen=True, slots=True)
class Finding:
    """A defect or a notable fact; `block` and `offset` are None where it concerns a whole file."""

    path: Path
    problem: str
    block: int | None = None
    offset: int | None = None


class Removed(NamedTuple):
    """The youngest segment that was removed by age or size, its last block, and that block's link."""

    segment: int = 0
    sequence: int = 0
    link: bytes = FIRST_LINK


def last_removed(own: Sequence[Segment], signer: Signer) -> Removed:
    """Read the last removed segment from the newest segments; the first block of every segment states it."""
    for segment in reversed(own if own and own[0].number > 1 else []):
        with contextlib.suppress(OSError):
            newest = max(read_segment(segment, signer).events, key=lambda each: each.removed_segment, default=None)
            if newest is not None and newest.removed_segment:
                link = bytes.fromhex(newest.removed_link)
                return Removed(newest.removed_segment, newest.removed_sequence, link)
    return Removed()


class Continuity:
    """Follow one chain. `segment`, `sequence` and `link` are those of the last block that was seen; where `link` is
    None the next block is trusted.
    """

    def __init__(self, segment: int, sequence: int, link: bytes | None, head: Head | None = None) -> None:
        self.segment, self.sequence, self.link = segment, sequence, link
        self._head = head
        #: The least number of blocks that the current damage must have held.
        self._damaged = 0
        #: The tail of the open segment that was never acknowledged.
        self.torn: Damage | None = None

    def follow(self, segment: Segment, contents: Contents, *, growing: bool = False) -> list[Finding]:
        """Return the defects of a segment. `growing`: a process may write to the segment if it is open."""
        found: list[Finding] = []
        if segment.number > self.segment + 1:
            problem = f"segments {self.segment + 1} to {segment.number - 1} before it are missing"
            found.append(Finding(segment.path, problem))
        self.segment = segment.number
        for item in contents.items:
            if isinstance(item, Damage):
                acknowledged = self._head is not None and self.sequence < self._head.sequence
                if segment.open and not acknowledged and (growing or item.end == contents.size):
                    self.torn = item
                    break
                found.append(Finding(segment.path, item.problem, self.sequence + 1, item.offset))
                self._damaged = 1
            else:
                problem = self._follow(segment, item)
                # A defect that all blocks of a segment share is reported once.
                if problem and (not found or found[-1].problem != problem):
                    found.append(Finding(segment.path, problem, item.header.sequence, item.offset))
        return found

    def cut(self) -> str:
        """Return what is missing at the end; empty where nothing is."""
        first, last = self.sequence + 1, self._head.sequence if self._head is not None else 0
        return f"the end is cut: blocks {first} to {last} are missing" if last >= first + self._damaged else ""

    def _follow(self, segment: Segment, block: Block) -> str:
        header, head, problem = block.header, self._head, ""
        if self.link is None:
            self.sequence, self.link = header.sequence - 1, header.previous
        expected = self.sequence + 1
        if (header.chain, header.segment) != (segment.chain, segment.number):
            problem = f"belongs to segment {header.segment} of chain {header.chain.hex()}"
        elif header.sequence > expected + self._damaged:
            problem = f"blocks {expected} to {header.sequence - 1} before it are missing"
        elif header.sequence < expected:
            problem = f"comes after block {self.sequence}: it is played again or out of order"
        elif header.sequence == expected and header.previous != self.link:
            problem = "does not follow from the block before it"
        elif head is not None and header.sequence == head.sequence and block.link != head.link:
            problem = "is not the block that the head names"
        self._damaged = 0
        if header.sequence >= expected:
            self.sequence, self.link = header.sequence, block.link
        return problem
