import random
from math import sqrt
from pathlib import Path
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.simulation.arrivals import ARRIVALS, BURSTINESS
from loadtest.simulation.simulated_requests import TimedRequest, at_rate, bounded, native_rate
from loadtest.simulation.synthetic import Synthetic, synthetic
from loadtest.simulation.workload import WorkloadSpec

TRACE = [TimedRequest(10.0 + at, 100 + at, 5, [1, 2, 100 + at]) for at in (0, 1, 3, 6)]


def test_the_first_requests_of_a_trace() -> None:
    assert bounded(TRACE, 2) == TRACE[:2]
    assert bounded(TRACE, 4) == TRACE


def test_a_trace_that_is_too_short_begins_again_and_shares_nothing_with_itself() -> None:
    played = bounded(TRACE, 10)
    assert [r.arrival for r in played] == [10, 11, 13, 16, 18, 19, 21, 24, 26, 27]
    assert [r.prompt_tokens for r in played] == [100, 101, 103, 106, 100, 101, 103, 106, 100, 101]
    first, second, third = ({name for r in played[at : at + 4] for name in r.chain} for at in (0, 4, 8))
    assert not first & second
    assert not second & third
    assert len({tuple(r.chain[:2]) for r in played[4:8]}) == 1
    assert native_rate(played) == pytest.approx(native_rate(TRACE), rel=0.2)


@given(
    st.lists(st.floats(0, 1e6), min_size=2, max_size=20).filter(lambda gaps: sum(gaps) > 1e-6),
    st.floats(0.01, 1000),
)
def test_another_rate_keeps_the_form_of_arrivals(gaps: list[float], rate: float) -> None:
    arrival, requests = 0.0, [TimedRequest(0.0, 1, 1)]
    for gap in gaps:
        arrival += gap
        requests.append(TimedRequest(arrival, 1, 1))
    played = at_rate(requests, rate)
    assert native_rate(played) == pytest.approx(rate, rel=1e-6)
    scale = native_rate(requests) / rate
    for request, original in zip(played, requests, strict=True):
        assert request.arrival == pytest.approx(original.arrival * scale, rel=1e-6, abs=1e-9)


def test_requests_that_all_come_at_once_are_spread_evenly() -> None:
    played = at_rate([TimedRequest(5.0, 1, 1)] * 3, 2.0)
    assert [r.arrival for r in played] == [0.5, 1.0, 1.5]


@pytest.mark.parametrize(("kind", "variation"), [("poisson", 1.0), ("bursty", sqrt(BURSTINESS))])
def test_gaps_have_the_mean_and_variation_that_they_should(kind: str, variation: float) -> None:
    gaps = ARRIVALS[kind](100_000, random.Random(1))
    assert fmean(gaps) == pytest.approx(1.0, rel=0.03)
    assert pstdev(gaps) == pytest.approx(variation, rel=0.05)


def test_synthetic_lengths_and_shared_prefixes() -> None:
    kind = Synthetic(prompt_tokens=500, output_tokens=100, variation=0.5, prefixes=3, prefix_tokens=64)
    requests = synthetic(kind, 4000, seed=1)
    assert fmean(r.prompt_tokens for r in requests) == pytest.approx(564, rel=0.03)
    assert fmean(r.output_tokens for r in requests) == pytest.approx(100, rel=0.03)
    assert all(len(r.chain) == r.prompt_tokens // 32 for r in requests)
    heads = [tuple(r.chain[:2]) for r in requests]
    counts = sorted(heads.count(head) for head in set(heads))
    assert len(counts) == 3
    assert counts[2] / counts[0] == pytest.approx(3, rel=0.2)
    assert len({name for r in requests for name in r.chain[2:]}) == sum(len(r.chain) - 2 for r in requests)
    assert synthetic(kind, 10, seed=1) == requests[:10]
    assert synthetic(kind, 10, seed=2) != requests[:10]


def test_without_variation_all_are_alike() -> None:
    requests = synthetic(Synthetic(prompt_tokens=70, output_tokens=9, variation=0), 5, seed=3)
    assert {(r.prompt_tokens, r.output_tokens, tuple(r.chain)) for r in requests} == {(70, 9, ())}


def test_a_workload_is_the_same_whenever_it_is_made() -> None:
    spec = WorkloadSpec(Synthetic(), 50, "bursty", seed=4)
    one, other = spec.load(), spec.load()
    assert one.at(3.0) == other.at(3.0)
    assert one.native is None
    assert native_rate([TimedRequest(0.0, 1, 1), *one.at(3.0)]) == pytest.approx(3.0)
    slow, fast = one.at(1.0), one.at(10.0)
    assert [r.arrival / 10 for r in slow] == pytest.approx([r.arrival for r in fast])


def test_a_trace_may_be_given_other_arrivals(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    rows = (f"2023-11-16 18:17:{second:02},{100 + second},5\n" for second in range(0, 40, 10))
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(rows), encoding="utf-8")
    recorded = WorkloadSpec(str(path)).load()
    assert recorded.native == pytest.approx(0.1)
    assert [r.arrival for r in recorded.at(1.0)] == pytest.approx([0, 1, 2, 3])
    drawn = WorkloadSpec(str(path), requests=8, arrivals="poisson").load()
    assert [r.prompt_tokens for r in drawn.at(1.0)] == [100, 110, 120, 130] * 2
    assert drawn.at(1.0)[-1].arrival == pytest.approx(8.0)
