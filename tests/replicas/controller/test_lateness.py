import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.types import Role
from replicas.controller.lateness import lateness
from replicas.controller.scaling_settings import Slo
from tests.replicas.controller.samples import demand


def test_a_p95_is_judged_by_the_share_that_shall_be_in_time() -> None:
    seen = demand(1.0, ttft_ratio=0.2, tpot_ratio=0.9)
    assert lateness(seen, Slo(in_time=0.95)) == pytest.approx(0.9)
    assert lateness(seen, Slo(in_time=0.99)) > 1
    assert lateness(demand(1.0), Slo()) == 0


def test_each_role_answers_for_its_own() -> None:
    seen, slo = demand(1.0, ttft_ratio=0.2, tpot_ratio=0.9), Slo(in_time=0.9)
    assert lateness(seen, slo, Role.PREFILL) == pytest.approx(0.2)
    assert lateness(seen, slo, Role.DECODE) == lateness(seen, slo) == pytest.approx(0.9)


@given(st.floats(0, 100), st.floats(0, 1))
def test_it_is_never_less_than_what_is_observed(ratio: float, in_time: float) -> None:
    assert ratio <= lateness(demand(1.0, ttft_ratio=ratio), Slo(in_time=in_time)) <= 2.5 * ratio
