"""The options of one engine."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from protos.types import Role, Shape

#: TensorRT-LLM's default priority of a KV block, and the bounds.
DEFAULT_PRIORITY = 35
MAX_PRIORITY = 100
#: The modules that most adapters change.
LORA_MODULES = ("attn_q", "attn_k", "attn_v", "attn_dense")
#: Bound on KV events that wait to be read, if the engine sends any.
EVENT_BUFFER = 65536


class SchedulerPolicy(enum.Enum):
    """How the engine admits requests: for the worst case, for now, or a whole batch at a time."""

    GUARANTEED_NO_EVICT = "GUARANTEED_NO_EVICT"
    MAX_UTILIZATION = "MAX_UTILIZATION"
    STATIC_BATCH = "STATIC_BATCH"


class ChunkingPolicy(enum.Enum):
    """The order in which a chunked prefill continues prompts."""

    FIRST_COME_FIRST_SERVED = "FIRST_COME_FIRST_SERVED"
    EQUAL_PROGRESS = "EQUAL_PROGRESS"


@dataclass(frozen=True, slots=True)
class KvOptions:
    """Options of the KV cache: `max_tokens`, `host_bytes` of main memory behind the GPU's; None: library default.

    `profiled` False: the library does not run the model to find out how much memory is left; `max_tokens` says it.
    """

    block_reuse: bool = True
    free_memory_fraction: float = 0.9
    max_tokens: int | None = None
    host_bytes: int | None = None
    tokens_per_block: int = 32
    dtype: str = "auto"
    event_buffer: int = EVENT_BUFFER
    profiled: bool = True

    def __post_init__(self) -> None:
        if not self.profiled and self.max_tokens is None:
            raise ValueError("without profiling nothing says how large the KV cache is: give its tokens")
        if not 0 < self.free_memory_fraction <= 1:
            raise ValueError("the fraction of free GPU memory is above 0 and at most 1")
        if self.tokens_per_block < 1 or self.event_buffer < 0 or (self.host_bytes or 0) < 0:
            raise ValueError("KV block size, event buffer and host cache cannot be negative")

    @property
    def events(self) -> bool:
        """Whether the library sends events: only with block reuse."""
        return self.block_reuse and self.event_buffer > 0


@dataclass(frozen=True, slots=True)
class Retention:
    """Retention of KV blocks of prompts and answers: priority (0 to 100) and duration in milliseconds."""

    prompt_priority: int | None = None
    prompt_ms: int | None = None
    decode_priority: int | None = None
    decode_ms: int | None = None

    def __post_init__(self) -> None:
        for priority in (self.prompt_priority, self.decode_priority):
            if priority is not None and not 0 <= priority <= MAX_PRIORITY:
                raise ValueError(f"a retention priority is between 0 and {MAX_PRIORITY}")
        if self.prompt_ms is not None and self.prompt_priority is None:
            raise ValueError("a prompt's retention time needs a priority")
        if self.decode_ms is not None and self.decode_priority is None:
            raise ValueError("an answer's retention time needs a priority")

    def __bool__(self) -> bool:
        return self.prompt_priority is not None or self.decode_priority is not None


@dataclass(frozen=True, slots=True)
class LoraOptions:
    """Options of LoRA: adapters' paths by name, and how many fit on the GPU and in main memory.

    `modules` are all modules that any adapter changes, by the library's names.
    """

    paths: Mapping[str, str] = field(default_factory=dict)
    modules: tuple[str, ...] = LORA_MODULES
    max_rank: int = 64
    on_gpu: int = 8
    in_memory: int = 64


@dataclass(frozen=True, slots=True)
class Options:
    """All options. `checkpoint` is the weights' folder or hub name, `model` the gateway's name of the model.

    `end_ids` end an answer; the first of them is the library's end_id. `extra` is passed to the LLM as it is and
    overrides the rest. Times are in seconds; `look_seconds` is how long the start waits for statistics and KV events of
    its own request. Raises ValueError for contradictory options.
    """

    model: str
    checkpoint: str
    max_sequence_tokens: int
    end_ids: tuple[int, ...]
    shape: Shape = field(default_factory=Shape)
    role: Role = Role.BOTH
    context_parallel: int = 1
    moe_tp: int | None = None
    attention_dp: bool = False
    tokenizer: str | None = None
    dtype: str = "auto"
    trust_remote_code: bool = False
    kv: KvOptions = field(default_factory=KvOptions)
    scheduler: SchedulerPolicy = SchedulerPolicy.GUARANTEED_NO_EVICT
    chunking: ChunkingPolicy | None = None
    chunked_prefill: bool = True
    max_batch_size: int = 2048
    max_num_tokens: int = 8192
    stream_interval: int = 1
    guided_backend: str | None = None
    lora: LoraOptions | None = None
    retention: Retention = field(default_factory=Retention)
    transceiver: str | None = None
    transceiver_tokens: int | None = None
    vocab_size: int | None = None
    version: str = ""
    tokenizer_hash: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    warmup_seconds: float = 600.0
    look_seconds: float = 0.5
    probe_seconds: float = 30.0
    probe_timeout_seconds: float = 60.0

    def __post_init__(self) -> None:
        if not self.end_ids:
            raise ValueError("no token ends an answer: the tokenizer names none, so one must be given")
        if self.chunking is not None and not self.chunked_prefill:
            raise ValueError("a chunking policy needs chunked prefill")
        if not 1 <= self.max_batch_size <= self.max_num_tokens:
            raise ValueError("max_batch_size must be at least 1 and at most max_num_tokens")
        if self.shape.tp % self.shape.ep:
            raise ValueError(f"expert parallelism of {self.shape.ep} does not divide {self.shape.tp} GPUs")
        if self.moe_tp is not None and self.moe_tp * self.shape.ep != self.shape.tp:
            raise ValueError("moe_tp times ep must be tp")

    @property
    def hands_over(self) -> bool:
        """Whether KV caches are transferred to or from other replicas."""
        return self.role is not Role.BOTH or self.transceiver is not None

    @property
    def longest_prompt(self) -> int:
        """Longest prompt in tokens: the context less one, or what fits into one step."""
        longest = self.max_sequence_tokens - 1
        return longest if self.chunked_prefill else min(longest, self.max_num_tokens * self.context_parallel)
