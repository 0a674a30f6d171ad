"""Pure: replicas' load under the names that TensorRT-LLM's own server gives it, for gateways that know those.

Names: model server protocol of the Gateway API Inference Extension, proposal 003, "trtllm-serve".
"""

from collections.abc import Iterable

from observability.exposition import Family, exposition
from protos.types import Load, ReplicaInfo


def metrics_page(replicas: Iterable[tuple[str, ReplicaInfo, Load]]) -> str:
    """Write the gauges of replicas by their addresses, one series each, in Prometheus' text format."""
    waiting = Family("trtllm_num_requests_waiting", "gauge", "Requests that wait in the engine.")
    running = Family("trtllm_num_requests_running", "gauge", "Requests that the engine runs.")
    used = Family("trtllm_kv_cache_utilization", "gauge", "Part of the KV cache's blocks that is in use, 0 to 1.")
    block = Family("trtllm_kv_cache_tokens_per_block", "gauge", "Tokens of one block of the KV cache.")
    blocks = Family("trtllm_kv_cache_max_blocks", "gauge", "Blocks of the KV cache.")
    for address, info, load in replicas:
        labels = {"model_name": info.model, "address": address}
        total = load.kv_blocks_total or info.kv_blocks_total
        waiting.add(load.waiting, **labels)
        running.add(load.running, **labels)
        used.add(min(1.0, load.kv_blocks_used / total) if total else 0.0, **labels)
        block.add(info.kv_block_tokens, **labels)
        blocks.add(total, **labels)
    return exposition([waiting, running, used, block, blocks])
