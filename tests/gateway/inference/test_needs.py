from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.inference.generate_request import Chat
from gateway.inference.needs import _PARAMS, needs_of, refusal
from protos.errors import UnsupportedParameter
from protos.features import NAMES, Feature
from protos.types import Guide, GuideKind, Sampling
from tests.models import model_of, request_of

MODEL = model_of()
FOREIGN = UnsupportedParameter("Unsupported parameter: 'tools' is not supported here.", param="tools")
#: Feature -> what asks for it, of the sampler and of the request.
ASKS: dict[Feature, tuple[dict[str, Any], dict[str, Any]]] = {
    Feature.LOGPROBS: ({"logprobs": 0}, {}),
    Feature.SEVERAL: ({"n": 2}, {}),
    Feature.LOGIT_BIAS: ({"logit_bias": {1: 1.0}}, {}),
    Feature.TOP_K: ({"top_k": 1}, {}),
    Feature.MIN_P: ({"min_p": 0.0}, {}),
    Feature.REPETITION_PENALTY: ({"repetition_penalty": 1.1}, {}),
    Feature.MIN_TOKENS: ({"min_tokens": 1}, {}),
    Feature.IGNORE_EOS: ({"ignore_eos": True}, {}),
    Feature.STOP_TOKEN_IDS: ({"stop_token_ids": (1,)}, {}),
    Feature.SEED: ({"seed": 0}, {}),
    Feature.PROMPT_LOGPROBS: ({"prompt_logprobs": True}, {}),
    Feature.PENALTIES: ({"presence_penalty": 0.5}, {}),
    Feature.TOKEN_IDS: ({}, {"prompt": [1, 2]}),
    Feature.GUIDED: ({}, {"guide": Guide(GuideKind.JSON_OBJECT), "guide_param": "response_format"}),
    Feature.WHOLE_API: ({}, {"foreign": FOREIGN}),
}
ENDPOINTS = {Feature.EMBEDDINGS, Feature.RERANK, Feature.SCORE, Feature.TOKENIZE}


def asking(features: set[Feature]) -> Any:
    sampling: dict[str, Any] = {}
    fields: dict[str, Any] = {"prompt": Chat([])}
    for feature in features:
        sampling |= ASKS[feature][0]
        fields |= ASKS[feature][1]
    return request_of(MODEL, fields.pop("prompt"), None, sampling=Sampling(**sampling), **fields)


def test_a_plain_request_needs_nothing() -> None:
    sampling = Sampling(temperature=0.5, top_p=0.9)
    for prompt in (Chat([]), "text"):
        assert needs_of(request_of(MODEL, prompt, 5, sampling=sampling, stops=("x",), stream=True)) == 0


@given(st.sets(st.sampled_from(sorted(ASKS))))
def test_the_needs_are_what_is_asked_for(features: set[Feature]) -> None:
    assert needs_of(asking(features)) == sum(feature.value for feature in features)


def test_everything_that_can_be_needed_is_asked_for_in_some_way() -> None:
    assert set(NAMES) - set(ASKS) == {Feature.LORA, Feature.RESUMES, Feature.GUIDE_RESUMES} | ENDPOINTS
    assert needs_of(request_of(MODEL, "x", 1, sampling=Sampling(frequency_penalty=-1.0))) == Feature.PENALTIES.value
    assert set(ASKS) - set(_PARAMS) == {Feature.GUIDED, Feature.PENALTIES, Feature.WHOLE_API}


@pytest.mark.parametrize("endpoint", sorted(ENDPOINTS))
def test_an_endpoint_is_needed_with_the_whole_api_and_refused_in_its_own_words(endpoint: Feature) -> None:
    request = request_of(MODEL, "", 1, foreign=FOREIGN, endpoint=endpoint.value)
    assert needs_of(request) == (Feature.WHOLE_API | endpoint).value
    for lacks in ([endpoint], [Feature.WHOLE_API], [Feature.WHOLE_API, endpoint]):
        assert refusal(request, lacks) is FOREIGN


@pytest.mark.parametrize("feature", sorted(ASKS), ids=lambda feature: feature.name)
def test_a_refusal_names_the_parameter_and_the_feature(feature: Feature) -> None:
    error = refusal(asking({feature}), [feature])
    assert (error.status, error.code) == (400, "unsupported_parameter")
    assert error.param
    assert f"'{error.param}'" in error.message
    if feature is Feature.WHOLE_API:
        assert error is FOREIGN
    else:
        assert NAMES[feature] in error.message


def test_a_refusal_of_several_together() -> None:
    features = {Feature.LOGPROBS, Feature.SEED, Feature.GUIDED}
    error = refusal(asking(features), sorted(features))
    assert error.param == "logprobs"
    assert error.message == (
        "'logprobs', 'response_format' and 'seed' cannot be honoured together by this model's engines: "
        "none of them has logprobs, guided decoding and seed."
    )
    both = refusal(asking({Feature.WHOLE_API, Feature.SEED}), [Feature.WHOLE_API, Feature.SEED])
    assert both.message.startswith("'tools' and 'seed' cannot be honoured together")
