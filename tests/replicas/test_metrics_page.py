"""Replicas' gauges under the names of trtllm-serve, and who reads them."""

import asyncio

import httpx

from protos.types import Load
from replicas.engine import Engine
from replicas.metrics_page import metrics_page
from replicas.serve_pool import serve_pool
from routing.transports.openai.scrape import scraped
from routing.transports.prometheus import samples
from tests.harness import engine_of
from tests.loops import until
from tests.ports import free_port


def test_a_gateway_reads_the_load_that_the_engine_reports() -> None:
    info = engine_of().info
    load = Load(running=3, waiting=2, kv_blocks_used=50, kv_blocks_total=200)
    found = scraped(samples(metrics_page([("127.0.0.1:1", info, load)])), "trtllm")
    assert found is not None
    assert (found.load.running, found.load.waiting) == (3, 2)
    assert (found.load.kv_blocks_used, found.load.kv_blocks_total) == (50, 200)
    assert found.block_tokens == info.kv_block_tokens


def test_the_names_are_those_of_the_protocol() -> None:
    page = metrics_page([("h:1", engine_of().info, Load())])
    names = {name for name, _, _ in samples(page)}
    assert names == {
        "trtllm_num_requests_waiting",
        "trtllm_num_requests_running",
        "trtllm_kv_cache_utilization",
        "trtllm_kv_cache_tokens_per_block",
        "trtllm_kv_cache_max_blocks",
    }
    assert metrics_page([]) == ""


async def test_they_are_served_where_the_option_says() -> None:
    stop, addresses, port = asyncio.Event(), list[str](), free_port()
    engines: list[tuple[str, Engine]] = [("127.0.0.1:0", engine_of()), ("127.0.0.1:0", engine_of())]
    serving = asyncio.create_task(
        serve_pool(engines, drain_seconds=1, stop=stop, ready=addresses.extend, metrics=("127.0.0.1", port))
    )
    await until(lambda: addresses)
    async with httpx.AsyncClient(trust_env=False) as client:
        page = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
    assert {labels["address"] for name, labels, _ in samples(page) if name.endswith("_running")} == set(addresses)
    stop.set()
    assert await serving == 0
