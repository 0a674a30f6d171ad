"""Whether the journal is what was written: whole, unchanged and in order."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Final

from observability.journal.block import EVENTS, FIRST_LINK, LAST, Block, Damage, scan
from observability.journal.entries import JournalEvent
from observability.journal.folder import Segment, chain_folders, is_held, segments
from observability.journal.head import NAME, Acknowledged, Head, read_head
from observability.journal.reading import Contents, events_of, read_segment
from observability.journal.signer import NO_KEY, Signer

#: Events that say what was found to be wrong when a process began.
_FAULTS: Final = ("damaged", "missing")
#: Events that an operator should know of.
_NOTES: Final = ("begun", "repaired", "lost", "removed", "changes_missing")
_UNTOLD: Final = "whether the end is cut cannot be told"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or worth knowing; `block` and `offset` are None where it is about a whole file."""

    path: Path
    problem: str
    block: int | None = None
    offset: int | None = None


@dataclass(slots=True)
class Report:
    """What was found; the journal is as it was written where `problems` is empty."""

    chains: int = 0
    segments: int = 0
    blocks: int = 0
    keyed: int = 0
    entries: int = 0
    lost: int = 0
    problems: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)


def verify(folder: Path, secret: bytes | None) -> Report:
    """Look at every byte of every chain. `secret`: the key of keyed chains, without which these cannot be checked.

    Processes may write meanwhile; what they append after this began is not asked for.

    Raises:
        OSError: The folder cannot be read.
    """
    report = Report()
    signer = Signer(secret)
    if not folder.is_dir():
        raise FileNotFoundError(None, "there is no such folder", str(folder))
    for path in chain_folders(folder):
        _check_folder(path, signer, report)
    return report


def _check_folder(path: Path, signer: Signer, report: Report) -> None:
    held, known, named = is_held(path), None, None
    try:
        known = read_head(path, signer)
        found = segments(path)
        # A process may just have begun a chain there, of which nothing is asked for yet.
        named = known or read_head(path, signer)
        if named is None and found:
            report.problems.append(Finding(path / NAME, f"is missing: {_UNTOLD}"))
        elif named is None and not held:
            why = "its files were removed, or its process was killed at its start"
            report.problems.append(Finding(path, f"has no chain: {why}"))
    except ValueError:
        found = segments(path)
        report.problems.append(Finding(path / NAME, f"was not made with this key, or was changed: {_UNTOLD}"))
    for chain in sorted({segment.chain for segment in found} | ({known.head.chain} if known is not None else set())):
        own = [segment for segment in found if segment.chain == chain]
        if named is not None and named.head.chain != chain:
            problem = "is of another chain than the head beside it names: it was put there, and its end may be cut"
            report.problems.append(Finding(own[0].path, problem))
        mine = known is not None and known.head.chain == chain
        _Chain(report, path, signer, held=held).check(own, known if mine else None)
        report.chains += 1


class _Chain:
    """One chain, segment after segment."""

    def __init__(self, report: Report, folder: Path, signer: Signer, *, held: bool) -> None:
        self._report, self._folder, self._signer, self._held = report, folder, signer, held
        self._number = self._sequence = 0
        self._link: bytes | None = FIRST_LINK
        #: The link of the block that the head names.
        self._head_seen: bytes | None = None
        #: So that what all blocks of a segment have in common is said once.
        self._told = (0, "")
        #: Which problem is the damage behind which no block has come yet.
        self._damage: int | None = None

    def check(self, own: Sequence[Segment], known: Acknowledged | None) -> None:
        """Check all segments, and then the end against the head."""
        head = known.head if known is not None else None
        if own and own[0].number > 1:
            self._skip_removed(own)
        for segment in own:
            self._check(segment, head, last=segment is own[-1])
        if known is None or head is None:
            return
        path = self._folder / NAME
        if head.sequence > self._sequence:
            if not self._in_damage(self._sequence + 1, head.sequence):
                problem = f"the end is cut: blocks {self._sequence + 1} to {head.sequence} are missing"
                self._problem(own[-1].path if own else self._folder, problem)
        elif self._head_seen is not None and self._head_seen != head.link:
            self._problem(path, f"says something else of block {head.sequence} than the segments")
        elif not known.whole and head.sequence == self._sequence:
            self._problem(path, "a part of it is gone or was changed: the last block may be cut")
        elif not known.whole and not self._held:
            # A block is durable before the head that names it is written.
            note = f"a part of it is torn; block {head.sequence + 1}, which it was to name, is there"
            self._report.notes.append(Finding(path, note))

    def _skip_removed(self, own: Sequence[Segment]) -> None:
        """Begin behind the segments that were removed as the configuration says; the newest segments say so."""
        for segment in reversed(own):
            with contextlib.suppress(OSError):
                said = [each for each in self._read(segment).events if each.removed_segment]
                if not said:
                    continue
                if max(each.removed_segment for each in said) >= own[0].number - 1:
                    self._number = own[0].number - 1
                    # What does not say itself where it ended is believed by the first block that is left.
                    self._sequence, self._link = -1, None
                for each in said:
                    if each.removed_segment == own[0].number - 1:
                        self._sequence, self._link = each.removed_sequence, bytes.fromhex(each.removed_link)
                return

    def _read(self, segment: Segment) -> Contents:
        """A whole segment, which may have been sealed since it was found. Raises OSError."""
        try:
            return read_segment(segment.path, self._signer)
        except FileNotFoundError:
            return read_segment(segment.sealed_path, self._signer)

    def _check(self, segment: Segment, head: Head | None, *, last: bool) -> None:
        if segment.number > self._number + 1:
            self._problem(segment.path, f"segments {self._number + 1} to {segment.number - 1} before it are missing")
        self._number = segment.number
        try:
            with self._opened(segment) as file:
                self._report.segments += 1
                self._check_file(segment, file, head, last=last)
        except FileNotFoundError:
            self._report.notes.append(Finding(segment.path, "was removed while this ran"))
            self._sequence, self._link = -1, None
        except OSError as error:
            self._problem(segment.path, f"cannot be read: {error.strerror or error}")

    def _opened(self, segment: Segment) -> BinaryIO:
        try:
            return segment.path.open("rb")
        except FileNotFoundError:
            return segment.sealed_path.open("rb")

    def _check_file(self, segment: Segment, file: BinaryIO, head: Head | None, *, last: bool) -> None:
        acknowledged = head.offset if head is not None and head.segment == segment.number else 0
        growing, item = segment.open and last, None
        for item in scan(file, self._signer):
            if isinstance(item, Block):
                self._block(segment, item, head)
                if item.header.flags & EVENTS:
                    self._events(segment, events_of(file, item))
            elif growing and self._held and item.offset >= acknowledged:
                break  # What is being written.
            elif growing and item.offset >= acknowledged and item.end == file.seek(0, 2):
                note = f"a torn tail of {item.end - item.offset} bytes, never acknowledged; the next start cuts it off"
                self._report.notes.append(Finding(segment.path, note, offset=item.offset))
            else:
                self._problem(segment.path, item.problem, offset=item.offset)
                self._damage = len(self._report.problems) - 1
        sealed = isinstance(item, Block) and item.header.flags & LAST
        if not sealed and not growing and not isinstance(item, Damage):
            self._problem(segment.path, "does not end with its last block: its end is cut")
            self._damage = len(self._report.problems) - 1

    def _events(self, segment: Segment, events: Sequence[JournalEvent]) -> None:
        for each in events:
            told = Finding(segment.path, f"{each.time:%Y-%m-%d %H:%M:%S}: {each.event}: {each.detail}")
            if each.event in _FAULTS:
                self._report.problems.append(told)
            elif each.event in _NOTES:
                self._report.notes.append(told)
            self._report.lost += each.records if each.event == "lost" else 0

    def _block(self, segment: Segment, block: Block, head: Head | None) -> None:
        header = block.header
        self._report.blocks += 1
        self._report.entries += header.entries
        self._report.keyed += header.key_id != NO_KEY
        if self._link is None:
            self._sequence, self._link = header.sequence - 1, header.previous
        expected = self._sequence + 1
        problem = ""
        if not block.checked:
            problem = "was made with another key than the one given, so it cannot be checked"
        elif header.key_id == NO_KEY and self._signer.key_id != NO_KEY:
            problem = "has no key: it was made before there was one, or by somebody who does not have it"
        elif header.chain != segment.chain or header.segment != segment.number:
            problem = f"belongs to segment {header.segment} of chain {header.chain.hex()}"
        elif header.sequence > expected and self._in_damage(expected, header.sequence - 1):
            problem = ""
        elif header.sequence > expected:
            problem = f"blocks {expected} to {header.sequence - 1} before it are missing"
        elif header.sequence < expected:
            problem = f"comes after block {self._sequence}: it is played again or out of order"
        elif header.previous != self._link:
            problem = "does not follow from the block before it"
        if problem and (segment.number, problem) != self._told:
            self._told = (segment.number, problem)
            self._problem(segment.path, problem, header.sequence, block.offset)
        self._damage = None
        if header.sequence >= expected:
            self._sequence, self._link = header.sequence, block.link
        if head is not None and header.sequence == head.sequence:
            self._head_seen = block.link

    def _in_damage(self, first: int, last: int) -> bool:
        """Say of the damage before, if there is one, which blocks were there; it is one problem, not two."""
        if self._damage is None:
            return False
        found = self._report.problems[self._damage]
        more = f"; blocks {first} to {last} are not there" if last > first else ""
        self._report.problems[self._damage] = replace(found, block=first, problem=found.problem + more)
        return True

    def _problem(self, path: Path, problem: str, block: int | None = None, offset: int | None = None) -> None:
        self._report.problems.append(Finding(path, problem, block, offset))
