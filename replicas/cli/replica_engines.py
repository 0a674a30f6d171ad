"""Makes the engines of `penstock replica` from its options."""

import argparse
import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from protos.script import read_script
from protos.types import Role, Shape
from replicas.cli.model_tokenizer import LoadTokenizer, NoTokenizer
from replicas.cli.simulated_options import add_simulated_options
from replicas.cli.trtllm_options import adapter_paths, add_trtllm_options, kv_arguments, retention_arguments
from replicas.fast_start.preparations import preparation

if TYPE_CHECKING:
    from replicas.engine import Engine
    from replicas.engines.simulated import SimulatedEngine
    from replicas.engines.tensorrt_llm.waiting_workers import WaitingWorkers

_OPTIONS: Final[Mapping[str, Callable[[argparse.ArgumentParser], None]]] = {
    "simulated": add_simulated_options,
    "tensorrt_llm": add_trtllm_options,
}
#: Default tokenizer of a simulated engine.
SIMULATED_TOKENIZER = "mistral-tekken"


def engines_of(arguments: argparse.Namespace, load_tokenizer: LoadTokenizer) -> "list[tuple[str, Engine]]":
    """Return (address, engine) pairs, not started. Raises ValueError with what is wrong with the options."""
    _refuse_foreign(arguments)
    if arguments.engine == "tensorrt_llm":
        return [(arguments.listen[0], _tensorrt_llm(arguments, load_tokenizer))]
    return _simulated(arguments, load_tokenizer)


def prepare(engine: str, load_tokenizer: LoadTokenizer) -> "WaitingWorkers | None":
    """Load what every replica with this engine needs, whatever its model; return processes of it. Raises ValueError."""
    from replicas import replica_server  # noqa: F401  # the server's libraries

    if engine == "tensorrt_llm":
        from replicas.engines.tensorrt_llm import trtllm_engine  # noqa: F401
        from replicas.engines.tensorrt_llm.library import load_library
        from replicas.engines.tensorrt_llm.waiting_workers import start_workers, visible_gpus

        return start_workers(load_library(), visible_gpus())
    from replicas.engines import simulated, simulated_start  # noqa: F401

    with contextlib.suppress(NoTokenizer):
        load_tokenizer(SIMULATED_TOKENIZER)
    return None


def _refuse_foreign(arguments: argparse.Namespace) -> None:
    """Refuse options of another engine, which would have no effect. Raises ValueError."""
    for engine, add in _OPTIONS.items():
        alone = argparse.ArgumentParser()
        add(alone)
        for name, unset in vars(alone.parse_args([])).items():
            if engine != arguments.engine and getattr(arguments, name) != unset:
                shown = "cp" if name == "context_parallel" else name.replace("_", "-")
                raise ValueError(f"--{shown} is for --engine {engine}")


def _shape(arguments: argparse.Namespace) -> Shape:
    return Shape(tp=arguments.tp, ep=arguments.ep, pp=arguments.pp)


def _simulated(arguments: argparse.Namespace, load_tokenizer: LoadTokenizer) -> "list[tuple[str, Engine]]":
    """Make one engine per address, all with the same corpus."""
    from replicas.engine_limits import CapacityPolicy
    from replicas.engines.answer_lengths import Corpus, corpus_sentences
    from replicas.engines.reshapable_engine import ReshapableEngine
    from replicas.engines.simulated import SimulatedEngine
    from replicas.engines.vocabulary import Vocabulary

    policy = arguments.scheduler.upper()
    if policy not in CapacityPolicy.__members__:
        raise ValueError(f"the simulated engine has no scheduler {arguments.scheduler}")
    if arguments.adapter and not arguments.max_adapters:
        raise ValueError("--adapter of the simulated engine needs --max-adapters")
    tokenizer = load_tokenizer(arguments.tokenizer or SIMULATED_TOKENIZER)
    end = min(tokenizer.eos_ids, default=0)
    vocabulary = Vocabulary(
        tokenizer.vocab_size,
        end,
        tokenizer.token_bytes,
        encode=lambda text: tokenizer.encode(text, False),
        encode_marked=lambda text: tokenizer.encode(text, True),
        specials=tokenizer.specials,
    )
    script = () if arguments.answers is None else read_script(arguments.answers)
    corpus = Corpus(
        sentences=tuple(tuple(tokenizer.encode(line + " ", False)) for line in corpus_sentences()),
        eos=end,
    )

    # What can change its shape costs a step a little more.
    kind: Callable[..., SimulatedEngine] = SimulatedEngine
    if arguments.group is not None:
        kind = partial(ReshapableEngine, gpus=arguments.group_gpus)

    def make() -> SimulatedEngine:
        return kind(
            model=arguments.model,
            profile=arguments.profile,
            corpus=corpus,
            shape=_shape(arguments),
            role=Role(arguments.role),
            policy=CapacityPolicy[policy],
            speed=arguments.speed,
            instant=arguments.instant,
            pace_seconds=None if arguments.pace_ms is None else arguments.pace_ms / 1000,
            output_tokens=arguments.output_tokens,
            max_batch_size=arguments.slots,
            max_sequence_tokens=arguments.max_sequence_tokens,
            adapters=tuple(each.partition("=")[0] for each in arguments.adapter),
            max_adapters=arguments.max_adapters,
            version=arguments.model_version,
            tokenizer_hash=tokenizer.identity,
            vocabulary=vocabulary,
            script=script,
        )

    return [(address, _starting(arguments, make())) for address in arguments.listen]


def _starting(arguments: argparse.Namespace, engine: "SimulatedEngine") -> "Engine":
    """Return the engine, with a start that takes time where that is asked for."""
    if arguments.simulate_start is None:
        return engine
    from replicas.engines.simulated_start import SimulatedStart
    from replicas.fast_start.start_model import StartModel

    prepared = preparation(arguments.simulate_start)
    if arguments.stood_by:
        prepared = replace(prepared, engine=True)
    times = StartModel(engine.profile, engine.info.shape).times(prepared)
    return SimulatedStart(engine, times, dummy_request=prepared.dummy_request, speed=arguments.speed)


def _tensorrt_llm(arguments: argparse.Namespace, load_tokenizer: LoadTokenizer) -> "Engine":
    """Make one engine, which fills the GPUs that the process sees."""
    from replicas.engines.tensorrt_llm.library import load_library
    from replicas.engines.tensorrt_llm.options import (
        LORA_MODULES,
        ChunkingPolicy,
        KvOptions,
        LoraOptions,
        Options,
        Retention,
        SchedulerPolicy,
    )
    from replicas.engines.tensorrt_llm.trtllm_engine import TensorRtLlmEngine

    if len(arguments.listen) > 1:
        raise ValueError("an engine of TensorRT-LLM has a process of its own: give one address")
    checkpoint = arguments.checkpoint or arguments.model
    end_ids, vocabulary, identity = _vocabulary(arguments, checkpoint, load_tokenizer)
    lora = None
    if arguments.lora or arguments.adapter:
        lora = LoraOptions(
            adapter_paths(arguments.adapter),
            modules=tuple(arguments.lora_module or LORA_MODULES),
            max_rank=arguments.lora_rank,
            on_gpu=arguments.lora_on_gpu,
            in_memory=arguments.lora_in_memory,
        )
    given: dict[str, Any] = {
        name: getattr(arguments, name) for name in _SAME_NAME if getattr(arguments, name) is not None
    }
    options = Options(
        checkpoint=checkpoint,
        max_sequence_tokens=arguments.max_sequence_tokens or _context(checkpoint),
        end_ids=end_ids,
        shape=_shape(arguments),
        role=Role(arguments.role),
        tokenizer=arguments.tokenizer,
        kv=KvOptions(**kv_arguments(arguments)),
        scheduler=SchedulerPolicy[arguments.scheduler.upper()],
        chunking=ChunkingPolicy[arguments.chunking.upper()] if arguments.chunking else None,
        chunked_prefill=not arguments.no_chunked_prefill,
        lora=lora,
        retention=Retention(**retention_arguments(arguments)),
        vocab_size=vocabulary,
        version=arguments.model_version,
        tokenizer_hash=identity,
        extra=dict(arguments.llm_option),
        **given,
    )
    return TensorRtLlmEngine(options, load_library(), workers=arguments.workers)


#: Options of the command that the engine has under the same name; unset, the engine's own defaults hold.
_SAME_NAME = (
    "model",
    "context_parallel",
    "moe_tp",
    "attention_dp",
    "dtype",
    "trust_remote_code",
    "max_batch_size",
    "max_num_tokens",
    "stream_interval",
    "guided_backend",
    "transceiver",
    "transceiver_tokens",
    "warmup_seconds",
    "probe_seconds",
    "probe_timeout_seconds",
)


def _vocabulary(
    arguments: argparse.Namespace, checkpoint: str, load_tokenizer: LoadTokenizer
) -> tuple[tuple[int, ...], int | None, str]:
    """Return the end tokens, the vocabulary's size if known, and the tokenizer's hash."""
    source = arguments.tokenizer or checkpoint
    chosen = tuple(arguments.end_id)
    try:
        tokenizer = load_tokenizer(source)
    except NoTokenizer as error:
        if not chosen:
            raise ValueError(
                f"no tokenizer: {error}; give --checkpoint or --tokenizer a folder that has one, or --end-id"
            ) from error
        return chosen, None, ""
    return chosen or tuple(sorted(tokenizer.eos_ids)), tokenizer.vocab_size, tokenizer.identity


def _context(checkpoint: str) -> int:
    """Return the context length from the checkpoint's configuration. Raises ValueError where it has none."""
    try:
        found = json.loads((Path(checkpoint) / "config.json").read_text(encoding="utf-8"))
        return int(found.get("text_config", found)["max_position_embeddings"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{checkpoint} does not say how long its context is; give --max-sequence-tokens") from error
