"""The load of an engine behind Triton, as its metrics say it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.types import Load
from routing.transports.prometheus import samples
from routing.transports.triton.triton_metrics import BLOCKS, REQUESTS, EngineState, engine_state
from tests.fake_triton import metrics_text

FIGURES = {"waiting": 2, "scheduled": 3, "active": 5, "max": 8, "used": 4, "tokens_per": 64}


def state_of(text: str, model: str = "tensorrt_llm") -> EngineState | None:
    return engine_state(samples(text), model)


def test_the_figures_of_the_backend_are_read() -> None:
    text = metrics_text(**FIGURES) + f'{BLOCKS}{{model="tensorrt_llm",version="1",kv_cache_block_type="max"}} 100\n'
    load = Load(running=3, waiting=2, kv_blocks_used=4, kv_blocks_total=100, tokens_in_flight=256)
    assert state_of(text) == EngineState(load, 8, 64)


def test_of_several_engines_it_is_the_asked_one_or_all() -> None:
    text = metrics_text("a", scheduled=1, used=1) + metrics_text("b", scheduled=2, used=4)
    assert [(state := state_of(text, model)) and state.load.running for model in ("a", "b", "ensemble")] == [1, 2, 3]


def test_an_engine_that_does_not_say_what_runs_says_what_is_active() -> None:
    state = state_of(metrics_text(active=5, waiting=2))
    assert state is not None
    assert state.load.running == 3


@pytest.mark.parametrize("text", ["", "up 1\n", metrics_text(used=3), f'{REQUESTS}{{request_type="active"}} NaN\n'])
def test_without_its_requests_there_is_no_state(text: str) -> None:
    assert state_of(text) is None


@given(st.dictionaries(st.sampled_from(sorted(FIGURES)), st.floats()))
def test_no_figure_is_too_odd(figures: dict[str, float]) -> None:
    state = state_of(metrics_text(**figures))
    if state is not None:
        assert min(state.load.running, state.load.waiting, state.load.kv_blocks_used, state.max_requests) >= 0
