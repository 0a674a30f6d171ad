"""What goes on after a loss, and what is left of the request then."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from protos.errors import (
    ClientGone,
    ContextLengthExceeded,
    Overloaded,
    ReplicaDraining,
    ReplicaFailed,
    ReplicaUnavailable,
)
from protos.features import Feature
from protos.types import Guide, GuideKind, Sampling, Submit
from routing.contracts.policy import RouteRequest
from routing.dispatch.migration import MAX_ATTEMPTS, MAX_MOVES, History, after_loss, continuation, continued_route

LOST_ERROR = ReplicaUnavailable("lost")

ERRORS = st.sampled_from(
    [LOST_ERROR, ReplicaDraining("d"), ReplicaFailed("f"), Overloaded("o"), ContextLengthExceeded("c"), ClientGone("g")]
)


@given(st.lists(st.tuples(ERRORS, st.integers(0, 5)), max_size=30))
def test_no_request_is_tried_for_ever(losses: list[tuple[Any, int]]) -> None:
    history = History()
    tokens = lost = 0
    for number, (error, more) in enumerate(losses):
        tokens += more
        before = history
        after = after_loss(before, f"p/{number}", error, tokens, progressed=more > 0)
        if after is None:
            break
        history = after
        assert f"p/{number}" in history.tried
        assert set(before.tried) <= set(history.tried) or more
        assert not isinstance(error, ContextLengthExceeded | ClientGone)
        lost += not isinstance(error, ReplicaDraining)
        assert lost <= MAX_ATTEMPTS + MAX_MOVES


def test_a_replica_that_was_lost_before_the_last_token_may_be_asked_again() -> None:
    first = after_loss(History(), "p/0", LOST_ERROR, 5, progressed=True)
    assert first is not None
    second = after_loss(first, "p/1", LOST_ERROR, 9, progressed=True)
    assert second is not None
    assert second.tried == ("p/1",)
    third = after_loss(second, "p/2", LOST_ERROR, 9, progressed=False)
    assert third is not None
    assert third.tried == ("p/1", "p/2")


def test_of_several_answers_each_remembers_where_an_engine_failed_on_it() -> None:
    failed = after_loss(History(), "p/0", ReplicaFailed("f"), 12, progressed=True)
    assert failed is not None
    own = failed.for_sequence(4, 12)
    assert after_loss(own, "p/1", ReplicaFailed("f"), 4, progressed=False) is None
    assert after_loss(own, "p/1", ReplicaFailed("f"), 5, progressed=True) is not None
    assert failed.for_sequence(4, 13).failed_at is None


def test_a_guide_goes_on_only_where_engines_can_continue_it() -> None:
    guide = Guide(GuideKind.JSON_OBJECT)
    submit = Submit("r", [1, 2], 10, Sampling(n=2), guide=guide)
    route = RouteRequest("r", 2, 10, 2, needs=Feature.GUIDED.value)
    assert continuation(submit, 1, [7]).guide is guide
    needs = Feature(continued_route(route, 1, {}, 0.0, guided=True).needs)
    assert needs == Feature.GUIDED | Feature.RESUMES | Feature.GUIDE_RESUMES
    # From its beginning every engine can make it that makes tokens.
    assert continuation(submit, 1, ()) == Submit("r", [1, 2], 10, sequence=1, guide=guide)
    again = Feature(continued_route(route, 0, {}, 0.0, guided=True).needs)
    assert again == Feature.GUIDED | Feature.RESUMES


def test_what_goes_on_is_what_is_left() -> None:
    submit = Submit("r", [1, 2], 10, Sampling(n=3, min_tokens=4, seed=9), delta_interval=2, cache_salt="acme")
    rest = continuation(submit, 2, [7, 8, 9])
    assert rest == Submit(
        "r",
        [1, 2, 7, 8, 9],
        7,
        Sampling(n=1, min_tokens=1, seed=9),
        generated=3,
        delta_interval=2,
        cache_salt="acme",
        sequence=2,
    )
    route = RouteRequest("r", 2, 10, 3, 6.0, {"p/0": 1}, (5,), 0.5, 1.0, 9.0, 1)
    rest_needs = Feature.RESUMES.value
    assert continued_route(route, 3, {"p/1": 2}, 4.0) == RouteRequest(
        "r", 5, 7, 1, 3.0, {"p/1": 2}, (5,), 0.5, 4.0, 9.0, 1, needs=rest_needs
    )
