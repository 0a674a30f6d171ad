"""The fake's LLM, and what a test can make it do."""

from collections.abc import AsyncIterable, Mapping
from typing import Any, ClassVar

from tests.fake_tensorrt_llm.configuration import LLM_ARGUMENTS, KvCacheConfig
from tests.fake_tensorrt_llm.executor import Executor
from tests.fake_tensorrt_llm.parameters import DisaggregatedParams, LoRARequest, SamplingParams
from tests.fake_tensorrt_llm.results import EmptyIterable, RequestOutput


class CppExecutorError(RuntimeError):
    """What kills an executor."""


#: A prompt that wedges the fake, for tests that cannot reach into its process.
POISON = [666, 666]


class LLM:
    """Besides the real one's methods: what happens is set by attributes, before or while it runs."""

    #: The last one made.
    last: ClassVar["LLM"]

    def __init__(self, model: str, **arguments: Any) -> None:
        for key in arguments:
            if key not in LLM_ARGUMENTS:
                raise ValueError(f"LLM got invalid argument: {key}")
        session = arguments.get("_mpi_session")
        size = arguments.get("tensor_parallel_size", 1) * arguments.get("pipeline_parallel_size", 1)
        if session is not None and (session.shut_down or session.n_workers != size):
            raise ValueError(f"External MPI session has {session.n_workers} workers but the model needs {size}.")
        defaults = {"max_batch_size": 2048, "max_num_tokens": 8192, "kv_cache_config": KvCacheConfig()}
        self.model = model
        self.arguments: dict[str, Any] = defaults | arguments
        self.calls: list[dict[str, Any]] = []
        #: Steps run only when `_executor.step` is called.
        self.held = False
        #: Nothing answers any more, and nothing says so.
        self.wedged = False
        self.prefill_steps = 0
        self.transfer_steps = 0
        #: Position in an answer -> the token there.
        self.script: dict[int, int] = {}
        #: Texts of RequestErrors: of the next calls, and of the next responses.
        self.refusals: list[str] = []
        self.response_errors: list[str] = []
        self.lost_events: set[int] = set()
        self.says_not_finished = False
        self.shutdowns = 0
        self._executor: Executor | None = Executor(self)
        type(self).last = self

    def generate_async(
        self,
        inputs: list[int],
        *,  # the order of the rest is another in every version
        sampling_params: SamplingParams | None = None,
        lora_request: LoRARequest | None = None,
        streaming: bool = False,
        kv_cache_retention_config: Any = None,
        disaggregated_params: DisaggregatedParams | None = None,
        scheduling_params: Any = None,
        cache_salt: str | None = None,
        trace_headers: Mapping[str, str] | None = None,
    ) -> RequestOutput:
        if self._executor is None or self._executor.is_shutdown():
            raise RuntimeError("LLM is shutting down")
        sampling = sampling_params or SamplingParams()
        if sampling.end_id is None:
            if self.arguments.get("skip_tokenizer_init"):
                raise ValueError("tokenizer is required to reset end_id if it is None")
            sampling.end_id = sampling.pad_id = 2
        kind = disaggregated_params.request_type if disaggregated_params else None
        if kind == "context_only":
            sampling.max_tokens = 1
        longest = self.arguments["max_num_tokens"]
        if not self.arguments.get("enable_chunked_prefill") and kind != "generation_only" and len(inputs) > longest:
            raise ValueError(f"The sum of prompt length ({len(inputs)}) should not exceed max_num_tokens ({longest})")
        self.wedged |= inputs == POISON
        self.calls.append(
            {
                "inputs": inputs,
                "sampling": sampling,
                "lora": lora_request,
                "retention": kv_cache_retention_config,
                "disaggregated": disaggregated_params,
                "salt": cache_salt,
                "trace": trace_headers,
                "streaming": streaming,
            }
        )
        return self._executor.submit(
            prompt=inputs,
            sampling=sampling,
            streaming=streaming,
            salt=cache_salt,
            adapter=lora_request,
            handoff=disaggregated_params,
        )

    def get_stats_async(self, timeout: float = 2) -> AsyncIterable[Any]:
        assert self._executor is not None
        if self._executor.stats is None:
            return EmptyIterable()
        self._executor.stats.set_timeout(timeout)
        return self._executor.stats

    def get_kv_cache_events_async(self, timeout: float = 2) -> AsyncIterable[Any]:
        assert self._executor is not None
        assert self._executor.events is not None, "KV Event IterationResult is not properly instantiated."
        self._executor.events.set_timeout(timeout)
        return self._executor.events

    def shutdown(self) -> None:
        self.shutdowns += 1
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None

    @property
    def executor(self) -> Executor:
        assert self._executor is not None
        return self._executor

    def die(self) -> None:
        """A background thread has failed: whichever request hears next raises it, the others hear nothing."""
        self.executor.errors.append(CppExecutorError("CUDA error: an illegal memory access was encountered"))
