"""A pool's engine: parallel shape, simulated engine and TLS."""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from gateway.config.base import Record
from gateway.config.models.adapters import ADAPTER_NAME
from protos.types import Shape

Preparation = Literal["all", "pod", "engine", "page_cache", "fork", "slow_fork", "kv_sizes", "dummy_request"]
EngineName = Literal["simulated", "tensorrt_llm", "trtllm_grpc", "triton", "openai"]


class PoolShape(Record, frozen=True, kw_only=True):
    """How each replica of a pool is spread over GPUs."""

    tp: Annotated[int, Meta(ge=1, le=1024, description="Tensor parallel degree.")] = 1
    ep: Annotated[
        int,
        Meta(
            ge=1,
            le=1024,
            description="Expert parallel degree. It splits the tensor parallel group, so it must divide `tp` "
            "and adds no GPUs.",
        ),
    ] = 1
    pp: Annotated[int, Meta(ge=1, le=1024, description="Pipeline parallel degree.")] = 1

    @property
    def value(self) -> Shape:
        """The shape as a `Shape`."""
        return Shape(tp=self.tp, ep=self.ep, pp=self.pp)


class SimulatedEngine(Record, frozen=True, kw_only=True):
    """The simulated engine's pace and output, for replicas that this machine starts."""

    profile: Annotated[
        Literal["mixtral-8x7b", "llama-3.1-70b", "llama-3.1-8b", "qwen2.5-32b", "qwen2.5-32b-bf16"] | None,
        Meta(
            description="Published model whose speed and KV cache are imitated; unset: the one of the model's name, or "
            "`mixtral-8x7b`."
        ),
    ] = None
    speed: Annotated[
        float,
        Meta(gt=0, le=100_000, description="How many times faster than the modelled hardware the engine runs."),
    ] = 1.0
    instant: Annotated[
        bool,
        Meta(description="Steps take no time at all, to measure the gateway alone."),
    ] = False
    pace_ms: Annotated[
        Annotated[float, Meta(gt=0, le=60_000)] | None,
        Meta(description="Every step takes this long, whatever it holds, in milliseconds; unset: as modelled."),
    ] = None
    output_tokens: Annotated[
        Annotated[int, Meta(ge=1, le=10_000_000)] | None,
        Meta(
            description="Every answer has exactly this many tokens, unless the request's limit is lower; unset: varied."
        ),
    ] = None
    answers: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(
            description='File of answers word for word, a line of JSON each: `{"contains": TEXT, "answer": TEXT}`. The '
            "first line whose text the prompt contains has its answer; unset, or without one: the engine's own text. "
            "Relative to this file's folder."
        ),
    ] = None
    start: Annotated[
        tuple[Preparation, ...] | None,
        Meta(
            description="A start takes time, as modelled (and divided by `speed`), with these prepared: `[]` none, "
            "`[all]` all of them. A pod and a process that wait, weights in main memory or forked from another replica "
            "over a fast or slow link, a known KV cache size, a dummy request. Unset: it takes none. Only where a "
            "launcher starts the replicas."
        ),
    ] = None
    scheduler: Annotated[
        Literal["guaranteed_no_evict", "max_utilization"],
        Meta(
            description="TensorRT-LLM's capacity policy: `guaranteed_no_evict` starts a request only when its longest "
            "answer fits in the KV cache; `max_utilization` fills the cache and may pause requests."
        ),
    ] = "guaranteed_no_evict"
    adapters: Annotated[
        tuple[Annotated[str, Meta(pattern=ADAPTER_NAME)], ...],
        Meta(max_length=4096, description="LoRA adapters that the replicas know by name; needs `max_adapters`."),
    ] = ()
    max_adapters: Annotated[
        int,
        Meta(ge=0, le=4096, description="LoRA adapters that each replica has loaded at a time; 0: it runs none."),
    ] = 0


class PoolTls(Record, frozen=True, kw_only=True):
    """TLS to the replicas of a pool. Files are relative to this file's folder, and read anew when they change."""

    ca: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(description="PEM file of the authorities that replicas' certificates come from; unset: the system's."),
    ] = None
    certificate: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(description="PEM file of the certificate that the gateway shows to replicas; needs `key`."),
    ] = None
    key: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(description="PEM file of that certificate's private key."),
    ] = None
    server_name: Annotated[
        Annotated[str, Meta(min_length=1, max_length=253)] | None,
        Meta(description="Name that replicas' certificates are for; unset: the host of the replica's address."),
    ] = None

    def path(self, name: Literal["ca", "certificate", "key"]) -> Path | None:
        """The absolute path of one of the files in a loaded configuration, or None."""
        value: str | None = getattr(self, name)
        return None if value is None else Path(value)
