from routing.policies.census import KEPT_SECONDS, Census
from tests.views import view


def test_what_is_no_candidate_now_is_known_for_a_while() -> None:
    census = Census()
    census.note([view("a", running=5), view("b")], now=0.0)
    fleet = {v.id: v.load.running for v in census.with_candidates([view("b", running=1), view("c")])}
    assert fleet == {"a": 5, "b": 1, "c": 0}
    census.note([view("b")], now=KEPT_SECONDS)
    assert len(census.with_candidates([])) == 2
    census.note([view("b")], now=KEPT_SECONDS + 1)
    assert [v.id for v in census.with_candidates([])] == ["b"]


def test_every_replica_is_there_once() -> None:
    assert len(Census().with_candidates([view("a"), view("b"), view("a")])) == 2


def test_the_version_changes_with_the_fleet_and_not_with_loads() -> None:
    census = Census()
    census.note([view("a"), view("b")], now=0.0)
    before = census.version
    assert census.knows([view("a", running=9)])
    census.note([view("a", running=9)], now=1.0)
    census.refresh(view("b", running=9))
    census.refresh(view("unknown"))
    assert census.version == before
    for changed in (view("a", blocks=7), view("a", tp=8), view("c")):
        assert not census.knows([changed])
    census.refresh(view("a", blocks=7))
    assert census.version > before


def test_what_has_left_is_forgotten_at_once() -> None:
    census = Census()
    census.note([view("a"), view("b")], now=0.0)
    before = census.version
    census.left("a")
    census.left("unknown")
    assert [v.id for v in census.with_candidates([])] == ["b"]
    assert census.version == before + 1
