"""The manifest of tensorrt_llm names that the engine uses: pure data, checked against a real wheel (signatures.py).

It holds for the sources of `KNOWN`, read in NVIDIA/TensorRT-LLM on GitHub. The compiled bindings
(KvCacheRetentionConfig, the statistics' and events' fields) have no source in a wheel to check against.
"""

from dataclasses import dataclass

#: Commits at which the sources were read, from the time of 1.0 to 1.3; not releases.
KNOWN = {
    "tensorrt_llm/llmapi/llm.py": "4c05a74891e4",
    "tensorrt_llm/llmapi/llm_args.py": "7b437aaa73bf",
    "tensorrt_llm/llmapi/utils.py": "cc4777e94dda",
    "tensorrt_llm/executor/base_worker.py": "7b437aaa73bf",
    "tensorrt_llm/executor/executor.py": "ed53795b33fc",
    "tensorrt_llm/executor/request.py": "4ce835a571f8",
    "tensorrt_llm/executor/result.py": "a678b91aafbe",
    "tensorrt_llm/executor/utils.py": "7b437aaa73bf",
    "tensorrt_llm/sampling_params.py": "a98a9061d72f",
    "tensorrt_llm/disaggregated_params.py": "01009a33a704",
}


@dataclass(frozen=True, slots=True)
class Signature:
    """A function or class and the keywords it is called with; for a class, its fields or its constructor's.

    `at` are its possible locations as `module:qualified.name`; the first that exists counts. `attributes` are read or
    called on it. `optional`: versions without it work too.
    """

    at: tuple[str, ...]
    keywords: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    optional: bool = False


_ARGS = "tensorrt_llm.llmapi.llm_args"
_LLM = ("tensorrt_llm.llmapi.llm:BaseLLM", "tensorrt_llm.llmapi.llm:LLM")

MANIFEST: tuple[Signature, ...] = (
    Signature(
        tuple(f"{each}.__init__" for each in _LLM),
        keywords=("model", "tokenizer", "skip_tokenizer_init", "trust_remote_code", "tensor_parallel_size", "dtype"),
    ),
    Signature(
        tuple(f"{each}.generate_async" for each in _LLM),
        keywords=(
            "inputs",
            "sampling_params",
            "lora_request",
            "streaming",
            "kv_cache_retention_config",
            "disaggregated_params",
            "cache_salt",
        ),
    ),
    Signature(tuple(f"{each}.generate_async" for each in _LLM), keywords=("trace_headers",), optional=True),
    Signature(tuple(f"{each}.get_stats_async" for each in _LLM), keywords=("timeout",)),
    Signature(tuple(f"{each}.get_kv_cache_events_async" for each in _LLM), keywords=("timeout",)),
    Signature(tuple(f"{each}.shutdown" for each in _LLM)),
    Signature(_LLM, attributes=("_executor",)),
    Signature(
        (f"{_ARGS}:TorchLlmArgs",),
        keywords=(
            "pipeline_parallel_size",
            "context_parallel_size",
            "moe_expert_parallel_size",
            "moe_tensor_parallel_size",
            "enable_attention_dp",
            "enable_lora",
            "lora_config",
            "kv_cache_config",
            "scheduler_config",
            "cache_transceiver_config",
            "guided_decoding_backend",
            "enable_chunked_prefill",
            "enable_iter_perf_stats",
            "return_perf_metrics",
            "stream_interval",
            "disable_overlap_scheduler",
            "max_batch_size",
            "max_num_tokens",
            "max_seq_len",
        ),
    ),
    Signature((f"{_ARGS}:BaseLlmArgs", f"{_ARGS}:TorchLlmArgs"), keywords=("mpi_session",), optional=True),
    Signature(("tensorrt_llm.llmapi.mpi_session:MpiPoolSession.__init__",), keywords=("n_workers",), optional=True),
    Signature(
        ("tensorrt_llm.llmapi.mpi_session:MpiPoolSession",), attributes=("submit_sync", "shutdown"), optional=True
    ),
    Signature(
        (f"{_ARGS}:KvCacheConfig",),
        keywords=(
            "enable_block_reuse",
            "free_gpu_memory_fraction",
            "max_tokens",
            "host_cache_size",
            "event_buffer_max_size",
            "tokens_per_block",
            "dtype",
        ),
    ),
    Signature((f"{_ARGS}:SchedulerConfig",), keywords=("capacity_scheduler_policy", "context_chunking_policy")),
    Signature(
        (f"{_ARGS}:CapacitySchedulerPolicy",),
        attributes=("GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH"),
    ),
    Signature((f"{_ARGS}:ContextChunkingPolicy",), attributes=("FIRST_COME_FIRST_SERVED", "EQUAL_PROGRESS")),
    Signature((f"{_ARGS}:CacheTransceiverConfig",), keywords=("backend", "max_tokens_in_buffer")),
    Signature(
        ("tensorrt_llm.lora_helper:LoraConfig", "tensorrt_llm.lora_manager:LoraConfig"),
        keywords=("lora_target_modules", "max_lora_rank", "max_loras", "max_cpu_loras"),
    ),
    Signature(
        ("tensorrt_llm.sampling_params:SamplingParams",),
        keywords=(
            "end_id",
            "pad_id",
            "max_tokens",
            "stop_token_ids",
            "embedding_bias",
            "top_k",
            "top_p",
            "min_p",
            "seed",
            "temperature",
            "min_tokens",
            "repetition_penalty",
            "presence_penalty",
            "frequency_penalty",
            "logprobs",
            "return_context_logits",
            "guided_decoding",
            "ignore_eos",
            "detokenize",
        ),
    ),
    Signature(
        ("tensorrt_llm.sampling_params:GuidedDecodingParams",),
        keywords=("json", "regex", "grammar", "json_object", "structural_tag"),
    ),
    Signature(
        ("tensorrt_llm.disaggregated_params:DisaggregatedParams",),
        keywords=("request_type", "first_gen_tokens", "ctx_request_id", "opaque_state", "draft_tokens"),
    ),
    Signature(
        ("tensorrt_llm.disaggregated_params:DisaggregatedParams",),
        keywords=("disagg_request_id", "ctx_dp_rank", "ctx_info_endpoint"),
        optional=True,
    ),
    Signature(
        ("tensorrt_llm.executor.request:LoRARequest",),
        keywords=("lora_name", "lora_int_id", "lora_path"),
    ),
    Signature(("tensorrt_llm.executor.utils:RequestError",)),
    Signature(("tensorrt_llm.executor.executor:GenerationExecutor",), attributes=("is_shutdown", "shutdown")),
    Signature(("tensorrt_llm.executor.result:GenerationResult",), attributes=("abort", "finished", "__aiter__")),
    Signature(
        ("tensorrt_llm.executor.result:GenerationResultBase",),
        attributes=("outputs", "cached_tokens", "context_logits"),
    ),
    Signature(
        ("tensorrt_llm.executor.result:CompletionOutput",),
        attributes=("token_ids", "logprobs", "finish_reason", "disaggregated_params", "request_perf_metrics"),
    ),
    Signature(("tensorrt_llm.executor.result:Logprob",), attributes=("logprob",)),
    Signature(("tensorrt_llm.executor.result:IterationResult",), attributes=("mark_undone",), optional=True),
)
