import pytest

from routing.prefix import trust
from routing.prefix.trust import Trust


class Index:
    """Says a constant number of tokens, of which a part is true."""

    def __init__(self) -> None:
        self.trust, self.now = Trust(), 0.0

    def serve(self, requests: int, truth: float, seconds: float = 1.0) -> None:
        for _ in range(requests):
            self.now += seconds
            self.trust.record(int(1000 * self.trust.factor), int(1000 * truth), self.now)


def test_an_index_that_is_right_is_believed() -> None:
    index = Index()
    index.serve(500, 0.9)
    assert index.trust.factor == 1.0
    assert index.trust.requests == 500
    assert index.trust.predicted == pytest.approx(1000)
    assert index.trust.cached == pytest.approx(900)


def test_an_index_that_lies_is_believed_less_but_not_before_it_is_sure() -> None:
    index = Index()
    index.serve(trust.ENOUGH_REQUESTS - 1, 0.2)
    assert index.trust.factor == 1.0
    index.serve(1, 0.2)
    assert index.trust.factor == pytest.approx(0.2)
    index.serve(1000, 0.2)
    assert index.trust.factor == pytest.approx(0.2)


def test_an_index_that_is_right_again_is_believed_again() -> None:
    index = Index()
    index.serve(40, 0.0)
    assert index.trust.factor == trust.LEAST
    index.serve(200, 1.0)
    assert index.trust.factor == 1.0


def test_between_lying_and_right_it_keeps_its_name() -> None:
    trusted, doubted = Index(), Index()
    trusted.serve(200, 0.6)
    assert trusted.trust.factor == 1.0
    doubted.serve(20, 0.3)
    doubted.serve(200, 0.6)
    assert doubted.trust.factor == pytest.approx(0.6, abs=0.01)


def test_requests_that_were_on_their_way_when_it_changed_do_not_count() -> None:
    index = Index()
    index.serve(trust.ENOUGH_REQUESTS, 0.2)
    for _ in range(1000):
        # Predicted before, at full weight: under the new factor it looks five times the lie it was.
        assert not index.trust.record(1000, 200, index.now + trust.SETTLE_SECONDS / 2)
    assert index.trust.factor == pytest.approx(0.2)


def test_what_neither_predicts_nor_finds_says_nothing() -> None:
    one = Trust()
    assert not one.record(0, 0, 1.0)
    assert one.requests == 0
    one.record(0, 100, 2.0)
    assert (one.requests, one.cached, one.factor) == (1, 100, 1.0)


def test_means_do_not_wait_for_a_batch() -> None:
    one = Trust()
    for number in range(1, trust.ENOUGH_REQUESTS * 2 + 5):
        one.record(100, 90, 1.0)
        assert one.requests == number
        assert one.predicted == pytest.approx(100)
        assert one.cached == pytest.approx(90)
    one.record(0, 190, 1.0)
    assert one.requests == number + 1
    assert 90 < one.cached < 100
    assert 90 < one.predicted < 100
