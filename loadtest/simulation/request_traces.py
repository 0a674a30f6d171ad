"""Reads published traces: Azure's CSV (lengths only) and Mooncake's JSONL (with shared prefixes)."""

import csv
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from loadtest.simulation.block_names import expanded
from loadtest.simulation.simulated_requests import TimedRequest

#: Tokens per entry of Mooncake's `hash_ids`.
MOONCAKE_ID_TOKENS = 512
_AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_MOST_TOKENS = 100_000_000
_Tokens = Annotated[int, Meta(ge=1, le=_MOST_TOKENS)]


class TraceError(ValueError):
    """A trace cannot be used; one line names the file, the line and the field."""


class _MooncakeLine(msgspec.Struct, frozen=True):
    timestamp: Annotated[float, Meta(ge=0)]  # ms
    input_length: _Tokens
    output_length: _Tokens
    hash_ids: tuple[Annotated[int, Meta(ge=0, le=2**62)], ...]


def read_trace(path: Path) -> list[TimedRequest]:
    """Read all requests of a trace by arrival; the first character distinguishes JSONL from CSV. Raises TraceError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: is not text") from error
    lines = text.splitlines()
    jsonl = text.lstrip().startswith("{")
    requests = list(_mooncake(lines, path) if jsonl else _azure(lines, path))
    if not requests:
        raise TraceError(f"{path}: no requests in it")
    return sorted(requests, key=lambda request: request.arrival)


def _mooncake(lines: list[str], path: Path) -> Iterator[TimedRequest]:
    decoder = msgspec.json.Decoder(_MooncakeLine)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = decoder.decode(line)
        except msgspec.DecodeError as error:
            raise TraceError(f"{path}: line {number}: {error}") from error
        if len(entry.hash_ids) * MOONCAKE_ID_TOKENS < entry.input_length:
            named = f"{len(entry.hash_ids)} of {MOONCAKE_ID_TOKENS} tokens each"
            raise TraceError(f"{path}: line {number}: hash_ids: {named} do not cover input_length {entry.input_length}")
        chain = expanded(entry.hash_ids, MOONCAKE_ID_TOKENS, entry.input_length)
        yield TimedRequest(entry.timestamp / 1000, entry.input_length, entry.output_length, chain)


def _azure(lines: list[str], path: Path) -> Iterator[TimedRequest]:
    rows = csv.reader(lines)
    header = next(rows, [])
    missing = [name for name in _AZURE_COLUMNS if name not in header]
    if missing:
        raise TraceError(f"{path}: line 1: neither JSON lines nor a CSV header with {', '.join(missing)}")
    when, prompt, output = (header.index(name) for name in _AZURE_COLUMNS)
    start: datetime | None = None
    for row in rows:
        if not row:
            continue
        place = f"{path}: line {rows.line_num}"
        if len(row) != len(header):
            raise TraceError(f"{place}: {len(row)} fields where the header has {len(header)}")
        time = _time(row[when], place)
        start = start or time
        # The published traces have a few requests without output tokens; they count as one token.
        tokens = max(1, _count(row[output], "GeneratedTokens", place))
        try:
            arrival = (time - start).total_seconds()
        except TypeError as error:
            raise TraceError(f"{place}: TIMESTAMP: some have a time zone, others none") from error
        yield TimedRequest(arrival, max(1, _count(row[prompt], "ContextTokens", place)), tokens)


def _time(text: str, place: str) -> datetime:
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise TraceError(f"{place}: TIMESTAMP: {text!r} is no date and time") from error


def _count(text: str, field: str, place: str) -> int:
    try:
        value = int(text)
    except ValueError as error:
        raise TraceError(f"{place}: {field}: {text!r} is no whole number") from error
    if not 0 <= value <= _MOST_TOKENS:
        raise TraceError(f"{place}: {field}: {value} is not between 0 and {_MOST_TOKENS}")
    return value
