from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest

from gateway.config.settings import Config
from gateway.fleets.discovery import dns_source
from gateway.fleets.discovery.registrations import Registration, register
from gateway.fleets.discovery.replica_discovery import Discovery
from gateway.fleets.fleet_sync import FleetSync
from gateway.fleets.replica_registry import ReplicaRegistry
from gateway.store.store_client import Store
from protos.errors import ReplicaNotFound
from protos.types import Role, Shape
from routing.fleet.fleet import Fleet
from routing.health.replica_status import ReplicaStatus
from routing.transports.replica_spec import ReplicaSpec
from routing.transports.replica_tls import TlsFiles
from tests.gateway.fleets.world import READY
from tests.harness import MODEL, drained, engine_of, serving, submit_of
from tests.loops import until
from tests.nameserver import name_server

HERE = Registration("m", "registered", "grpc://10.0.0.1:1", 5, "simulated", Shape(), Role.BOTH, "v1")
ALSO = Registration("m", "registered", "grpc://10.0.0.2:1", 5, "simulated", Shape(), Role.BOTH, "v1")


def config_of(*pools: dict[str, Any], resolver: str | None = None, model: str = "m") -> Config:
    served = {
        "name": model,
        "tokenizer": "t",
        "context": 9,
        "pools": [{"engine": "simulated", **pool} for pool in pools],
    }
    return msgspec.convert({"models": [served], "discovery": {"resolver": resolver}}, Config)


STATIC = {"name": "static", "replicas": ["grpc://10.0.1.1:1", "grpc+dns://w.test:7"]}
REGISTERED = {"name": "registered", "replicas": "registered", "version": "v1"}


class FakeFleet:
    """What discovery and an exchange ask of a fleet."""

    def __init__(self) -> None:
        self.specs: dict[str, ReplicaSpec] = {}
        self.reachable: set[str] = set()
        self.drained: Mapping[str, float] = {}

    def set_replicas(self, specs: Iterable[ReplicaSpec]) -> None:
        self.specs = {spec.id: spec for spec in specs}

    def answers(self, replica_id: str) -> bool:
        return replica_id in self.reachable

    def statuses(self) -> list[ReplicaStatus]:
        return [
            msgspec.structs.replace(READY, id=id_, pool=spec.pool, address=spec.address, version=spec.version)
            for id_, spec in self.specs.items()
        ]

    def drain(self, until: Mapping[str, float]) -> None:
        self.drained = until


async def test_the_file_and_dns_make_one_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns_source, "SHORTEST_SECONDS", 0.01)

    async with name_server() as server:
        server.ttl = 0
        server.records = {("w.test", "A"): ["10.0.0.1"], ("w.test", "AAAA"): ["fd00::1"]}
        fleet, times = FakeFleet(), list[int]()
        discovery = Discovery(config_of(STATIC, resolver=f"127.0.0.1:{server.port}"), {"m": fleet}, {"m": "abc"})
        discovery.changed = lambda: times.append(len(fleet.specs))
        await discovery.start()
        assert fleet.specs.keys() == {"static/0", "static/10.0.0.1-7", "static/fd00--1-7"}
        found = fleet.specs["static/fd00--1-7"]
        assert (found.address, found.pool, found.tokenizer_hash, found.tls) == (
            *("grpc://[fd00::1]:7", "static", "abc"),
            None,
        )
        assert discovery.problems() == []
        server.records["w.test", "A"] = ["10.0.0.2", "10.0.0.3"]
        await until(lambda: len(fleet.specs) == 4)
        assert "static/10.0.0.1-7" not in fleet.specs
        assert times == [3, 4]
        server.broken = {"A", "AAAA"}
        await until(lambda: discovery.problems())
        assert "model m: pool static: grpc+dns://w.test:7: w.test A: " in discovery.problems()[0]
        assert len(fleet.specs) == 4
        await discovery.aclose()


async def test_certificates_of_what_dns_names_are_for_the_name() -> None:
    async with name_server() as server:
        server.records = {
            ("w.test", "A"): ["10.0.0.1"],
            ("_g._tcp.test", "SRV"): ["0 0 9 host.test."],
            ("host.test", "A"): ["10.0.0.2"],
        }
        own = {"ca": "/ca.pem", "server_name": "own.test"}
        pools: list[dict[str, Any]] = [
            {"name": "a", "replicas": ["grpcs+dns://w.test:7"]},
            {"name": "b", "replicas": ["grpcs+srv://_g._tcp.test"]},
            {"name": "c", "replicas": ["grpcs+dns://w.test:8"], "tls": own},
            {"name": "d", "engine": "openai", "replicas": ["https+dns://w.test:443/v1"]},
            {"name": "e", "engine": "openai", "replicas": ["http+dns://w.test:80/v1"]},
        ]
        fleet = FakeFleet()
        discovery = Discovery(config_of(*pools, resolver=f"127.0.0.1:{server.port}"), {"m": fleet}, {"m": "abc"})
        await discovery.start()
        await discovery.aclose()
        assert fleet.specs["a/10.0.0.1-7"].tls == TlsFiles(server_name="w.test")
        assert fleet.specs["b/10.0.0.2-9"].tls == TlsFiles(server_name="host.test")
        tls = fleet.specs["c/10.0.0.1-8"].tls
        assert tls is not None
        assert (str(tls.ca), tls.server_name) == ("/ca.pem", "own.test")
        upstream = fleet.specs["d/10.0.0.1-443"]
        assert (upstream.address, upstream.tokenizer_hash) == ("https://10.0.0.1:443/v1", "")
        # Upstreams are asked by their name, with TLS or without.
        assert (upstream.host, fleet.specs["e/10.0.0.1-80"].host) == ("w.test", "w.test")
        assert fleet.specs["e/10.0.0.1-80"].tls is None


async def test_what_registers_is_found_listed_and_drained(any_store_url: str) -> None:
    store, config, fleet = Store(any_store_url, timeout=10.0), config_of(REGISTERED), FakeFleet()
    discovery = Discovery(config, {"m": fleet}, {"m": "abc"})
    await discovery.start()
    worker = FleetSync(store, config, "w", {"m": fleet}, lambda: 1000.0, discovery)
    registry = ReplicaRegistry(store, config)
    # A pool can be drained before anybody is in it.
    await registry.drain(None, "registered", 5.0, "a")
    await worker.exchange()
    assert discovery.problems() == ["model m: pool registered: no replica has registered"]
    assert await registry.replicas() == []
    await register(store, HERE)
    await worker.exchange()
    assert fleet.specs.keys() == fleet.drained.keys() == {"registered/10.0.0.1-1"}
    assert discovery.problems() == []
    await worker.exchange()
    (row,) = await registry.replicas("m")
    assert (row.id, row.address, row.source, row.version) == (
        *("registered/10.0.0.1-1", "grpc://10.0.0.1:1"),
        *("registered", "v1"),
    )
    assert row.drain is not None
    await registry.resume("m", "registered", "a")
    await registry.drain(None, "registered/10.0.0.1-1", 5.0, "a")
    await worker.exchange()
    assert fleet.drained.keys() == {"registered/10.0.0.1-1"}
    await registry.resume(None, "registered/10.0.0.1-1", "a")
    with pytest.raises(ReplicaNotFound):
        await registry.drain(None, "registered/10.0.0.2-1", 5.0, "a")
    with pytest.raises(ReplicaNotFound):
        await registry.replicas("x")
    await store.aclose()


async def test_a_replica_that_joins_a_drained_pool_gets_no_request_in_between(store_url: str) -> None:
    async with name_server() as server:
        server.records = {("w.test", "A"): ["10.0.0.1"]}
        store, fleet = Store(store_url, timeout=10.0), FakeFleet()
        config = config_of(STATIC, resolver=f"127.0.0.1:{server.port}")
        discovery = Discovery(config, {"m": fleet}, {})
        worker = FleetSync(store, config, "w", {"m": fleet}, lambda: 1000.0, discovery)
        discovery.changed = worker.apply_drains
        await ReplicaRegistry(store, config).drain(None, "static", 5.0, "a")
        await worker.exchange()
        await discovery.start()
        # Without a further look at the store.
        assert fleet.drained.keys() == {"static/0", "static/10.0.0.1-7"}
        await discovery.aclose()
        await store.aclose()


async def test_an_outage_of_the_store_changes_nothing() -> None:
    config, fleet, store = config_of(REGISTERED), FakeFleet(), Store("redis://127.0.0.1:1/0", timeout=0.5)
    discovery = Discovery(config, {"m": fleet}, {})
    discovery.registered([HERE])
    worker = FleetSync(store, config, "w", {"m": fleet}, lambda: 1000.0, discovery)
    await worker.exchange()
    assert fleet.specs.keys() == {"registered/10.0.0.1-1"}
    # It comes back and has lost everything: who can be reached stays, who cannot is gone.
    fleet.reachable = {"registered/10.0.0.1-1"}
    discovery.registered([])
    assert fleet.specs.keys() == {"registered/10.0.0.1-1"}
    fleet.reachable = set()
    discovery.registered([])
    assert fleet.specs == {}
    await store.aclose()


async def test_a_dns_server_that_is_away_does_not_keep_a_worker_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    from gateway.fleets.discovery import dns_lookup

    monkeypatch.setattr(dns_lookup, "LOOKUP_SECONDS", 0.1)

    fleet = FakeFleet()
    discovery = Discovery(config_of(STATIC, resolver="127.0.0.1:1"), {"m": fleet}, {})
    await discovery.start()
    assert fleet.specs.keys() == {"static/0"}
    assert discovery.problems()
    await discovery.aclose()


async def test_what_dns_names_is_connected_to_and_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns_source, "SHORTEST_SECONDS", 0.01)

    async with name_server() as server, serving(engine_of(), "127.0.0.1:0") as (_, first):
        port = first.rpartition(":")[2]
        async with serving(engine_of(), f"127.0.0.2:{port}"):
            server.ttl = 0
            server.records = {("w.test", "A"): ["127.0.0.1"]}
            pool = {"name": "p", "shape": {"tp": 2}, "replicas": [f"grpc+dns://w.test:{port}"]}
            config = config_of(pool, resolver=f"127.0.0.1:{server.port}", model=MODEL)
            fleet = Fleet([], "test")
            fleet.start()
            discovery = Discovery(config, {MODEL: fleet}, {})
            await discovery.start()
            await fleet.wait_ready(1)
            assert (await drained(fleet.open(f"p/127.0.0.1-{port}", submit_of(3))))[0][0]
            server.records["w.test", "A"] = ["127.0.0.2"]
            await until(lambda: [view.id for view in fleet.candidates()] == [f"p/127.0.0.2-{port}"])
            assert (await drained(fleet.open(f"p/127.0.0.2-{port}", submit_of(3))))[0][0]
            await until(lambda: len(fleet.statuses()) == 1)
            await discovery.aclose()
            await fleet.aclose()


async def test_another_configuration_goes_on_with_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name server is gone meanwhile: a fleet that stays loses nothing, and nothing is given to it too early."""
    monkeypatch.setattr(dns_source, "SHORTEST_SECONDS", 0.01)
    async with name_server() as server:
        server.ttl = 0
        server.records = {("w.test", "A"): ["10.0.0.1"], ("new.test", "A"): ["10.0.0.9"]}
        resolver = f"127.0.0.1:{server.port}"
        fleet = FakeFleet()
        last = Discovery(config_of(STATIC, REGISTERED, resolver=resolver), {"m": fleet}, {"m": "abc"})
        await last.start()
        last.registered([HERE])
        before = dict(fleet.specs)
        assert before.keys() == {"static/0", "static/10.0.0.1-7", "registered/10.0.0.1-1"}
        server.broken = {"A", "AAAA"}
        changed = {**STATIC, "replicas": [*STATIC["replicas"], "grpc://10.0.1.2:1"]}
        config = config_of(changed, REGISTERED, resolver=resolver)
        made = Discovery(config, {"m": fleet}, {"m": "abc"}, last=last, kept=["m"])
        await made.look()
        assert fleet.specs == before
        # What comes in the meantime is known, too.
        last.registered([HERE, ALSO])
        assert len(fleet.specs) == 4
        last.stop()
        made.follow()
        assert fleet.specs.keys() == before.keys() | {"static/1", "registered/10.0.0.2-1"}
        last.registered([])
        assert len(fleet.specs) == 5, "the last one has nothing to say any more"
        server.broken = set()
        server.records["w.test", "A"] = ["10.0.0.2"]
        await until(lambda: "static/10.0.0.2-7" in fleet.specs)
        await last.aclose()
        await made.aclose()


async def test_a_fleet_of_its_own_is_given_what_is_known_at_once() -> None:
    fleet, other = FakeFleet(), FakeFleet()
    last = Discovery(config_of(REGISTERED), {"m": fleet}, {"m": "abc"})
    await last.start()
    last.registered([HERE])
    made = Discovery(config_of({**REGISTERED, "channels": 2}), {"m": other}, {"m": "abc"}, last=last)
    await made.look()
    assert other.specs.keys() == {"registered/10.0.0.1-1"}
    assert other.specs["registered/10.0.0.1-1"].channels == 2
    await last.aclose()
    await made.aclose()
