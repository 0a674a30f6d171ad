"""`penstock audit bench`: measure the cost of journalling and the throughput of this disk."""

import argparse
import asyncio
import secrets
import tempfile
import time
from pathlib import Path
from typing import Final

from observability.journal.journal_sink import request_journal
from observability.journal.settings import JournalSettings
from observability.record import RequestRecord
from observability.terminal import fail, print_fields

_BATCH: Final = 512
#: Distinct records that are made beforehand and used repeatedly.
_RECORDS: Final = 32 * _BATCH
_LONGEST_SECONDS: Final = 60.0


def bench(arguments: argparse.Namespace) -> int:
    """Journal made-up records in a temporary folder, and print the cost."""
    where = arguments.folder or Path()
    try:
        with tempfile.TemporaryDirectory(prefix=".penstock-audit-", dir=where) as folder:
            return asyncio.run(_measure(Path(folder), arguments.records, arguments.rate))
    except OSError as error:
        return fail("audit bench", f"{where}: {error.strerror}")


async def _measure(folder: Path, count: int, rate: int) -> int:
    journal = request_journal(JournalSettings(folder / "journal", folder / "key"))
    records = [_record(number) for number in range(_RECORDS)]
    journal.start()
    sent, taking = 0, 0.0
    began, cpu, own = time.monotonic(), time.process_time(), time.thread_time()
    while sent < count:
        batch = records[sent % _RECORDS : sent % _RECORDS + min(_BATCH, count - sent)]
        at = time.thread_time()
        journal.take(batch)
        taking += time.thread_time() - at
        sent += len(batch)
        await asyncio.sleep(max(0.0, began + sent / rate - time.monotonic()))
    handed = time.monotonic()
    while journal.written + journal.lost < sent and time.monotonic() - handed < _LONGEST_SECONDS:  # noqa: ASYNC110
        await asyncio.sleep(0.001)  # A thread writes, of which no event tells this loop.
    ended = time.monotonic()
    writing = time.process_time() - cpu - (time.thread_time() - own)
    written = journal.written
    print_fields(
        [
            ("records", f"{sent:,}, of which {written:,} are durable and {journal.lost:,} were lost"),
            ("rate", f"{sent / (ended - began):,.0f} a second"),
            ("durable", f"{(ended - handed) * 1e3:.0f} ms after the last was handed over"),
            ("event loop", f"{taking / sent * 1e6:.2f} us of CPU a record"),
            ("writer", f"{writing / sent * 1e6:.2f} us of CPU a record"),
            ("on disk", f"{journal.written_bytes / max(1, written):.0f} bytes a record"),
        ]
    )
    await journal.aclose()
    return 0 if written == sent else 1


def _record(number: int) -> RequestRecord:
    at = 1000.0 + number * 1e-3
    return RequestRecord(
        id="req_" + secrets.token_hex(12),
        endpoint="/v1/chat/completions",
        arrived=at,
        wall=time.time(),
        identified=at + 1e-4,
        screened=at + 2e-4,
        encoded=at + 4e-4,
        reserved=at + 9e-4,
        admitted=at + 1e-3,
        sent=at + 1.1e-3,
        first_token=at + 0.06 + number % 97 * 1e-3,
        last_token=at + 0.9 + number % 977 * 1e-3,
        ended=at + 0.901 + number % 977 * 1e-3,
        tenant=f"tenant-{number % 200}",
        key_id=f"key_{number % 400:012}",
        tier="gold",
        client=f"10.0.{number % 16}.{number % 250}",
        model="mixtral-8x7b",
        version="2025-01",
        asked_model="mixtral-8x7b",
        stream=True,
        request_hash=secrets.token_hex(16),
        request_bytes=900 + number % 3001,
        answer_hash=secrets.token_hex(16),
        answer_characters=600 + number % 1009,
        prompt_tokens=200 + number % 701,
        cached_tokens=number % 5 * 64,
        predicted_tokens=number % 5 * 64,
        completion_tokens=150 + number % 251,
        cost_nano_usd=1_000_000 + number * 37,
        finish="stop",
        pool="narrow",
        replica=f"narrow/{number % 8}",
        policy="auto",
        reason="least cost",
        engine_queue_us=number % 311,
        engine_prefill_us=40_000 + number % 9973,
        engine_decode_us=800_000 + number % 99_991,
    )
