import math
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest
from msgspec import structs

from gateway.config.models.settings import Model
from gateway.config.tenants import DEFAULT_TIERS, Tenant
from gateway.models.model_versions import VERSION_HEADER, ModelVersions
from gateway.tenancy.tenants.caller import Caller
from observability.record import RequestRecord
from protos.errors import InvalidRequest, VersionNotAllowed
from protos.features import Feature
from routing.contracts.versions import NAMED, VersionBits
from routing.health.replica_status import ReplicaStatus
from routing.rollouts.split import Split
from tests.models import CALLER

MODEL = msgspec.convert(
    {
        "name": "m",
        "context": 100,
        "tokenizer": "t",
        "pools": [
            {"name": name, "engine": "simulated", "replicas": 1, "version": version}
            for name, version in (("a", "v1"), ("b", "v2"))
        ],
    },
    Model,
)
SPLIT = Split(model="m", stable="v1", candidate="v2", share=0.5, salt="one", epoch=7, configured="v1")
ALLOWED = Caller(CALLER.key, Tenant(name="acme", chooses_version=True), DEFAULT_TIERS[0], 0)


class Parts:
    """A fleet and a queue that only note what they are told."""

    def __init__(self) -> None:
        self.bits = VersionBits()
        self.serves = self.there = self.bits.bit("v1") | self.bits.bit("v2")
        self.told: list[object] = []
        self.on_lost: Callable[[int], None] = self.told.append
        self.versions = ModelVersions(MODEL, self.bits, cast("Any", self), cast("Any", self))

    def has(self, needs: int, adapter: str = "") -> bool:
        assert adapter == ""
        return not needs & ~(self.there | NAMED | Feature.TOKENS.value)

    def serve(self, versions: int, warming: int = 0, warm: frozenset[str] = frozenset()) -> None:
        self.serves, self.warm = versions, (self.names(warming), warm)
        self.told.append(self.names(versions))

    def move_waiting(self, gone: int, version: int) -> int:
        self.told.append((self.names(gone), self.names(version)))
        return 3

    def names(self, bits: int) -> set[str]:
        return {name for name in ("v1", "v2", "v3") if self.bits.bit(name) & bits}

    def statuses(self) -> list[ReplicaStatus]:
        return []

    def assigned(self, key: bytes = b"", named: bytes | None = None, caller: Caller = CALLER, needs: int = 0) -> str:
        record = RequestRecord("r", "chat", 0.0, 0.0)
        found = self.versions.assign(caller, needs, "", Asked(key, named), record)
        assert found & needs == needs
        assert bool(found & NAMED) == (named is not None)
        assert record.version == self.versions.named(found)
        assert record.rollout_epoch in (0, self.versions.split.epoch)
        return record.version


class Asked:
    def __init__(self, key: bytes, named: bytes | None) -> None:
        self._key, self._named = key, named

    def header(self, name: bytes) -> bytes | None:
        assert name == VERSION_HEADER.encode()
        return self._named

    def split_key(self, by: str, header: str) -> bytes:
        assert (by, header) == (SPLIT.by, "")
        return self._key


def test_without_a_split_the_configured_version_answers() -> None:
    parts = Parts()
    parts.versions.follow(None)
    assert {parts.assigned(b"%d" % number) for number in range(50)} == {"v1"}
    assert parts.told == [({"v2"}, {"v1"}), {"v1"}]


def test_a_split_divides_and_its_end_moves_who_waits() -> None:
    parts = Parts()
    parts.versions.follow(None)
    parts.told.clear()
    parts.versions.follow(SPLIT)
    taken = sum(parts.assigned(b"%d" % number) == "v2" for number in range(400))
    assert abs(taken - 200) < 5 * math.sqrt(400 * 0.25)
    parts.versions.follow(Split(model="m", stable="v1", configured="v1"))
    assert parts.told == [(set(), {"v1"}), {"v1", "v2"}, ({"v2"}, {"v1"}), {"v1"}]
    assert {parts.assigned(b"%d" % number) for number in range(50)} == {"v1"}
    # Once the candidate has become stable.
    parts.versions.follow(Split(model="m", stable="v2", configured="v1"))
    assert parts.told[-2:] == [({"v1"}, {"v2"}), {"v2"}]
    assert parts.assigned() == "v2"


def test_a_split_of_another_configured_version_does_not_count() -> None:
    parts = Parts()
    stable = msgspec.structs.replace(MODEL, stable="v2")
    parts.versions.follow(Split(model="m", stable="v1", configured="v1"))
    after = parts.versions.after(stable)
    after.follow(Split(model="m", stable="v1", configured="v1"))
    assert parts.names(parts.serves) == {"v2"}
    after.follow(Split(model="m", stable="v1"))
    assert parts.names(parts.serves) == {"v1"}


def test_a_candidate_that_cannot_take_a_request_is_not_waited_for() -> None:
    parts = Parts()
    parts.versions.follow(msgspec.structs.replace(SPLIT, share=1.0))
    assert parts.assigned() == "v2"
    assert parts.assigned(needs=Feature.LOGPROBS.value) == "v2"
    assert parts.assigned(needs=Feature.WHOLE_API.value) == "v1"
    parts.there = parts.bits.bit("v1")
    assert parts.assigned() == "v1"
    assert parts.versions.missed == 2


def test_requests_that_wait_for_a_candidate_that_is_lost_are_stables() -> None:
    parts = Parts()
    parts.versions.follow(SPLIT)
    parts.told.clear()
    parts.on_lost(parts.bits.bit("v1"))
    assert parts.told == []
    parts.on_lost(parts.bits.bit("v2"))
    assert parts.told == [({"v2"}, {"v1"})]
    assert parts.versions.missed == 3
    # What has begun to wait since it is the candidate no more, too.
    parts.versions.follow(Split(model="m", stable="v1", configured="v1"))
    parts.told.clear()
    parts.on_lost(parts.bits.bit("v2"))
    assert parts.told == [({"v2"}, {"v1"})]


def test_a_request_names_a_version_only_where_its_tenant_may() -> None:
    parts = Parts()
    assert parts.assigned(named=b"v2", caller=ALLOWED) == "v2"
    with pytest.raises(VersionNotAllowed) as refused:
        parts.assigned(named=b"v2")
    assert (refused.value.status, refused.value.param) == (403, VERSION_HEADER)
    with pytest.raises(InvalidRequest, match=r"has no version 'v9'; it has v1, v2\.") as unknown:
        parts.assigned(named=b"v9", caller=ALLOWED)
    assert unknown.value.param == VERSION_HEADER
    with pytest.raises(InvalidRequest):
        parts.assigned(named=b"\xff" * 5000, caller=ALLOWED)


def test_what_nobody_asks_for_goes_to_the_stable_version() -> None:
    """As a guard that is a model of this file."""
    parts = Parts()
    parts.versions.follow(msgspec.structs.replace(SPLIT, share=1.0))
    record = RequestRecord("r", "chat", 0.0, 0.0)
    parts.versions.assign(CALLER, 0, "", None, record)
    assert (record.version, record.rollout_epoch) == ("v1", 0)


def test_of_the_candidate_the_warm_replicas_alone_take_requests() -> None:
    parts = Parts()
    parts.versions.follow(structs.replace(SPLIT, warm=frozenset({"b/0"})))
    assert parts.warm == ({"v2"}, frozenset({"b/0"}))
    # Once it is stable, or where nothing is warmed up, all of them do.
    parts.versions.follow(Split(model="m", stable="v2", configured="v1", epoch=8))
    assert parts.warm == (set(), frozenset())


def test_a_split_whose_stable_version_no_pool_has_is_not_followed() -> None:
    parts = Parts()
    parts.versions.follow(Split(model="m", stable="v9", configured="v1"))
    assert parts.versions.split.stable == "v1"
