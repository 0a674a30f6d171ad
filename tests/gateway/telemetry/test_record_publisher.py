"""Records of ended requests on their way to the sinks."""

import logging
from collections.abc import Sequence

import pytest

import gateway.telemetry.record_publisher
from gateway.telemetry.record_publisher import MOST_WAITING, RecordPublisher
from observability.record import RequestRecord
from tests.loops import until


class Kept:
    """A sink that keeps batches, and raises on demand."""

    def __init__(self) -> None:
        self.batches: list[list[RequestRecord]] = []
        self.broken = False
        self.closed = 0

    def take(self, records: Sequence[RequestRecord]) -> None:
        if self.broken:
            raise OSError("disk")
        self.batches.append(list(records))

    async def aclose(self) -> None:
        self.closed += 1


def record(name: str = "req") -> RequestRecord:
    return RequestRecord(name, "chat", 1.0, 1000.0)


async def test_records_gather_and_go_to_every_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway.telemetry.record_publisher, "GATHER_SECONDS", 0.001)

    sinks = [Kept(), Kept()]
    record_publisher = RecordPublisher(sinks, clock=lambda: 7.0)
    first, second = record("a"), record("b")
    record_publisher.ended(first)
    record_publisher.ended(second)
    assert sinks[0].batches == []
    record_publisher.start()
    await until(lambda: sinks[1].batches)
    assert [sink.batches for sink in sinks] == [[[first, second]], [[first, second]]]
    assert first.ended == 7.0
    record_publisher.ended(record("c"))
    await record_publisher.aclose()
    assert [len(sink.batches) for sink in sinks] == [2, 2]
    assert [sink.closed for sink in sinks] == [1, 1]


def test_no_more_than_so_many_wait() -> None:
    sink = Kept()
    record_publisher = RecordPublisher([sink])
    for index in range(MOST_WAITING + 1):
        record_publisher.ended(record(str(index)))
    assert [len(batch) for batch in sink.batches] == [MOST_WAITING]


def test_one_that_raises_is_told_of_once_and_hurts_no_other(caplog: pytest.LogCaptureFixture) -> None:
    broken, good = Kept(), Kept()
    record_publisher = RecordPublisher([broken, good])

    def one() -> None:
        record_publisher.ended(record())
        record_publisher.flush()

    with caplog.at_level(logging.ERROR, "gateway.telemetry.record_publisher"):
        broken.broken = True
        one()
        one()
        assert [entry.getMessage() for entry in caplog.records] == ["Kept loses records of requests"]
        broken.broken = False
        one()
        broken.broken = True
        one()
    assert len(caplog.records) == 2
    assert (len(broken.batches), len(good.batches)) == (1, 4)
