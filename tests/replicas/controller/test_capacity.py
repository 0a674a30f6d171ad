import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.simulation.baselines import POLICIES
from loadtest.simulation.simulate import simulate
from loadtest.simulation.simulated_fleet import Fleet, Pool, PoolShape
from loadtest.simulation.simulated_requests import TimedRequest
from loadtest.simulation.simulation_metrics import attainment
from loadtest.simulation.synthetic import Synthetic, synthetic
from protos.types import Role
from replicas.controller.capacity import replica_capacity
from replicas.controller.fleet_capacity import FleetCapacity
from replicas.controller.scaling_settings import ModelScaling, PoolScaling, Slo
from replicas.controller.snapshot import PoolSnapshot
from replicas.controller.workload import Workload
from replicas.timing import Batch, RooflineTimer
from routing.contracts.policy_settings import PolicySettings, Targets
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
    assert [few.bound, small.bound, slow.bound] == ["running slots", "its KV cache", "the target TPOT"]


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


class Roofline:
    """The step times of the simulated engine, exactly."""

    def __init__(self, timer: RooflineTimer) -> None:
        self._timer = timer

    def seconds(self, tokens: float, context: float = 0.0, pairs: float = 0.0) -> float:
        count = round(tokens)
        batch = Batch(decode=count, decode_context=round(context), prefill_pairs=round(pairs), outputs=min(count, 256))
        return self._timer.step_seconds(batch)


@pytest.mark.parametrize(("prompt", "output", "count"), [(1000, 200, 2500), (4000, 1000, 1200)])
def test_the_simulated_fleet_serves_that_rate_in_time_and_not_much_more(prompt: int, output: int, count: int) -> None:
    fleet = Fleet(pools=(Pool(name="p", shape=PoolShape(tp=2), scheduler="max_utilization"),))
    simulated = fleet.pools[0]
    limits = fleet.limits(simulated)
    seen = PoolSnapshot(
        kv_tokens=limits.kv_tokens, max_sequences=limits.max_batch_size, max_step_tokens=limits.max_num_tokens
    )
    lengths = Workload(prompt=prompt, cached=0, output=output)
    times = Roofline(RooflineTimer(fleet.sizes, simulated.value))
    one = replica_capacity(Role.BOTH, seen, times, lengths, SLO)
    model = ModelScaling(
        model="m", pools=[PoolScaling(name="p", shape=simulated.value, min=1, max=9)], slo=Slo(in_time=0.99)
    )
    rate = FleetCapacity(model, {"p": one}).rate({"p": 1})
    requests = synthetic(Synthetic(prompt_tokens=prompt, output_tokens=output, variation=0.3), count, 1)
    targets = Targets()

    def in_time(at: float) -> float:
        rng, now, timed = random.Random(2), 0.0, []
        for request in requests:
            now += rng.expovariate(at)
            timed.append(TimedRequest(now, request.prompt_tokens, request.output_tokens, request.chain))
        return attainment(simulate(fleet, timed, lambda: POLICIES["auto"](PolicySettings(targets=targets))), targets)

    assert in_time(0.95 * rate) >= 0.98
    # Short runs flatter, so the rate beyond which it fails is higher than where it would in the long run.
    assert in_time(1.35 * rate) < 0.9
