"""Encodes a submit as tensors for a model behind Triton, and derives the model's features from its inputs."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from protos.errors import GUIDE_PARAM
from protos.features import Feature
from protos.triton_codec import ModelConfig, ModelMetadata, Tensor
from protos.types import Failure, Guide, GuideKind, Submit
from routing.transports.triton.settings import Kind, TritonOptions, TritonSettings

#: Inputs that each kind must have; a model that lacks one is of another kind.
_INPUTS: Final = {
    Kind.ENGINE: ("input_ids", "input_lengths", "request_output_len", "streaming"),
    Kind.ENSEMBLE: ("text_input", "max_tokens", "stream"),
    Kind.BLS: ("text_input", "max_tokens", "stream"),
    Kind.LLM_API: ("text_input", "sampling_param_max_tokens", "streaming"),
}
_OUTPUTS: Final = {
    Kind.ENGINE: ("output_ids", "sequence_length"),
    Kind.ENSEMBLE: ("text_output",),
    Kind.BLS: ("text_output",),
    Kind.LLM_API: ("text_output",),
}
#: Further outputs, requested where the model has them.
_MORE_OUTPUTS: Final = {
    Kind.ENGINE: ("kv_cache_reused_blocks",),
    Kind.ENSEMBLE: ("kv_cache_reused_blocks", "num_output_tokens"),
    Kind.BLS: ("kv_cache_reused_blocks", "num_output_tokens"),
    Kind.LLM_API: ("finish_reason",),
}

#: Names of sampler inputs that differ by kind.
_ENGINE_NAMES: Final = {"top_k": "runtime_top_k", "top_p": "runtime_top_p"}
_LLM_API_PREFIX: Final = "sampling_param_"
_FEATURES: Final = {
    Feature.TOP_K: ("top_k",),
    Feature.SEED: ("seed",),
    Feature.PENALTIES: ("presence_penalty", "frequency_penalty"),
    Feature.REPETITION_PENALTY: ("repetition_penalty",),
    Feature.MIN_TOKENS: ("min_tokens",),
}
_GUIDES: Final = {
    GuideKind.JSON_OBJECT: "json",
    GuideKind.JSON_SCHEMA: "json_schema",
    GuideKind.REGEX: "regex",
    GuideKind.GRAMMAR: "ebnf_grammar",
}
_INT32_MAX: Final = 0x7FFF_FFFF
_UINT64_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF


class TritonModel:
    """One model on one server: its inputs, its features, and the encoding of requests.

    `cumulative`: each text response has the whole answer so far.
    """

    def __init__(self, settings: TritonSettings, metadata: ModelMetadata, config: ModelConfig) -> None:
        self._settings, self._inputs, self._config = settings, metadata.inputs, config
        options = settings.options
        self.kind = kind = options.template
        self.name = options.model
        self.problem = _problem(options, metadata, config)
        self.outputs = (*_OUTPUTS[kind], *(name for name in _MORE_OUTPUTS[kind] if name in metadata.outputs))
        self.features = self._features()
        self.cumulative = kind is Kind.LLM_API or (
            kind is Kind.BLS and config.parameters.get("accumulate_tokens", "").lower() in ("true", "yes", "1", "t")
        )
        batched = config.max_batch_size > 0 if options.batch_dimension is None else options.batch_dimension
        self._batch = (1,) if batched else ()

    def refusal(self, submit: Submit) -> Failure | None:
        """Return why this model cannot take a request, if so; callers that respect `features` never get a refusal."""
        if submit.sampling.n != 1:
            return Failure("unsupported_parameter", "one answer a request", "n")
        if submit.guide is not None and (Feature.GUIDED not in self.features or submit.guide.kind not in _GUIDES):
            return Failure("unsupported_parameter", "no such guided decoding", GUIDE_PARAM)
        return None

    def inputs(self, submit: Submit) -> list[Tensor]:
        """Return a request's tensors: the required ones, and of the optional ones those that the model takes."""
        text = self.kind.takes_text
        required = self._text_prompt(submit) if text else self._token_prompt(submit)
        return [*required, *(tensor for tensor in self._optional(submit) if tensor.name in self._inputs)]

    def ends(self, submit: Submit) -> frozenset[int]:
        """Return the tokens that end an answer in ids and are sent with it: stop words are, the end_id is not."""
        if self.kind.takes_text:
            return frozenset()
        settings, sampling = self._settings, submit.sampling
        own = () if sampling.ignore_eos else settings.other_end_ids
        return frozenset((*own, *sampling.stop_token_ids))

    def _token_prompt(self, submit: Submit) -> Iterator[Tensor]:
        ids = submit.prompt_ids
        yield Tensor("input_ids", "INT32", (*self._batch, len(ids)), ids)
        yield self._one("input_lengths", "INT32", len(ids))
        yield self._one("request_output_len", "INT32", submit.max_tokens)
        yield self._one("streaming", "BOOL", True)

    def _text_prompt(self, submit: Submit) -> Iterator[Tensor]:
        codec = self._settings.codec
        assert codec is not None, "a model that takes text needs its tokenizer here"
        yield self._one("text_input", "BYTES", codec.decode(submit.prompt_ids).encode())
        llm_api = self.kind is Kind.LLM_API
        yield self._one("sampling_param_max_tokens" if llm_api else "max_tokens", "INT32", submit.max_tokens)
        yield self._one("streaming" if llm_api else "stream", "BOOL", True)

    def _optional(self, submit: Submit) -> Iterator[Tensor]:
        for name, (datatype, value) in _sampler(submit).items():
            yield self._one(self._input(name), datatype, value)
        if self.kind is Kind.LLM_API:
            yield self._one("sampling_param_exclude_input_from_output", "BOOL", True)
            yield self._one("return_finish_reason", "BOOL", True)
            return
        yield self._one("exclude_input_in_output", "BOOL", True)
        yield self._one("return_perf_metrics", "BOOL", True)
        yield self._one("return_num_output_tokens", "BOOL", True)
        yield from self._ends(submit)
        if submit.guide is not None:
            yield from self._guide(submit.guide)

    def _ends(self, submit: Submit) -> Iterator[Tensor]:
        """Yield the tensors that end an answer. The bare engine has no end token; ensembles use the tokenizer's."""
        settings, stops = self._settings, list(submit.sampling.stop_token_ids)
        if settings.options.pad_id is not None:
            yield self._one("pad_id", "INT32", settings.options.pad_id)
        if not submit.sampling.ignore_eos or self.kind.takes_text:
            if settings.end_id is not None:
                yield self._one("end_id", "INT32", settings.end_id)
            stops += settings.other_end_ids
        if stops and not self.kind.takes_text:
            # Words of one token each: first the tokens, then each word's end offset (utils.cc, convertWordList).
            values = [*stops, *range(1, len(stops) + 1)]
            yield Tensor("stop_words_list", "INT32", (*self._batch, 2, len(stops)), values)

    def _guide(self, guide: Guide) -> Iterator[Tensor]:
        yield self._one("guided_decoding_guide_type", "BYTES", _GUIDES[guide.kind].encode())
        if guide.text:
            yield self._one("guided_decoding_guide", "BYTES", guide.text.encode())

    def _one(self, name: str, datatype: str, value: Any) -> Tensor:
        return Tensor(name, datatype, (*self._batch, 1), (value,))

    def _input(self, name: str) -> str:
        if self.kind is Kind.ENGINE:
            return _ENGINE_NAMES.get(name, name)
        return f"{_LLM_API_PREFIX}{name}" if self.kind is Kind.LLM_API else name

    def _features(self) -> Feature:
        found = Feature.NONE
        for feature, names in _FEATURES.items():
            if _all_in((self._input(name) for name in names), self._inputs):
                found |= feature
        if self.kind is not Kind.ENGINE:
            return found
        found |= Feature.TOKEN_IDS | Feature.RESUMES | Feature.IGNORE_EOS
        if "stop_words_list" in self._inputs:
            found |= Feature.STOP_TOKEN_IDS
        backend = self._config.parameters.get("guided_decoding_backend", "")
        guided = _all_in(("guided_decoding_guide_type", "guided_decoding_guide"), self._inputs)
        # An unfilled template variable is no backend.
        if guided and backend and not backend.startswith("$"):
            found |= Feature.GUIDED
        return found


def _sampler(submit: Submit) -> Mapping[str, tuple[str, Any]]:
    """Return the sampler's parameters by name. The engine is greedy where neither top_k nor top_p is given."""
    sampling = submit.sampling
    values: dict[str, tuple[str, Any]] = {}
    if sampling.temperature == 0 or sampling.top_p == 0:
        values["top_k"] = ("INT32", 1)
    else:
        values["top_p"] = ("FP32", 1.0 if sampling.top_p is None else sampling.top_p)
        if sampling.top_k is not None and sampling.top_k > 0:
            values["top_k"] = ("INT32", min(sampling.top_k, _INT32_MAX))
        if sampling.temperature is not None:
            values["temperature"] = ("FP32", sampling.temperature)
    if sampling.seed is not None:
        values["seed"] = ("UINT64", sampling.seed & _UINT64_MASK)
    if sampling.presence_penalty:
        values["presence_penalty"] = ("FP32", sampling.presence_penalty)
    if sampling.frequency_penalty:
        values["frequency_penalty"] = ("FP32", sampling.frequency_penalty)
    if sampling.repetition_penalty is not None:
        values["repetition_penalty"] = ("FP32", sampling.repetition_penalty)
    if sampling.min_tokens:
        values["min_tokens"] = ("INT32", sampling.min_tokens)
    return values


def _problem(options: TritonOptions, metadata: ModelMetadata, config: ModelConfig) -> str:
    kind = options.template
    lacking = [name for name in _INPUTS[kind] if name not in metadata.inputs]
    lacking += [name for name in _OUTPUTS[kind] if name not in metadata.outputs]
    if lacking:
        return f"model {options.model} is no {kind.value}: it has no {', no '.join(lacking)}"
    # For an ensemble Triton reports its own file, not whether the engine in it can stream.
    if kind is not Kind.ENSEMBLE and not config.decoupled:
        return f"model {options.model} cannot stream: its transaction policy is not decoupled"
    return ""


def _all_in(names: Iterator[str] | Collection[str], known: Mapping[str, str]) -> bool:
    return all(name in known for name in names)
