"""What engines' own metrics say of their load."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.types import Load
from routing.transports.openai.scrape import KINDS, Scrape, scraped
from routing.transports.prometheus import samples

VLLM = """
vllm:num_requests_running{engine="0"} 3
vllm:num_requests_running{engine="1"} 4
vllm:num_requests_waiting{engine="0"} 1
vllm:num_requests_waiting{engine="1"} 0
vllm:gpu_cache_usage_perc{engine="0"} 0.2
vllm:gpu_cache_usage_perc{engine="1"} 0.4
vllm:cache_config_info{block_size="16",num_gpu_blocks="1000"} 1
"""
SGLANG = """
sglang:num_running_reqs{model_name="m"} 3
sglang:num_queue_reqs{model_name="m"} 2
sglang:token_usage{model_name="m"} 0.5
sglang:max_total_num_tokens{model_name="m"} 10000
"""
TRTLLM = """
trtllm_num_requests_running 5
trtllm_num_requests_waiting 1
trtllm_kv_cache_utilization 0.25
trtllm_kv_cache_max_blocks 400
trtllm_kv_cache_tokens_per_block 32
"""


TRITON = """
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 5
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 1
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="tensorrt_llm",version="1"} 100
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm",version="1"} 400
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="tensorrt_llm",version="1"} 32
"""


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("triton", TRITON, Scrape(Load(5, 1, 100, 400, 3200, workers=1), 32)),
        ("vllm", VLLM, Scrape(Load(7, 1, 300, 1000, 4800, workers=1), 16)),
        ("sglang", SGLANG, Scrape(Load(3, 2, 5000, 10000, 5000, workers=1), 1)),
        ("trtllm", TRTLLM, Scrape(Load(5, 1, 100, 400, 3200, workers=1), 32)),
    ],
)
def test_each_engine(kind: str, text: str, expected: Scrape) -> None:
    assert scraped(samples(text), kind) == expected
    assert scraped(samples(text), "auto") == expected
    for other in {*KINDS, "triton"} - {kind}:
        assert scraped(samples(text), other) is None


def test_a_cache_of_unknown_size_is_not_spoken_of() -> None:
    text = "vllm:num_requests_running 3\nvllm:kv_cache_usage_perc 0.5\n"
    assert scraped(samples(text), "auto") == Scrape(Load(running=3, workers=1), 0)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e300"])
def test_impossible_values_count_as_left_out(value: str) -> None:
    assert scraped(samples(f"vllm:num_requests_running {value}\n"), "auto") is None


@given(st.text())
def test_anything_else_says_nothing_or_something_possible(text: str) -> None:
    found = scraped(samples(VLLM + text), "auto")
    assert found is not None
    assert 0 <= found.load.kv_blocks_used <= found.load.kv_blocks_total
