"""Converts a submit to calls of the LLM, one per sequence."""

import inspect
import random
from typing import Any

from observability.tracing.trace_context import trace_headers
from protos.errors import GUIDE_PARAM
from protos.features import Feature
from protos.types import Failure, GuideKind, ReplicaInfo, Submit
from replicas.engines.tensorrt_llm.arguments import retention_config
from replicas.engines.tensorrt_llm.handoff import unpack
from replicas.engines.tensorrt_llm.library import Library
from replicas.engines.tensorrt_llm.lora_adapters import Adapters
from replicas.engines.tensorrt_llm.options import Options
from replicas.engines.tensorrt_llm.prompt_logprobs import too_long, wants_logits
from replicas.engines.tensorrt_llm.trtllm_sampling import MAX_LOGPROBS, guide_arguments, sampling_arguments, stop_ids
from replicas.engines.tensorrt_llm.trtllm_sequence import Sequence


class Requests:
    """Checks submits against the engine's abilities and converts them to the library's arguments."""

    def __init__(self, options: Options, library: Library, adapters: Adapters, rng: random.Random) -> None:
        self._options, self._library = options, library
        self._adapters, self._random = adapters, rng
        # Older versions do not take them; newer ones use them as their own options say.
        self._takes_traces = "trace_headers" in inspect.signature(library.llm.generate_async).parameters

    def refusal(self, request: Submit, info: ReplicaInfo) -> Failure | None:
        """Return why the engine cannot run a request, as far as is known before submitting it."""
        sampling, options = request.sampling, self._options
        prompt = len(request.prompt_ids)
        longest = options.longest_prompt if request.handoff is None else options.max_sequence_tokens - 1
        if prompt > longest:
            return Failure("context_length_exceeded", f"a prompt of {prompt} tokens; at most {longest} can be taken")
        bias = sampling.logit_bias
        problems = (
            (not 1 <= sampling.n <= options.max_batch_size, "n", "is not between 1 and the largest batch"),
            (request.max_tokens < 1, "max_tokens", "must be at least 1"),
            (not prompt, "prompt", "must not be empty"),
            (not 0 <= (sampling.logprobs or 0) <= MAX_LOGPROBS, "top_logprobs", f"must be at most {MAX_LOGPROBS}"),
            (bool(bias) and Feature.LOGIT_BIAS not in info.features, "logit_bias", "needs the vocabulary's size"),
            (
                options.vocab_size is not None and any(not 0 <= token < options.vocab_size for token in bias),
                "logit_bias",
                "names a token outside the vocabulary",
            ),
            (request.guide is not None and Feature.GUIDED not in info.features, GUIDE_PARAM, "has no backend"),
            # The library begins every guide at its beginning: it takes no tokens that have gone through it before.
            (request.guide is not None and request.generated > 0, GUIDE_PARAM, "cannot go on from an answer's middle"),
            (too_long(request, options.vocab_size), "prompt", "is too long for logprobs of it"),
            (_is_tag(request) and options.guided_backend == "llguidance", GUIDE_PARAM, "is XGrammar's alone"),
            (request.adapter is not None and Feature.LORA not in info.features, "model", "needs LoRA, which is off"),
            (request.prefill_only and not options.hands_over, "prefill_only", "needs a cache transceiver"),
            (request.handoff is not None and not options.hands_over, "handoff", "needs a cache transceiver"),
        )
        for wrong, param, why in problems:
            if wrong:
                return Failure("unsupported_parameter", f"{param} {why}", param)
        return None

    def sequences(self, handle: int, request: Submit) -> list[tuple[Sequence, dict[str, Any]]]:
        """Return each sequence with its call's keywords. Raises ValueError for an invalid handoff, adapter or guide."""
        options, library, sampling = self._options, self._library, request.sampling
        room = min(request.max_tokens, options.max_sequence_tokens - len(request.prompt_ids))
        most = 1 if request.prefill_only else room
        common = self._common(request)
        handoffs = unpack(request.handoff, sampling.n) if request.handoff else [None] * sampling.n
        held_back = frozenset(stop_ids(sampling, options.end_ids))
        found = []
        for k, handoff in enumerate(handoffs):
            arguments = sampling_arguments(
                sampling,
                index=request.sequence + k,
                max_tokens=most,
                end_ids=options.end_ids,
                rng=self._random,
                vocab_size=options.vocab_size,
                tensor=library.tensor,
                scores=k == 0 and wants_logits(request),
            )
            if request.guide is not None:
                # The call changes the library's parameters, so each sequence has its own.
                guided = guide_arguments(request.guide, older_tags=library.older_tags)
                arguments["guided_decoding"] = library.guided_decoding_params(**guided)
            keywords = common | {"sampling_params": library.sampling_params(**arguments)}
            if handoff is not None:
                keywords["disaggregated_params"] = library.disaggregated_params(**handoff)
            elif request.prefill_only:
                keywords["disaggregated_params"] = library.disaggregated_params(request_type="context_only")
            found.append((Sequence(handle, k, request, most, held_back), keywords))
        return found

    def one_token(self) -> dict[str, Any]:
        """Return the call of a request that only shows that the engine runs."""
        end = self._options.end_ids[0]
        parameters = self._library.sampling_params(
            end_id=end, pad_id=end, max_tokens=1, detokenize=False, ignore_eos=True, temperature=0.0
        )
        return {"inputs": [end, end], "sampling_params": parameters, "streaming": False}

    def _common(self, request: Submit) -> dict[str, Any]:
        """Return the keywords shared by all its sequences, without unused ones, which older versions may lack."""
        whole = request.prefill_only or request.sampling.prompt_logprobs
        keywords: dict[str, Any] = {"inputs": request.prompt_ids, "streaming": not whole}
        if request.cache_salt:
            keywords["cache_salt"] = request.cache_salt
        if request.trace and self._takes_traces:
            keywords["trace_headers"] = trace_headers(request.trace)
        if request.adapter is not None:
            number, path = self._adapters.find(request.adapter)
            keywords["lora_request"] = self._library.lora_request(request.adapter.name, number, path)
        retention = retention_config(self._options, self._library, len(request.prompt_ids))
        if retention is not None:
            keywords["kv_cache_retention_config"] = retention
        return keywords


def _is_tag(request: Submit) -> bool:
    return request.guide is not None and request.guide.kind is GuideKind.STRUCTURAL_TAG
