"""What a look shows of what was seen."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admin.limit_operations import ScopeLimits
from gateway.admin.live.live_snapshot import MOST_ERRORS, MOST_TENANTS, PoolFacts, busiest, scaling_live, snapshot
from gateway.admin.live.totals import Totals, growth
from gateway.admin.live.view import RecentError
from gateway.scaling.status import FRESH_SECONDS
from protos.types import Role
from tests.gateway.admin.live.samples import SHAPE, replica, seen, totals
from tests.gateway.admin.scaling_samples import NOW, status


def test_the_headline() -> None:
    live = snapshot(seen())
    assert live.seconds == 10.0
    head = live.headline
    assert head.requests_per_second == 10.0
    assert head.tokens_per_second == 65.0, "reasoning is part of the answer"
    assert head.prompt_tokens_per_second == 120.0
    assert head.errors_per_second == 1.0, "a limit's refusal is none"
    assert head.outcomes == {"limited": 1.0, "replica_error": 1.0}
    assert (head.in_flight, head.queued) == (7, 2)
    assert head.request is not None
    assert head.request.count == 90, "those that came to a replica"
    assert 0.1 < head.request.p50 < 1.0
    assert head.ttft is not None
    assert head.ttft.p99 <= 0.1
    assert head.itl is None, "nobody streamed"


def test_what_is_not_known_is_null() -> None:
    live = snapshot(seen(totals=Totals(at=1.0), growth=None, tiers=None, scopes=None, replicas=[], problems=["why"]))
    assert live.seconds == 0
    assert live.problems == ["why"]
    assert (live.headline.requests_per_second, live.headline.in_flight, live.headline.queued) == (None, None, None)
    assert live.headline.outcomes is None
    assert live.models[0].figures.ttft is None
    assert live.models[0].queued is None
    assert live.tenants == []


def test_pools_without_replicas_are_there_too() -> None:
    pools = [PoolFacts("m", "p", SHAPE, Role.BOTH), PoolFacts("m", "q", SHAPE, Role.DECODE)]
    (model,) = snapshot(seen(pools=pools, replicas=[replica(), replica(id="p/1", state="ejected")])).models
    assert [[row.id for row in pool.replicas] for pool in model.pools] == [["p/0", "p/1"], []]
    assert model.pools[0].figures.requests_per_second == 9.0
    assert model.pools[1].figures.requests_per_second == 0.0
    assert model.figures.requests_per_second == 10.0, "those that came to no replica too"
    assert model.queued == 2


def test_tenants_with_their_limits() -> None:
    limits = ScopeLimits(tenant="acme", scope="tenant", in_flight=3, limits=[], budget=None)
    acme, globex, idle = snapshot(seen(tiers={"acme": "gold", "idle": None}, scopes={"acme": [limits]})).tenants
    assert (acme.name, acme.tier, acme.requests, acme.scopes) == ("acme", "gold", 99, [limits])
    assert (acme.requests_per_second, acme.tokens_per_second, acme.refused_per_second) == (9.0, 185.0, 1.0)
    assert (globex.failed_per_second, globex.scopes) == (1.0, [])
    assert (idle.name, idle.requests, idle.requests_per_second) == ("idle", 0, 0.0)


def test_the_list_of_tenants_is_bounded_and_the_busiest_are_on_it() -> None:
    counts = {("m", f"t{number:05}", "ok"): float(number) for number in range(10_000)}
    late = totals(20.0)
    late = Totals(at=20.0, requests={**counts, ("m", "now", "ok"): 5.0, ("m", "other", "ok"): 1e9}, in_flight=0.0)
    early = Totals(at=10.0, requests={**counts, ("m", "other", "ok"): 1e8})
    live = snapshot(seen(totals=late, growth=growth(early, late), tiers=None))
    assert len(live.tenants) == MOST_TENANTS
    assert [tenant.name for tenant in live.tenants[:2]] == ["now", "t09999"]
    assert live.tenants_left_out == 10_001 - MOST_TENANTS
    assert all(tenant.tier is None for tenant in live.tenants)


def test_errors_are_bounded_and_the_newest_first() -> None:
    found = [
        RecentError(time=float(number), id=str(number), outcome="shed", detail=str(number)) for number in range(200)
    ]
    shown = snapshot(seen(errors=found)).errors
    assert [error.id for error in shown] == [str(number) for number in range(199, 199 - MOST_ERRORS, -1)]


def test_failures_that_are_alike_are_one() -> None:
    flood = [RecentError(time=float(number), id=str(number), outcome="limited", tenant="t") for number in range(90)]
    rare = RecentError(time=3.5, id="rare", outcome="timeout", tenant="t")
    shown = snapshot(seen(errors=[*flood, rare])).errors
    assert [(error.id, error.times) for error in shown] == [("89", 90), ("rare", 1)]


@given(st.dictionaries(st.text(max_size=5), st.integers(0, 9).map(float), max_size=80), st.sets(st.text(max_size=5)))
def test_busiest_is_a_part_of_all_without_repeats(counts: dict[str, float], known: set[str]) -> None:
    found = busiest(Totals(at=0.0, requests={("m", name, "ok"): count for name, count in counts.items()}), None, known)
    assert len(set(found)) == len(found) <= MOST_TENANTS
    assert set(found) <= {*counts, *known} - {"", "-", "other"}


@pytest.mark.parametrize("names", [["a", "b"], ["<script>", "\x1b[2J"]])
def test_names_are_passed_on_as_they_are(names: list[Any]) -> None:
    live = snapshot(seen(tiers=dict.fromkeys(names), totals=Totals(at=1.0, in_flight=0.0), growth=None))
    assert sorted(tenant.name for tenant in live.tenants) == sorted(names)


def test_what_scales_is_shown_without_its_history() -> None:
    assert snapshot(seen()).scaling is None
    scaling = scaling_live(NOW + 1.0, status())
    assert (scaling.at, scaling.fresh) == (NOW, True)
    assert [one.model for one in scaling.models] == ["m", "z"]
    assert [one.at for one in scaling.models[0].decisions] == [NOW - 2.0]
    assert snapshot(seen(scaling=scaling)).scaling is scaling


def test_a_controller_that_says_nothing_is_told_apart() -> None:
    old = scaling_live(NOW + FRESH_SECONDS + 1.0, status())
    assert (old.fresh, len(old.models)) == (False, 2)
    never = scaling_live(NOW, None)
    assert (never.at, never.fresh, never.models) == (None, False, [])
