"""The model of a start: what the paper says of each step, and that preparing more never takes longer."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.types import Shape
from replicas.fast_start.preparations import ALL, COLD, Preparation, WeightSource, preparation
from replicas.fast_start.start_model import DEFAULT, StartModel
from replicas.profiles import PROFILES, ModelProfile

MODELS = st.sampled_from(list(PROFILES.values()))
DEGREES = st.sampled_from([1, 2, 4, 8])
SWITCHES = st.sampled_from(["pod", "engine", "kv_sizes", "pushed"])


def turned(prepared: Preparation, switch: str, on: bool) -> Preparation:
    values: dict[str, Any] = {switch: on}
    return replace(prepared, **values)


PREPARED = st.builds(
    Preparation,
    pod=st.booleans(),
    engine=st.booleans(),
    weights=st.sampled_from(WeightSource),
    kv_sizes=st.booleans(),
    dummy_request=st.booleans(),
    pushed=st.booleans(),
)


def model(tp: int = 8, name: str = "llama-3.1-70b") -> StartModel:
    return StartModel(PROFILES[name], Shape(tp=tp))


@given(MODELS, DEGREES, PREPARED, SWITCHES, st.integers(1, 64), st.floats(0, 1))
def test_a_preparation_never_makes_a_start_longer(
    profile: ModelProfile, tp: int, prepared: Preparation, switch: str, replicas: int, load: float
) -> None:
    start = StartModel(profile, Shape(tp=tp))
    off = start.times(turned(prepared, switch, False), replicas=replicas, source_load=load)
    on = start.times(turned(prepared, switch, True), replicas=replicas, source_load=load)
    assert on.total <= off.total
    assert min(on.allocate, on.process, on.load, on.warm_up, on.announce, on.first_token) >= 0


@given(MODELS, DEGREES, PREPARED, st.integers(1, 63))
def test_more_replicas_and_a_busier_source_never_load_faster(
    profile: ModelProfile, tp: int, prepared: Preparation, replicas: int
) -> None:
    start = StartModel(profile, Shape(tp=tp))
    one = start.load(prepared.weights, replicas=replicas)
    assert one <= start.load(prepared.weights, replicas=replicas + 1)
    assert one <= start.load(prepared.weights, replicas=replicas, source_load=1.0)


def test_a_dummy_request_takes_the_first_ones_delay_before_the_replica_is_ready() -> None:
    with_sizes = Preparation(kv_sizes=True)
    without, dummy = (model().times(each) for each in (with_sizes, replace(with_sizes, dummy_request=True)))
    assert without.warm_up == 0
    assert dummy.first_token < without.first_token
    assert without.first_token - dummy.first_token == pytest.approx(DEFAULT.first_request)


def test_a_page_cache_hit_is_bytes_over_the_pcie_rate_and_the_tensors() -> None:
    ideal = replace(DEFAULT, pcie_reached=1.0)
    start = StartModel(PROFILES["llama-3.1-8b"], Shape(), coefficients=ideal)
    assert start.load(WeightSource.PAGE_CACHE) == pytest.approx(0.3 + start.gpu_bytes / 64e9)
    assert start.theoretical() == pytest.approx(start.gpu_bytes / 64e9)


def test_loading_from_memory_is_slower_with_more_gpus_and_a_fork_hardly_is() -> None:
    def per_byte(source: WeightSource, tp: int) -> float:
        start = model(tp)
        return (start.load(source) - DEFAULT.tensors) / start.gpu_bytes

    assert per_byte(WeightSource.PAGE_CACHE, 8) > 1.5 * per_byte(WeightSource.PAGE_CACHE, 1)
    assert model(8).load(WeightSource.FORK) < 1.2 * model(8, "llama-3.1-8b").load(WeightSource.FORK)


def test_a_standby_engine_has_its_pod() -> None:
    assert model().times(Preparation(engine=True)).allocate == DEFAULT.bind


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], COLD),
        (["all"], ALL),
        (["pod", "page_cache"], Preparation(pod=True, weights=WeightSource.PAGE_CACHE)),
        (["pod", "engine", "fork", "kv_sizes", "dummy_request"], replace(ALL, pushed=False)),
    ],
)
def test_preparations_have_names(names: list[str], expected: Preparation) -> None:
    assert preparation(names) == expected


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["pods"], "no preparation pods"),
        (["all", "pod"], "no preparation all"),
        (["fork", "page_cache"], "exclude each other"),
        ([""], "no preparation "),
    ],
)
def test_wrong_names_are_refused(names: list[str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        preparation(names)


def test_a_shape_that_the_model_cannot_have_is_refused() -> None:
    with pytest.raises(ValueError, match="ep=3"):
        StartModel(PROFILES["mixtral-8x7b"], Shape(tp=3, ep=3))
