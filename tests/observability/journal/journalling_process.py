"""A process that journals 20,000 records at 10,000 a second, and prints how many are durable, until it is killed.

Usage: journalling_process.py FOLDER FIRST
"""

import asyncio
import sys
import time
from pathlib import Path

from observability.journal.journal_sink import Journal, request_journal
from observability.record import RequestRecord
from tests.observability.journal.journals import record_of, settings_of

RECORDS = 20_000
RATE = 10_000


async def tell(journal: Journal[RequestRecord]) -> None:
    told = -1
    while True:
        if journal.written != told:
            told = journal.written
            print(told, flush=True)
        await asyncio.sleep(0.001)


async def main(folder: Path, first: int) -> None:
    journal = request_journal(settings_of(folder, flush_seconds=0.05, segment_bytes=200_000))
    journal.start()
    telling = asyncio.create_task(tell(journal))
    began = time.monotonic()
    for start in range(0, RECORDS, 500):
        journal.take([record_of(first + number) for number in range(start, start + 500)])
        await asyncio.sleep(max(0.0, began + (start + 500) / RATE - time.monotonic()))
    await asyncio.sleep(60)
    telling.cancel()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
