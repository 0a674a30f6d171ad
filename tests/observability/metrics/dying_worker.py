"""A worker in a process of its own, to be killed: publishes, says what it has counted, and waits."""

import asyncio
import sys
from pathlib import Path

from observability.metrics.publishing import Publisher
from tests.observability.metrics.records import record, sink_of


async def main(folder: Path, requests: int) -> None:
    sink = sink_of()
    publisher = Publisher(folder, sink, [], workers=1, tenants=200)
    sink.take([record() for _ in range(requests)])
    await publisher.publish()
    # Lost with the process: what comes after the last time that its file was written.
    sink.take([record()])
    sys.stdout.write("written\n")
    sys.stdout.flush()
    await asyncio.sleep(60)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
