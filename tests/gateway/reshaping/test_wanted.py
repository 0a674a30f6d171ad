"""Demand for a model whose shapes may change, summed over the reports of workers."""

import msgspec
import pytest

from gateway.reshaping.wanted import wanted_of
from gateway.scaling.demand.demand_reports import ModelReport, PoolReport
from protos.reshape import MemberWidth
from replicas.controller.scaling_settings import Slo
from routing.estimates.step_model import NODES, LearnedSteps

WIDTHS = {1: MemberWidth(1, 74_000, 1.0, 0), 4: MemberWidth(4, 400_000, 0.3, 500)}
STEPS = LearnedSteps(1, (1.0,) * len(NODES), 1.0, 1.0, (50,) * len(NODES), 400)
SHORT = ModelReport(
    window=30.0,
    arrivals=60.0,
    ended=90.0,
    prompt_tokens=90 * 2000.0,
    output_tokens=90 * 30.0,
    pools={"p": PoolReport(steps=STEPS, max_sequences=64, max_step_tokens=8192)},
)


def test_long_requests_do_not_count_in_what_narrow_replicas_serve() -> None:
    mixed = msgspec.structs.replace(
        SHORT,
        ended=100.0,
        prompt_tokens=90 * 2000.0 + 10 * 100_000.0,
        output_tokens=90 * 30.0 + 10 * 300.0,
        long_ended=10.0,
        long_prompt_tokens=10 * 100_000.0,
        long_output_tokens=10 * 300.0,
    )
    alone, beside = (wanted_of([report], ["p"], Slo(), WIDTHS) for report in (SHORT, mixed))
    assert alone.narrow_rate > 0
    assert beside.narrow_rate == pytest.approx(alone.narrow_rate)
    assert beside.short_tokens == pytest.approx(alone.short_tokens) == pytest.approx(2030.0)
    assert beside.short_rate == pytest.approx(alone.short_rate - 10 / 120)
    # Where nothing else has ended, long ones are all that is known.
    only = wanted_of([msgspec.structs.replace(mixed, long_ended=100.0)], ["p"], Slo(), WIDTHS)
    assert 0 < only.narrow_rate < alone.narrow_rate
    assert only.short_tokens > alone.short_tokens
