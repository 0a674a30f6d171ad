"""Loads the names used of the tensorrt_llm package, only when an engine starts.

The package registry's tensorrt_llm is a stub that fetches the real wheel from NVIDIA's own index.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from replicas.engines.tensorrt_llm.trtllm_tags import takes_older_tags

_INSTALL = "pip install 'penstock[tensorrt-llm]'"


class LibraryMissing(ValueError):
    """TensorRT-LLM is not installed, is only the stub, or does not load here."""


@dataclass(frozen=True, slots=True)
class Library:
    """Classes of tensorrt_llm, untyped. `older_tags`: see trtllm_tags.py."""

    version: str
    llm: Any
    sampling_params: Any
    guided_decoding_params: Any
    disaggregated_params: Any
    kv_cache_config: Any
    kv_cache_retention_config: Any
    scheduler_config: Any
    capacity_scheduler_policy: Any
    context_chunking_policy: Any
    cache_transceiver_config: Any
    lora_config: Any
    lora_request: Any
    request_error: type[Exception]
    #: Converts a list of numbers to a torch tensor of 32-bit floats.
    tensor: Callable[[list[float]], Any]
    older_tags: bool
    #: Makes the processes of more than one GPU; None: this version has no such class.
    mpi_pool_session: Any = None


def load_library() -> Library:
    """Import the package. Raises LibraryMissing with what to do about it."""
    try:
        package = importlib.import_module("tensorrt_llm")
    except ImportError as error:
        if error.name == "tensorrt_llm":
            raise LibraryMissing(f"TensorRT-LLM is not installed; it comes with the extra: {_INSTALL}") from error
        raise LibraryMissing(f"TensorRT-LLM does not load on this machine: {error}") from error
    except OSError as error:  # a missing CUDA library
        raise LibraryMissing(f"TensorRT-LLM does not load on this machine: {error}") from error
    if not hasattr(package, "LLM"):
        raise LibraryMissing(f"this tensorrt_llm is the registry's stub and not the real one: {_INSTALL}")
    api = importlib.import_module("tensorrt_llm.llmapi")
    return Library(
        version=str(package.__version__),
        llm=package.LLM,
        sampling_params=package.SamplingParams,
        guided_decoding_params=api.GuidedDecodingParams,
        disaggregated_params=api.DisaggregatedParams,
        kv_cache_config=api.KvCacheConfig,
        kv_cache_retention_config=api.KvCacheRetentionConfig,
        scheduler_config=api.SchedulerConfig,
        capacity_scheduler_policy=api.CapacitySchedulerPolicy,
        context_chunking_policy=api.ContextChunkingPolicy,
        cache_transceiver_config=api.CacheTransceiverConfig,
        lora_config=_first("LoraConfig", "tensorrt_llm.lora_helper", "tensorrt_llm.lora_manager"),
        lora_request=importlib.import_module("tensorrt_llm.executor.request").LoRARequest,
        request_error=importlib.import_module("tensorrt_llm.executor.utils").RequestError,
        tensor=importlib.import_module("torch").FloatTensor,
        older_tags=takes_older_tags(),
        mpi_pool_session=_optional("MpiPoolSession", "tensorrt_llm.llmapi.mpi_session"),
    )


def _optional(name: str, module: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return None


def _first(name: str, *modules: str) -> Any:
    """Import a class that has moved from the first module that has it. Raises LibraryMissing."""
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise LibraryMissing(f"this version of TensorRT-LLM has no {name} where it is looked for ({', '.join(modules)})")
