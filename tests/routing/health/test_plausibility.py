from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from protos.types import KvUpdate, Load
from routing.health.plausibility import LoadBounds, update_problem
from tests.fakes import INFO

SOUND = Load(running=5, waiting=2, kv_blocks_used=100, kv_blocks_total=INFO.kv_blocks_total, workers=2, steps=9)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"kv_blocks_used": 5 * INFO.kv_blocks_total}, "kv_blocks_used is 5120 of 1024"),
        ({"kv_blocks_used": -1}, "kv_blocks_used is -1"),
        ({"kv_blocks_total": 1023}, "kv_blocks_total is 1023, at the session's begin 1024"),
        ({"running": 1000}, "running is 1000, with a max_batch_size of 8"),
        ({"running": -3}, "running is -3"),
        ({"waiting": 0xFFFF_FFFF}, "waiting is 4294967295"),
        ({"waiting": -1}, "waiting is -1"),
        ({"prefill_tokens": 1 << 63}, "prefill_tokens is"),
        ({"tokens_in_flight": -5}, "tokens_in_flight is -5"),
        ({"prefill_pairs": -5}, "prefill_pairs"),
        ({"kv_blocks_reserved": -5}, "kv_blocks_reserved"),
        ({"workers": 1 << 31}, "workers is"),
        ({"steps": -1}, "steps"),
    ],
)
def test_the_impossible_is_named(fields: dict[str, Any], named: str) -> None:
    assert named in LoadBounds(INFO).problem(structs.replace(SOUND, **fields))


@given(
    running=st.integers(0, 8),
    waiting=st.integers(0, 10_000),
    used=st.integers(0, 1024),
    tokens=st.integers(0, 10**9),
    steps=st.integers(0, 2**63),
)
def test_what_an_engine_may_hold_is_no_nonsense(running: int, waiting: int, used: int, tokens: int, steps: int) -> None:
    load = Load(running, waiting, used, 1024, tokens, False, tokens, 64, used, tokens * 1000, steps)
    assert LoadBounds(INFO).problem(load) == ""


def test_what_is_not_known_is_no_nonsense() -> None:
    assert LoadBounds(structs.replace(INFO, max_batch_size=0)).problem(Load(running=500, kv_blocks_used=7)) == ""
    assert LoadBounds(INFO).problem(Load()) == ""


def test_an_update_of_more_blocks_than_could_be() -> None:
    assert update_problem(KvUpdate(1, True, range(1024), range(1024)), INFO) == ""
    assert "100000 blocks of 1024" in update_problem(KvUpdate(1, stored=range(50_000), removed=range(50_000)), INFO)
