import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.types import Role
from replicas.controller.capacity import replica_capacity
from replicas.controller.scaling_settings import Slo
from replicas.controller.snapshot import PoolSnapshot
from replicas.controller.workload import Workload
from routing.estimates.step_model import StepModel

SLO = Slo()
LENGTHS = st.builds(
    lambda prompt, share, output: Workload(prompt=prompt, cached=share * prompt, output=output),
    st.floats(1, 30_000),
    st.floats(0, 1),
    st.floats(1, 3000),
)
POOLS = st.builds(
    PoolSnapshot,
    kv_tokens=st.sampled_from([0, 50_000, 2_000_000]),
    max_sequences=st.sampled_from([0, 16, 2048]),
    max_step_tokens=st.sampled_from([0, 2048, 8192]),
)


@given(POOLS, LENGTHS, st.sampled_from([1, 2, 8]), st.sampled_from(list(Role)))
def test_a_replica_serves_something_within_its_bounds(
    pool: PoolSnapshot, lengths: Workload, gpus: int, role: Role
) -> None:
    found = replica_capacity(role, pool, StepModel(gpus), lengths, SLO)
    assert found.full_rate > 0
    assert list(found.rates) == sorted(found.rates)
    if role is not Role.PREFILL:
        assert not pool.max_sequences or found.slots <= pool.max_sequences
        assert not pool.kv_tokens or found.slots * lengths.context <= pool.kv_tokens
        alone = StepModel(gpus).seconds(found.slots, found.slots * lengths.context)
        assert alone <= SLO.tpot or found.slots <= 1


@given(POOLS, LENGTHS, st.sampled_from(list(Role)))
def test_more_gpus_and_a_looser_target_serve_no_less(pool: PoolSnapshot, lengths: Workload, role: Role) -> None:
    rate = replica_capacity(role, pool, StepModel(2), lengths, SLO).full_rate
    assert replica_capacity(role, pool, StepModel(4), lengths, SLO).full_rate >= rate * 0.999
    assert replica_capacity(role, pool, StepModel(2), lengths, Slo(tpot=0.1)).full_rate >= rate * 0.97


def test_what_caches_hold_is_not_computed() -> None:
    cold = Workload(prompt=4000, cached=0, output=200)
    warm = Workload(prompt=4000, cached=3000, output=200)
    rates = [
        replica_capacity(Role.BOTH, PoolSnapshot(), StepModel(2), lengths, SLO).full_rate for lengths in (cold, warm)
    ]
    assert rates[1] > 1.5 * rates[0]


def test_the_bound_is_named() -> None:
    lengths = Workload(prompt=100, cached=0, output=500)
    few = replica_capacity(Role.BOTH, PoolSnapshot(max_sequences=8), StepModel(2), lengths, SLO)
    small = replica_capacity(Role.BOTH, PoolSnapshot(kv_tokens=4000), StepModel(2), lengths, SLO)
    slow = replica_capacity(Role.BOTH, PoolSnapshot(), StepModel(2), lengths, SLO)
    assert [few.bound, small.bound, slow.bound] == ["running slots", "KV cache", "TPOT"]


def test_a_target_that_cannot_be_reached_still_gives_a_capacity() -> None:
    lengths, hopeless = Workload(prompt=9000, cached=0, output=100), Slo(ttft=1e-3, ttft_per_token=0.0, tpot=1e-3)
    found = replica_capacity(Role.BOTH, PoolSnapshot(), StepModel(1), lengths, hopeless)
    assert found.slack < 0
    assert 0 < found.full_rate < 100


def test_scaled_by_gpus() -> None:
    found = replica_capacity(Role.BOTH, PoolSnapshot(), StepModel(1), Workload(prompt=1000, cached=0, output=100), SLO)
    twice = found.times(2.0, "as another")
    assert twice.full_rate == pytest.approx(2 * found.full_rate)
    assert twice.source == "as another"
