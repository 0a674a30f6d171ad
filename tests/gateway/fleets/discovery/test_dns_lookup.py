import dns.resolver
import pytest

from gateway.fleets.discovery import dns_lookup
from gateway.fleets.discovery.dns_answer import LookupFailure, Target
from gateway.fleets.discovery.dns_lookup import DnsLookup
from tests.nameserver import name_server


async def test_records_of_each_kind() -> None:
    async with name_server() as server:
        server.ttl = 17
        server.records = {
            ("w.test", "A"): ["10.0.0.2", "10.0.0.1"],
            ("w.test", "AAAA"): ["fd00::1"],
            ("_g._tcp.test", "SRV"): ["0 5 50051 b.test.", "0 1 50051 a.test.", "9 1 50051 spare.test."],
            ("_none._tcp.test", "SRV"): ["0 0 0 ."],
        }
        lookup = DnsLookup(("127.0.0.1", server.port))
        found = await lookup.look_up("w.test", "A")
        assert list(found.targets) == [Target("10.0.0.1"), Target("10.0.0.2")]
        assert found.ttl == 17.0
        assert list((await lookup.look_up("w.test", "AAAA")).targets) == [Target("fd00::1")]
        # Only those that come first in priority, and a dot names nothing.
        services = await lookup.look_up("_g._tcp.test", "SRV")
        assert list(services.targets) == [Target("a.test.", 50051), Target("b.test.", 50051)]
        assert list((await lookup.look_up("_none._tcp.test", "SRV")).targets) == []


async def test_a_name_that_is_not_there_and_one_without_such_records_are_answers() -> None:
    async with name_server() as server:
        server.records = {("w.test", "A"): ["10.0.0.1"]}
        lookup = DnsLookup(("127.0.0.1", server.port))
        assert list((await lookup.look_up("w.test", "AAAA")).targets) == []
        assert list((await lookup.look_up("x.test", "A")).targets) == []


async def test_an_answer_too_long_for_udp_is_asked_for_over_tcp() -> None:
    async with name_server() as server:
        server.truncates, hosts = True, [f"10.0.{number // 200}.{number % 200}" for number in range(600)]
        server.records = {("w.test", "A"): hosts}
        found = await DnsLookup(("127.0.0.1", server.port)).look_up("w.test", "A")
        assert {target.host for target in found.targets} == set(hosts)


async def test_names_that_stand_for_others_are_followed() -> None:
    async with name_server() as server:
        server.ttl = 0
        server.aliases = {"a.test": "b.test", "b.test": "c.test", "x.test": "none.test"}
        server.records = {("c.test", "A"): ["10.0.0.1", "10.0.0.1"]}
        lookup = DnsLookup(("127.0.0.1", server.port))
        found = await lookup.look_up("a.test", "A")
        assert (list(found.targets), found.ttl) == ([Target("10.0.0.1")], 0.0)
        assert list((await lookup.look_up("x.test", "A")).targets) == []
        assert list((await lookup.look_up("a.test", "AAAA")).targets) == []


async def test_a_server_that_fails_or_is_silent_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    async with name_server() as server:
        server.broken = {"A"}
        lookup = DnsLookup(("127.0.0.1", server.port))
        with pytest.raises(LookupFailure, match=r"^the server 127\.0\.0\.1 says SERVFAIL$"):
            await lookup.look_up("w.test", "A")
        port = server.port
    monkeypatch.setattr(dns_lookup, "LOOKUP_SECONDS", 0.2)
    with pytest.raises(LookupFailure, match=r"^the server 127\.0\.0\.1 is silent$"):
        await DnsLookup(("127.0.0.1", port)).look_up("w.test", "A")


async def test_a_name_that_cannot_be_is_a_failure() -> None:
    async with name_server() as server:
        with pytest.raises(LookupFailure):
            await DnsLookup(("127.0.0.1", server.port)).look_up(f"{'x' * 64}.test", "A")


async def test_a_machine_without_resolv_conf_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise dns.resolver.NoResolverConfiguration

    monkeypatch.setattr(dns.resolver.BaseResolver, "read_resolv_conf", missing)

    with pytest.raises(LookupFailure, match="Resolver"):
        await DnsLookup().look_up("w.test", "A")
