import math
from typing import Any

import msgspec
import pytest

from gateway.config.models.settings import Model
from gateway.config.settings import Config
from gateway.scaling.first_replicas import NOTICE_SECONDS, FirstReplicas, first_replica_in
from gateway.scaling.status import FRESH_SECONDS, ScalingStatus
from tests.gateway.admin.scaling_samples import NOW, model, pool, progress, status


def scaled(*pools: dict[str, Any]) -> Model:
    given: dict[str, Any] = {"engine": "simulated", "replicas": "registered", "launcher": "local"}
    bounds = {"min": 0, "max": 2, "startup_seconds": 120.0}
    listed = [given | {"name": "small", "scaling": bounds} | one for one in pools or ({},)]
    found = {"models": [{"name": "m", "tokenizer": "t", "context": 9, "pools": listed}]}
    return msgspec.convert(found, Config).models[0]


def test_without_a_controller_it_is_what_the_configuration_says() -> None:
    assert first_replica_in(scaled(), None, NOW) == 120.0 + NOTICE_SECONDS


def test_a_start_that_is_under_way_counts_from_its_beginning() -> None:
    told = model(pools=[pool(starting=[progress(1, "load", since=NOW - 5.0), progress(2, "load", since=NOW - 3.0)])])
    assert first_replica_in(scaled(), told, NOW) == pytest.approx(1.5), "the first began 5 s ago, and they take 6.5 s"
    unmeasured = model(pools=[pool(starting=[progress(1, "load")], startup_seconds=None)])
    assert first_replica_in(scaled(), unmeasured, NOW) == 112.0


def test_a_start_that_is_late_is_expected_to_be_late_by_as_much_again() -> None:
    late = model(pools=[pool(starting=[progress(1, "load", since=NOW - 56.5)])])
    assert first_replica_in(scaled(), late, NOW) == pytest.approx(50.0), "such starts take 6.5 s"
    helped = model(pools=[pool(starting=[progress(1, "load", since=NOW - 56.5), progress(2, "load", since=NOW)])])
    assert first_replica_in(scaled(), helped, NOW) == pytest.approx(6.5), "another one has begun since"


def test_where_nothing_is_started_yet_it_takes_a_whole_start() -> None:
    assert first_replica_in(scaled(), model(pools=[pool(starting=[])]), NOW) == 6.5 + NOTICE_SECONDS


def test_the_soonest_pool_counts_but_pairs_need_both_sides() -> None:
    slow, fast = {"min": 0, "max": 2, "startup_seconds": 90.0}, {"min": 0, "max": 2, "startup_seconds": 10.0}
    either = scaled({"name": "a", "scaling": slow}, {"name": "b", "scaling": fast})
    assert first_replica_in(either, None, NOW) == 10.0 + NOTICE_SECONDS
    pair = scaled(
        {"name": "a", "scaling": slow, "role": "prefill"},
        {"name": "b", "scaling": fast, "role": "decode"},
        {"name": "c", "scaling": fast, "role": "prefill", "shape": {"tp": 2}},
    )
    assert first_replica_in(pair, None, NOW) == 10.0 + NOTICE_SECONDS
    pair = scaled({"name": "a", "scaling": slow, "role": "prefill"}, {"name": "b", "scaling": fast, "role": "decode"})
    assert first_replica_in(pair, None, NOW) == 90.0 + NOTICE_SECONDS


def test_what_an_operator_keeps_at_zero_is_never_expected() -> None:
    for told in (
        model(paused=True, pools=[pool(starting=[])]),
        model(pools=[pool(starting=[], pinned=0)]),
    ):
        assert first_replica_in(scaled(), told, NOW) == math.inf
    under_way = model(paused=True, pools=[pool(starting=[progress(1, "load")])])
    assert first_replica_in(scaled(), under_way, NOW) < 10.0
    one_of_two = model(pools=[pool(starting=[], pinned=0), pool(name="wide", starting=[])])
    assert first_replica_in(scaled(), one_of_two, NOW) < math.inf


class Told:
    """A store with a status."""

    def __init__(self, found: ScalingStatus | None) -> None:
        self.found = found

    async def hgetall(self, key: str) -> dict[bytes, bytes]:
        raise AssertionError(key)

    async def run(self, script: object, keys: object, arguments: object) -> object:
        now = str(NOW).encode()
        return [now, b"" if self.found is None else msgspec.json.encode(self.found)]


async def test_what_was_read_grows_old_on_this_process_clock() -> None:
    now = 50.0
    store = Told(status(models=[model(pools=[pool(starting=[progress(1, "load", since=NOW - 2.0)])])]))
    first = FirstReplicas(store, [scaled()], lambda: now)
    assert first.seconds("m") == 120.0 + NOTICE_SECONDS, "nothing was read yet"
    await first.look()
    assert first.seconds("m") == pytest.approx(4.5)
    now = 53.0
    assert first.seconds("m") == pytest.approx(1.5)
    store.found = status(at=NOW - FRESH_SECONDS - 1.0, models=[model()])
    await first.look()
    assert first.seconds("m") == 120.0 + NOTICE_SECONDS, "an old status says nothing of now"
