"""Journals in the hands of a test."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from observability.journal.block import Block, Damage, scan
from observability.journal.chain import Chain
from observability.journal.entries import request_lines
from observability.journal.folder import chain_folders
from observability.journal.head import write_head
from observability.journal.recovery import new_chain
from observability.journal.segment import segments
from observability.journal.settings import JournalSettings
from observability.journal.signer import Signer
from observability.journal.verification import Report, verify
from observability.record import RequestRecord

SECRET = bytes(range(32))
KEYED = Signer(SECRET)


def record_of(number: int = 0, **fields: Any) -> RequestRecord:
    made: dict[str, Any] = {
        "id": f"req_{number}",
        "endpoint": "/v1/chat/completions",
        "arrived": 100.0,
        "wall": 1_750_000_000.5 + number,
        "ended": 100.25,
        "tenant": "acme",
        "model": "m",
        "prompt_tokens": 10,
        "completion_tokens": 3,
        "cost_nano_usd": 1_000,
    }
    return RequestRecord(**{**made, **fields})


def settings_of(folder: Path, **fields: Any) -> JournalSettings:
    return JournalSettings(folder / "journal", **{"key_file": folder / "key", "flush_seconds": 0.01, **fields})


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def chain_of(folder: Path, signer: Signer = KEYED, **fields: Any) -> Chain:
    if not folder.exists():
        folder.mkdir(parents=True)
        write_head(folder, new_chain(), signer)
    return Chain(folder, signer, **fields)


def append(chain: Chain, first: int, count: int = 3) -> None:
    """A block of requests."""
    lines = request_lines([record_of(number) for number in range(first, first + count)])
    chain.append(lines.data, lines.entries)


def written(folder: Path, *, blocks: int = 4, segments_: int = 1, signer: Signer = KEYED) -> None:
    """A journal with one chain, whose last segment is open."""
    chain = chain_of(folder / "worker-0", signer)
    for place in range(segments_):
        for block in range(blocks):
            append(chain, (place * blocks + block) * 3)
        if place < segments_ - 1:
            chain.seal()
    chain.close()


def files(folder: Path) -> list[Path]:
    return [segment.path for chain in chain_folders(folder) for segment in segments(chain)]


def scanned(path: Path) -> list[Block | Damage]:
    """What is in a segment."""
    with path.open("rb") as file:
        return list(scan(file, KEYED))


def lines_of(folder: Path) -> list[dict[str, Any]]:
    """All lines of all segments, read as anybody could read them."""
    found = []
    for path in files(folder):
        with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as text:
            found += [msgspec.json.decode(line) for line in text.read().splitlines()]
    return found


def ids(folder: Path) -> list[str]:
    return [line["id"] for line in lines_of(folder) if line["kind"] == "request"]


def events(folder: Path) -> list[str]:
    return [line["event"] for line in lines_of(folder) if line["kind"] == "journal"]


def checked(folder: Path, secret: bytes | None = SECRET) -> Report:
    return verify(folder, secret)


def problems(folder: Path, secret: bytes | None = SECRET) -> list[str]:
    return [finding.problem for finding in checked(folder, secret).problems]


def wait_for(done: Callable[[], object], seconds: float = 10.0) -> None:
    """Until a thread has done something."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.002)
