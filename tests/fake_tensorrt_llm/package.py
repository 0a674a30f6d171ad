"""A `tensorrt_llm` without a GPU, which behaves like the real one where that surprises.

Its structure follows the real package's: parameters checked on making them, results that one object carries and
changes, queues that end themselves, an executor that dies behind its streams. Its model's next token is a hash of all
tokens so far, so that an answer can be compared token for token, also when it goes on elsewhere.
"""

import sys
from types import ModuleType

import pytest

from tests.fake_tensorrt_llm import configuration, llm, parameters, results, sessions

VERSION = "1.2.0"


def modules() -> dict[str, ModuleType]:
    """The fake's modules, and what it takes of torch, by the real one's names, which `sys.modules` can take."""
    package, api = ModuleType("tensorrt_llm"), ModuleType("tensorrt_llm.llmapi")
    executor, request = ModuleType("tensorrt_llm.executor"), ModuleType("tensorrt_llm.executor.request")
    utils, lora = ModuleType("tensorrt_llm.executor.utils"), ModuleType("tensorrt_llm.lora_helper")
    torch, mpi = ModuleType("torch"), ModuleType("tensorrt_llm.llmapi.mpi_session")
    for target, names in (
        (package, (llm.LLM, parameters.SamplingParams)),
        (
            api,
            (
                parameters.GuidedDecodingParams,
                parameters.DisaggregatedParams,
                configuration.KvCacheConfig,
                configuration.KvCacheRetentionConfig,
                configuration.SchedulerConfig,
                configuration.CapacitySchedulerPolicy,
                configuration.ContextChunkingPolicy,
                configuration.CacheTransceiverConfig,
            ),
        ),
        (request, (parameters.LoRARequest,)),
        (utils, (results.RequestError,)),
        (lora, (configuration.LoraConfig,)),
        (torch, (parameters.FloatTensor,)),
        (mpi, (sessions.MpiPoolSession,)),
    ):
        for each in names:
            setattr(target, each.__name__, each)
    package.__dict__["__version__"] = VERSION
    return {module.__name__: module for module in (package, api, executor, request, utils, lora, torch, mpi)}


def install(patch: pytest.MonkeyPatch | None = None) -> None:
    """Make `import tensorrt_llm` find the fake: for one test, or without a patch for the whole process."""
    for name, module in modules().items():
        if patch is None:
            sys.modules[name] = module
        else:
            patch.setitem(sys.modules, name, module)
