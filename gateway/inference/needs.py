"""The engine features that a request needs, and the refusal where no replica has them."""

from operator import attrgetter
from typing import Final

from gateway.inference.generate_request import GenerateRequest
from protos.errors import GUIDE_PARAM, UnsupportedParameter
from protos.features import NAMES, Feature
from protos.types import Sampling

# Plain numbers: operations on flags cost a Python call each.
_TOKEN_IDS: Final = Feature.TOKEN_IDS.value
_LOGPROBS: Final = Feature.LOGPROBS.value
_SEVERAL: Final = Feature.SEVERAL.value
_LOGIT_BIAS: Final = Feature.LOGIT_BIAS.value
_GUIDED: Final = Feature.GUIDED.value
_LORA: Final = Feature.LORA.value
_TOP_K: Final = Feature.TOP_K.value
_MIN_P: Final = Feature.MIN_P.value
_REPETITION_PENALTY: Final = Feature.REPETITION_PENALTY.value
_MIN_TOKENS: Final = Feature.MIN_TOKENS.value
_IGNORE_EOS: Final = Feature.IGNORE_EOS.value
_STOP_TOKEN_IDS: Final = Feature.STOP_TOKEN_IDS.value
_WHOLE_API: Final = Feature.WHOLE_API.value
_SEED: Final = Feature.SEED.value
_PENALTIES: Final = Feature.PENALTIES.value
_PROMPT_LOGPROBS: Final = Feature.PROMPT_LOGPROBS.value

#: Feature -> the parameter that asks for it, where it is always the same one.
_PARAMS: Final = {
    Feature.TOKEN_IDS: "prompt",
    Feature.LOGPROBS: "logprobs",
    Feature.SEVERAL: "n",
    Feature.LOGIT_BIAS: "logit_bias",
    Feature.LORA: "model",
    Feature.TOP_K: "top_k",
    Feature.MIN_P: "min_p",
    Feature.REPETITION_PENALTY: "repetition_penalty",
    Feature.MIN_TOKENS: "min_tokens",
    Feature.IGNORE_EOS: "ignore_eos",
    Feature.STOP_TOKEN_IDS: "stop_token_ids",
    Feature.SEED: "seed",
    Feature.PROMPT_LOGPROBS: "echo",
}


def checked_needs(request: GenerateRequest, adapter: str) -> int:
    """Give the features that the request to a model, with a LoRA adapter or "", needs: bits of protos/features.py.

    Raises UnsupportedParameter when no replica of the model, ready or not, has all of them.
    """
    needs = needs_of(request)
    if adapter:
        needs |= _LORA
    if needs:
        lacks = request.model.fleet.lacks(needs, adapter)
        if lacks:
            raise refusal(request, lacks)
    return needs


def needs_of(request: GenerateRequest) -> int:
    """Give the features that the request needs beside a LoRA adapter, whatever the replicas have."""
    needs, sampling = _TOKEN_IDS if type(request.prompt) is list else 0, request.sampling
    if sampling.seed is not None:
        needs |= _SEED
    if _OTHERS(sampling) != _NO_OTHERS:
        needs |= _needs_of_others(sampling)
    if request.guide is not None:
        needs |= _GUIDED
    if request.foreign is not None:
        needs |= _WHOLE_API | request.endpoint
    return needs


#: All sampling parameters but temperature and top_p, which every engine has, and the seed, which many requests have.
_OTHERS: Final = attrgetter(
    *(name for name in Sampling.__struct_fields__ if name not in ("temperature", "top_p", "seed"))
)
_NO_OTHERS: Final = _OTHERS(Sampling())


def _needs_of_others(sampling: Sampling) -> int:
    needs = 0
    if sampling.logprobs is not None:
        needs |= _LOGPROBS
    if sampling.n > 1:
        needs |= _SEVERAL
    if sampling.logit_bias:
        needs |= _LOGIT_BIAS
    if sampling.top_k is not None:
        needs |= _TOP_K
    if sampling.min_p is not None:
        needs |= _MIN_P
    if sampling.repetition_penalty is not None:
        needs |= _REPETITION_PENALTY
    if sampling.min_tokens:
        needs |= _MIN_TOKENS
    if sampling.ignore_eos:
        needs |= _IGNORE_EOS
    if sampling.stop_token_ids:
        needs |= _STOP_TOKEN_IDS
    if sampling.presence_penalty or sampling.frequency_penalty:
        needs |= _PENALTIES
    if sampling.prompt_logprobs:
        needs |= _PROMPT_LOGPROBS
    return needs


def refusal(request: GenerateRequest, lacks: list[Feature]) -> UnsupportedParameter:
    """Make the client's error when no engine has these features, or none has all of them."""
    if request.foreign is not None and all(lack in (Feature.WHOLE_API, request.endpoint) for lack in lacks):
        return request.foreign
    if lacks == [Feature.LORA]:
        message = f"The adapter '{request.model.adapter_name}' cannot be used: no engine of this model can load it."
        return UnsupportedParameter(message, param="model")
    params = [_param(request, feature) for feature in lacks]
    shown, absent = _listed([f"'{param}'" for param in params]), _listed([NAMES[feature] for feature in lacks])
    together = " together" if len(lacks) > 1 else ""
    return UnsupportedParameter(
        f"{shown} cannot be honoured{together} by this model's engines: none of them has {absent}.", param=params[0]
    )


def name_guide(error: BaseException, request: GenerateRequest) -> None:
    """Name the client's own parameter in an engine's refusal of the guide."""
    if isinstance(error, UnsupportedParameter) and error.param == GUIDE_PARAM and request.guide is not None:
        error.param = request.guide_param
        error.message = f"Unsupported value: '{request.guide_param}' cannot be honoured by this model's engine."


def _param(request: GenerateRequest, feature: Feature) -> str:
    if feature is Feature.GUIDED:
        return request.guide_param
    if feature is Feature.PENALTIES:
        return "presence_penalty" if request.sampling.presence_penalty else "frequency_penalty"
    if feature is Feature.WHOLE_API and request.foreign is not None:
        return request.foreign.param or "messages"
    if feature in (Feature.LOGPROBS, Feature.PROMPT_LOGPROBS) and (details := request.details) is not None:
        # The engine is asked for them though the client has not named them.
        if details.prompt_logprobs is not None and (details.logprobs is None or feature is Feature.PROMPT_LOGPROBS):
            return "prompt_logprobs"
        if details.best and details.logprobs is None:
            return "best_of"
    return _PARAMS[feature]


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
