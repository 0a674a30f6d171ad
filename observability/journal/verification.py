"""Verify a journal: whether it is complete, unchanged and in order."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from observability.journal.block import Block
from observability.journal.continuity import Continuity, Finding, last_removed
from observability.journal.entries import JournalEvent
from observability.journal.folder import chain_folders, is_held
from observability.journal.head import NAME, Head, read_head
from observability.journal.segment import Contents, Segment, read_segment, segments
from observability.journal.signer import NO_KEY, Signer

#: Events about damage found when a process began.
_FAULTS: Final = ("damaged", "missing")
#: Events that an operator should know of. No process of this version writes `begun`.
_NOTES: Final = ("begun", "repaired", "lost", "removed", "changes_missing")


@dataclass(slots=True)
class Report:
    """The result of a verification; the journal is as it was written where `problems` is empty."""

    chains: int = 0
    segments: int = 0
    blocks: int = 0
    keyed: int = 0
    entries: int = 0
    lost: int = 0
    problems: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)


def verify(folder: Path, secret: bytes | None) -> Report:
    """Check every byte of every chain. `secret`: the key of keyed chains, without which these cannot be checked.

    Processes may write meanwhile; blocks appended after the start need not be covered.

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
    try:
        head, why = read_head(path, signer), "is missing"
    except ValueError as error:
        head, why = None, str(error)
    if head is None:
        report.problems.append(Finding(path / NAME, f"{why}: whether the end is cut cannot be told"))
    found = segments(path)
    for chain in sorted({segment.chain for segment in found} | ({head.chain} if head is not None else set())):
        own = [segment for segment in found if segment.chain == chain]
        if head is not None and head.chain != chain:
            problem = "is of another chain than the head beside it names: it was put there, and its end may be cut"
            report.problems.append(Finding(own[0].path, problem))
        mine = head if head is not None and head.chain == chain else None
        _check_chain(path, own, mine, signer, report)
        report.chains += 1


def _check_chain(folder: Path, own: Sequence[Segment], head: Head | None, signer: Signer, report: Report) -> None:
    growing, continuity = is_held(folder), Continuity(*_beginning(own, signer), head)
    for segment in own:
        try:
            contents = read_segment(segment, signer)
        except FileNotFoundError:
            report.notes.append(Finding(segment.path, "was removed while this ran"))
            continuity.segment, continuity.link = segment.number, None
            continue
        except OSError as error:
            report.problems.append(Finding(segment.path, f"cannot be read: {error.strerror or error}"))
            continuity.segment, continuity.link = segment.number, None
            continue
        report.segments += 1
        report.problems += continuity.follow(segment, contents, growing=growing)
        _check_keys(segment, contents, signer, report)
        _repeat_events(segment, contents.events, report)
    if continuity.torn is not None and not growing:
        size = continuity.torn.end - continuity.torn.offset
        note = f"a torn tail of {size} bytes, never acknowledged; the next start overwrites it"
        report.notes.append(Finding(own[-1].path, note, offset=continuity.torn.offset))
    if cut := continuity.cut():
        report.problems.append(Finding(own[-1].path if own else folder, cut))


def _beginning(own: Sequence[Segment], signer: Signer) -> tuple[int, int, bytes | None]:
    """Return what the first segment follows: nothing, or the removed segments that the newest segments name."""
    first, removed = own[0].number if own else 1, last_removed(own, signer)
    # An interrupted removal has left some segments: the first block that is there is trusted.
    return removed if removed.segment < first else (first - 1, 0, None)


def _check_keys(segment: Segment, contents: Contents, signer: Signer, report: Report) -> None:
    told = ""
    for block in contents.items:
        if not isinstance(block, Block):
            continue
        plain, problem = block.header.key_id == NO_KEY, ""
        report.blocks += 1
        report.entries += block.header.entries
        report.keyed += not plain
        if not block.checked:
            problem = "was made with another key than the one given, so it cannot be checked"
        elif plain and signer.key_id != NO_KEY:
            problem = "has no key: it was made before there was one, or by somebody who does not have it"
        if problem and problem != told:
            report.problems.append(Finding(segment.path, problem, block.header.sequence, block.offset))
            told = problem


def _repeat_events(segment: Segment, events: Sequence[JournalEvent], report: Report) -> None:
    for each in events:
        told = Finding(segment.path, f"{each.time:%Y-%m-%d %H:%M:%S}: {each.event}: {each.detail}")
        if each.event in _FAULTS:
            report.problems.append(told)
        elif each.event in _NOTES:
            report.notes.append(told)
        report.lost += each.records if each.event == "lost" else 0
