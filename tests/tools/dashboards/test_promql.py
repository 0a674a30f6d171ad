import pytest

from observability.metrics import declarations as m
from tools.dashboards.promql import Not, Scope, or_zero, ratio

CHOSEN = Scope({"model": '=~"$model"', "pool": '=~"$pool"'})


def test_filters_apply_to_the_metrics_that_have_the_label() -> None:
    assert CHOSEN.rate(m.RETRIES) == (
        'sum(rate(penstock_retries_total{model=~"$model", pool=~"$pool"}[$__rate_interval]))'
    )
    assert CHOSEN.rate(m.REQUESTS, "outcome", outcome=("ok", "cut")) == (
        'sum by (outcome) (rate(penstock_requests_total{model=~"$model", outcome=~"ok|cut"}[$__rate_interval]))'
    )
    assert CHOSEN.now(m.WORKERS) == "sum(penstock_workers)"
    assert CHOSEN.rate(m.REQUESTS, model=Not(("a", "b"))).count("model") == 1


def test_quantiles_are_of_buckets() -> None:
    assert Scope(window="5m").quantile(0.95, m.QUEUE_SECONDS, "tier") == (
        "histogram_quantile(0.95, sum by (le, tier) (rate(penstock_queue_seconds_bucket[5m])))"
    )


def test_a_bound_is_found_however_it_is_written() -> None:
    scope = Scope(window="5m")
    assert 'le=~"2\\\\.5"' in scope.within(m.FIRST_TOKEN_SECONDS, 2.5)
    assert 'le=~"1(\\\\.0)?"' in scope.within(m.FIRST_TOKEN_SECONDS, 1.0)


def test_what_is_not_declared_is_refused() -> None:
    scope = Scope()
    with pytest.raises(ValueError, match="penstock_requests_total has no label pool"):
        scope.rate(m.REQUESTS, "pool")
    with pytest.raises(ValueError, match="no label replica"):
        scope.now(m.QUEUE_DEPTH, replica="narrow/0")
    with pytest.raises(ValueError, match="penstock_queue_seconds is a histogram"):
        scope.rate(m.QUEUE_SECONDS)
    with pytest.raises(ValueError, match="penstock_workers is a gauge"):
        scope.buckets(m.WORKERS)
    with pytest.raises(ValueError, match=r"no bucket for 2\.2 s; it has 0\.001, "):
        scope.within(m.FIRST_TOKEN_SECONDS, 2.2)


def test_a_part_that_never_happened_is_zero() -> None:
    assert or_zero("a", "b") == "a\nor\n0 * b"
    assert ratio("a", "b") == "(\n  a\n  or\n  0 * b\n)\n/\n(\n  b > 0\n)"
