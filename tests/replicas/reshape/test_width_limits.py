import pytest

from protos.types import Shape
from replicas.profiles import H20, L40S, PROFILES
from replicas.reshape.cost import kept_whole_bytes
from replicas.reshape.width_limits import reshaped_kv_blocks, spare_bytes
from replicas.timing import FITTED, kv_blocks

MODEL = PROFILES["qwen2.5-32b-bf16"]


def test_what_stays_whole_takes_room_from_the_cache() -> None:
    assert reshaped_kv_blocks(MODEL, H20, 1) == kv_blocks(MODEL, Shape(1), gpu=H20)
    lost = kv_blocks(MODEL, Shape(4), gpu=H20) - reshaped_kv_blocks(MODEL, H20, 4)
    block = MODEL.kv_bytes_per_token * 32 / FITTED.free_memory_fraction
    assert lost == pytest.approx(4 * kept_whole_bytes(MODEL, 4) / block, rel=0.01)


def test_a_model_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match=r"does not fit|no room"):
        reshaped_kv_blocks(MODEL, L40S, 1)


def test_a_tenth_of_what_is_free_is_spare() -> None:
    free = H20.memory_bytes - MODEL.weight_bytes - FITTED.workspace_bytes
    assert spare_bytes(MODEL, H20, 1) == pytest.approx(0.1 * free)
