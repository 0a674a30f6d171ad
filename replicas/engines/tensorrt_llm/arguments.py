"""Converts options to the arguments of the library's LLM."""

from datetime import timedelta
from typing import Any

from protos.types import Role
from replicas.engines.tensorrt_llm.library import Library
from replicas.engines.tensorrt_llm.options import DEFAULT_PRIORITY, Options


def llm_arguments(options: Options, library: Library) -> dict[str, Any]:
    """Return the keywords of `LLM`; only configured ones, since it refuses those that it does not know."""
    shape = options.shape
    arguments: dict[str, Any] = {
        "model": options.checkpoint,
        # Requests are in ids, but a grammar is compiled against the vocabulary.
        "skip_tokenizer_init": options.guided_backend is None,
        "trust_remote_code": options.trust_remote_code,
        "dtype": options.dtype,
        "tensor_parallel_size": shape.tp,
        "pipeline_parallel_size": shape.pp,
        "max_batch_size": options.max_batch_size,
        "max_num_tokens": options.max_num_tokens,
        "max_seq_len": options.max_sequence_tokens,
        "enable_chunked_prefill": options.chunked_prefill,
        "enable_iter_perf_stats": True,
        "return_perf_metrics": True,
        "stream_interval": options.stream_interval,
        "kv_cache_config": _kv_cache(options, library),
        "scheduler_config": _scheduler(options, library),
    }
    optional = {
        "tokenizer": options.tokenizer if options.guided_backend else None,
        "moe_expert_parallel_size": shape.ep if shape.ep > 1 else None,
        "moe_tensor_parallel_size": options.moe_tp,
        "context_parallel_size": options.context_parallel if options.context_parallel > 1 else None,
        "enable_attention_dp": options.attention_dp or None,
        "guided_decoding_backend": options.guided_backend,
        "enable_lora": True if options.lora is not None else None,
        "lora_config": _lora(options, library),
        "cache_transceiver_config": _transceiver(options, library),
        # A prefill replica refuses context-only requests while its scheduler overlaps steps.
        "disable_overlap_scheduler": True if options.role is Role.PREFILL else None,
    }
    arguments |= {name: value for name, value in optional.items() if value is not None}
    return arguments | dict(options.extra)


def retention_config(options: Options, library: Library, prompt_tokens: int) -> Any:
    """Return the retention of a request's blocks; None leaves it to the library."""
    retention = options.retention
    if not retention:
        return None
    config = library.kv_cache_retention_config
    ranges = []
    if retention.prompt_priority is not None:
        ranges = [
            config.TokenRangeRetentionConfig(0, prompt_tokens, retention.prompt_priority, _ms(retention.prompt_ms))
        ]
    decode = DEFAULT_PRIORITY if retention.decode_priority is None else retention.decode_priority
    return config(ranges, decode, _ms(retention.decode_ms))


def _ms(milliseconds: int | None) -> timedelta | None:
    return None if milliseconds is None else timedelta(milliseconds=milliseconds)


def _kv_cache(options: Options, library: Library) -> Any:
    kv = options.kv
    arguments: dict[str, Any] = {
        "enable_block_reuse": kv.block_reuse,
        "free_gpu_memory_fraction": kv.free_memory_fraction,
        "tokens_per_block": kv.tokens_per_block,
        "dtype": kv.dtype,
        "event_buffer_max_size": kv.event_buffer if kv.events else 0,
    }
    if kv.max_tokens is not None:
        arguments["max_tokens"] = kv.max_tokens
    if kv.host_bytes is not None:
        arguments["host_cache_size"] = kv.host_bytes
    return library.kv_cache_config(**arguments)


def _scheduler(options: Options, library: Library) -> Any:
    arguments = {"capacity_scheduler_policy": library.capacity_scheduler_policy[options.scheduler.value]}
    if options.chunking is not None:
        arguments["context_chunking_policy"] = library.context_chunking_policy[options.chunking.value]
    return library.scheduler_config(**arguments)


def _lora(options: Options, library: Library) -> Any:
    lora = options.lora
    if lora is None:
        return None
    return library.lora_config(
        # No folders: a single one would set its own modules and tokenizer, and several need the modules named anyway.
        lora_target_modules=list(lora.modules),
        max_lora_rank=lora.max_rank,
        max_loras=lora.on_gpu,
        max_cpu_loras=lora.in_memory,
    )


def _transceiver(options: Options, library: Library) -> Any:
    if not options.hands_over:
        return None
    arguments: dict[str, Any] = {"backend": options.transceiver or "DEFAULT"}
    if options.transceiver_tokens is not None:
        arguments["max_tokens_in_buffer"] = options.transceiver_tokens
    return library.cache_transceiver_config(**arguments)
