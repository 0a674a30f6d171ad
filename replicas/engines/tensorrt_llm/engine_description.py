"""The description of a replica with this engine."""

from protos.features import Feature
from protos.types import ReplicaInfo
from replicas.engines.tensorrt_llm.options import Options, SchedulerPolicy


def describe(options: Options, library_version: str, kv_blocks_total: int) -> ReplicaInfo:
    """Return the replica's info; its fingerprint has all that may change an answer: model, versions and shape."""
    shape = options.shape
    degrees = (("tp", shape.tp), ("ep", shape.ep), ("pp", shape.pp), ("cp", options.context_parallel))
    parts = [
        "trtllm",
        library_version,
        options.model,
        options.version,
        *(f"{name}{degree}" for name, degree in degrees if degree > 1 or name == "tp"),
        "adp" if options.attention_dp else "",
    ]
    features = Feature.TOKENS | Feature.PROMPT_LOGPROBS
    if options.vocab_size is None:
        features &= ~Feature.LOGIT_BIAS
    if options.guided_backend is not None:
        features |= Feature.GUIDED
    if options.lora is not None:
        features |= Feature.LORA
    return ReplicaInfo(
        model=options.model,
        engine="tensorrt_llm",
        fingerprint="-".join(part for part in parts if part),
        shape=shape,
        role=options.role,
        max_batch_size=options.max_batch_size,
        max_sequence_tokens=options.max_sequence_tokens,
        kv_block_tokens=options.kv.tokens_per_block,
        kv_blocks_total=kv_blocks_total,
        max_num_tokens=options.max_num_tokens,
        reserves_output=options.scheduler is not SchedulerPolicy.MAX_UTILIZATION,
        version=options.version,
        tokenizer_hash=options.tokenizer_hash,
        features=features,
        adapters=tuple(sorted(options.lora.paths)) if options.lora else (),
    )
