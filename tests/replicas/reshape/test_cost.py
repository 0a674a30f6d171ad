"""The paper's ranges, for a 32B model in BF16 on 96 GB GPUs."""

import pytest

from protos.types import Shape
from replicas.profiles import H20, L40S, PROFILES
from replicas.reshape.cost import LAYERS_A_STEP, Method, cost_of, kept_whole_bytes
from replicas.timing import kv_blocks

MODEL = PROFILES["qwen2.5-32b-bf16"]
FULL = kv_blocks(MODEL, Shape(1), gpu=H20) * 32


def seconds(method: Method, kv_tokens: int = FULL, before: int = 1, after: int = 4) -> float:
    return cost_of(MODEL, H20, before, after, kv_tokens, method).seconds


def test_the_naive_move_of_kv_takes_what_the_paper_says() -> None:
    weights = seconds(Method.NAIVE, 0)
    assert 0.522 <= seconds(Method.NAIVE, round(0.23 * FULL)) - weights <= 2.24
    assert seconds(Method.NAIVE) - weights == pytest.approx(2.24, rel=0.06)


def test_weights_through_the_host_take_what_the_paper_says() -> None:
    assert 0.55 <= seconds(Method.PAGED, 0) <= 0.70


def test_padding_and_overlap_save_what_the_paper_says_and_no_more() -> None:
    basic = seconds(Method.PAGED)
    assert 0.189 <= 1 - seconds(Method.PADDED) / basic <= 0.422
    assert 0.5 <= 1 - seconds(Method.OVERLAPPED) / basic <= 0.676


def test_overlapped_moves_hold_many_steps_up_a_little_and_need_little_memory() -> None:
    whole, layered = cost_of(MODEL, H20, 1, 4, FULL, Method.NAIVE), cost_of(MODEL, H20, 1, 4, FULL)
    assert (whole.steps, layered.steps) == (1, MODEL.layers // LAYERS_A_STEP)
    assert layered.extra_bytes < 0.05 * whole.extra_bytes


def test_the_way_back_moves_weights_too() -> None:
    there, back = cost_of(MODEL, H20, 1, 4, FULL), cost_of(MODEL, H20, 4, 1, FULL)
    assert back.sent_bytes - there.sent_bytes == pytest.approx(0.88 * MODEL.weight_bytes * 3 / 4)


def test_slow_links_make_changes_dearer() -> None:
    assert cost_of(MODEL, L40S, 1, 2, 20_000).seconds > cost_of(MODEL, H20, 1, 2, 20_000).seconds


@pytest.mark.parametrize(("before", "after", "problem"), [(3, 1, "TP3"), (1, 0, "TP0"), (2, 2, "TP2 is what it was")])
def test_degrees_are_checked(before: int, after: int, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        cost_of(MODEL, H20, before, after, 100)


def test_one_gpu_keeps_no_more_than_its_share() -> None:
    assert kept_whole_bytes(MODEL, 1) == 0
    assert kept_whole_bytes(MODEL, 4) == pytest.approx(0.12 * 0.75 * MODEL.weight_bytes)
