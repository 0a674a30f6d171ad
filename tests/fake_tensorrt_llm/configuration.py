"""Configuration classes; like the real ones they refuse what they do not know."""

import enum
from dataclasses import dataclass, field
from datetime import timedelta

#: Arguments that LLM takes besides `model`; those of TorchLlmArgs that matter here, all others are refused.
LLM_ARGUMENTS = frozenset(
    {
        "_mpi_session",
        "cache_transceiver_config",
        "context_parallel_size",
        "cp_config",
        "disable_overlap_scheduler",
        "dtype",
        "enable_attention_dp",
        "enable_chunked_prefill",
        "enable_iter_perf_stats",
        "enable_lora",
        "guided_decoding_backend",
        "kv_cache_config",
        "lora_config",
        "max_batch_size",
        "max_num_tokens",
        "max_seq_len",
        "moe_cluster_parallel_size",
        "moe_expert_parallel_size",
        "moe_tensor_parallel_size",
        "pipeline_parallel_size",
        "return_perf_metrics",
        "revision",
        "scheduler_config",
        "skip_tokenizer_init",
        "stream_interval",
        "tensor_parallel_size",
        "tokenizer",
        "tokenizer_mode",
        "tokenizer_revision",
        "trust_remote_code",
    }
)


class CapacitySchedulerPolicy(enum.StrEnum):
    MAX_UTILIZATION = "MAX_UTILIZATION"
    GUARANTEED_NO_EVICT = "GUARANTEED_NO_EVICT"
    STATIC_BATCH = "STATIC_BATCH"


class ContextChunkingPolicy(enum.StrEnum):
    FIRST_COME_FIRST_SERVED = "FIRST_COME_FIRST_SERVED"
    EQUAL_PROGRESS = "EQUAL_PROGRESS"


@dataclass(kw_only=True)
class SchedulerConfig:
    capacity_scheduler_policy: CapacitySchedulerPolicy = CapacitySchedulerPolicy.GUARANTEED_NO_EVICT
    context_chunking_policy: ContextChunkingPolicy | None = None


@dataclass(kw_only=True)
class KvCacheConfig:
    enable_block_reuse: bool = True
    enable_partial_reuse: bool = True
    copy_on_partial_reuse: bool = True
    max_tokens: int | None = None
    free_gpu_memory_fraction: float | None = 0.9
    host_cache_size: int | None = None
    event_buffer_max_size: int = 0
    tokens_per_block: int = 32
    dtype: str = "auto"


@dataclass(kw_only=True)
class CacheTransceiverConfig:
    backend: str | None = None
    max_tokens_in_buffer: int | None = None
    kv_transfer_timeout_ms: int | None = None


@dataclass(kw_only=True)
class LoraConfig:
    lora_dir: list[str] = field(default_factory=list)
    lora_ckpt_source: str = "hf"
    lora_target_modules: list[str] = field(default_factory=list)
    max_lora_rank: int = 64
    max_loras: int | None = None
    max_cpu_loras: int | None = None

    def __post_init__(self) -> None:
        assert len(self.lora_dir) == 1 or self.lora_target_modules, "Expecting at least one lora target module"


class KvCacheRetentionConfig:
    @dataclass
    class TokenRangeRetentionConfig:
        token_start: int
        token_end: int | None = None
        priority: int = 35
        duration_ms: timedelta | None = None

    def __init__(
        self,
        token_range_retention_configs: list["KvCacheRetentionConfig.TokenRangeRetentionConfig"],
        decode_retention_priority: int = 35,
        decode_duration_ms: timedelta | None = None,
    ) -> None:
        for each in (*(r.duration_ms for r in token_range_retention_configs), decode_duration_ms):
            assert each is None or isinstance(each, timedelta)  # the binding takes nothing else
        self.ranges = token_range_retention_configs
        self.decode_retention_priority = decode_retention_priority
        self.decode_duration_ms = decode_duration_ms
