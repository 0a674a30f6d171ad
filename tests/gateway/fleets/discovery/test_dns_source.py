import asyncio
import logging
from collections.abc import Sequence

import pytest

from gateway.config.models.addresses import Found, dns_name
from gateway.fleets.discovery import dns_source
from gateway.fleets.discovery.dns_answer import Answer, Kind, LookupFailure, Target
from gateway.fleets.discovery.dns_source import LONGEST_SECONDS, SHORTEST_SECONDS, DnsSource
from gateway.fleets.discovery.last_good import EMPTY_GRACE_SECONDS
from tests.loops import until


class FakeLookup:
    """Answers from `records`; what is in `broken` fails."""

    def __init__(self, **records: Sequence[Target]) -> None:
        self.records = {tuple(key.split("__")): found for key, found in records.items()}
        self.broken: set[tuple[str, str]] = set()
        self.ttl = 10.0
        self.times = 0

    async def look_up(self, name: str, kind: Kind) -> Answer:
        self.times += 1
        if (name, kind) in self.broken:
            raise LookupFailure("SERVFAIL")
        return Answer(self.records.get((name, kind), ()), self.ttl)


class World:
    def __init__(self, text: str, **records: Sequence[Target]) -> None:
        self.now = 0.0
        self.lookup = FakeLookup(**records)
        name = dns_name(text)
        assert name is not None
        self.source = DnsSource(name, self.lookup, lambda: self.now)

    @property
    def addresses(self) -> list[str]:
        return [found.address for found in self.source.found]


async def test_every_address_is_a_replica() -> None:
    world = World("grpcs+dns://w:7", w__A=[Target("10.0.0.1"), Target("10.0.0.2")], w__AAAA=[Target("fd00::1")])
    assert await world.source.look() == 10.0
    assert world.source.found == (
        Found("grpcs://10.0.0.1:7", "w"),
        Found("grpcs://10.0.0.2:7", "w"),
        Found("grpcs://[fd00::1]:7", "w"),
    )
    assert world.source.problem == ""


async def test_services_have_ports_and_hosts_of_their_own() -> None:
    world = World(
        "http+srv://_h._tcp.w/v1",
        **{
            "_h._tcp.w__SRV": [Target("a.w.", 1), Target("b.w.", 2)],
            "a.w.__A": [Target("10.0.0.1")],
            "b.w.__A": [Target("10.0.0.1")],
        },
    )
    await world.source.look()
    assert world.source.found == (Found("http://10.0.0.1:1/v1", "a.w"), Found("http://10.0.0.1:2/v1", "b.w"))
    # A host that is gone is not asked for any more.
    world.lookup.records["_h._tcp.w", "SRV"] = [Target("b.w.", 2)]
    world.lookup.times = 0
    await world.source.look()
    assert world.addresses == ["http://10.0.0.1:2/v1"]
    assert world.lookup.times == 3


@pytest.mark.parametrize(("ttl", "seconds"), [(0.0, SHORTEST_SECONDS), (12.0, 12.0), (86_400.0, LONGEST_SECONDS)])
async def test_it_is_due_again_when_the_records_are_old(ttl: float, seconds: float) -> None:
    world = World("grpc+dns://w:7", w__A=[Target("10.0.0.1")], w__AAAA=[Target("fd00::1")])
    world.lookup.ttl = ttl
    assert await world.source.look() == seconds


async def test_a_failure_keeps_what_was_good_and_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        world = World("grpc+dns://w:7", w__A=[Target("10.0.0.1")], w__AAAA=[Target("fd00::1")])
        await world.source.look()
        world.lookup.broken = {("w", "A")}
        for _ in range(5):
            world.now += 3600.0
            assert await world.source.look() == SHORTEST_SECONDS
        assert world.addresses == ["grpc://10.0.0.1:7", "grpc://[fd00::1]:7"]
        assert "w A: SERVFAIL" in world.source.problem
        world.lookup.broken = set()
        await world.source.look()
        assert world.source.problem == ""
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "2 replicas stay" in caplog.records[0].message


async def test_an_empty_answer_is_believed_after_a_while() -> None:
    world = World("grpc+dns://w:7", w__A=[Target("10.0.0.1")])
    await world.source.look()
    world.lookup.records = {}
    await world.source.look()
    assert world.addresses == ["grpc://10.0.0.1:7"]
    assert world.source.problem
    world.now += EMPTY_GRACE_SECONDS
    await world.source.look()
    assert world.addresses == []
    assert world.source.problem


async def test_a_kind_that_cannot_be_asked_for_does_not_stop_the_other() -> None:
    world = World("grpc+dns://w:7", w__A=[Target("10.0.0.1")])
    world.lookup.broken = {("w", "AAAA")}
    await world.source.look()
    assert world.addresses == ["grpc://10.0.0.1:7"]
    assert world.source.problem == ""


async def test_no_more_than_so_many_are_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns_source, "MOST_REPLICAS", 3)

    world = World("grpc+dns://w:7", w__A=[Target(f"10.0.0.{i}") for i in range(9)])
    await world.source.look()
    assert len(world.addresses) == 3


async def test_following_tells_of_changes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns_source, "SHORTEST_SECONDS", 0.001)
    monkeypatch.setattr(dns_source, "LONGEST_SECONDS", 0.001)

    world, told = World("grpc+dns://w:7", w__A=[Target("10.0.0.1")]), list[list[str]]()
    task = asyncio.create_task(world.source.follow(lambda: told.append(world.addresses)))
    await until(lambda: world.lookup.times > 10)
    world.lookup.records["w", "A"] = [Target("10.0.0.2")]
    await until(lambda: len(told) == 2)
    assert told == [["grpc://10.0.0.1:7"], ["grpc://10.0.0.2:7"]]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
