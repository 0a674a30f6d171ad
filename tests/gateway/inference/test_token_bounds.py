import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.tenants import DEFAULT_TIERS, Limits, Tenant
from gateway.inference.generate_request import Chat
from gateway.inference.token_bounds import MAX_LOGPROB_ENTRIES, output_bound
from gateway.tenancy.auth.key_records import ApiKey
from gateway.tenancy.tenants.caller import Caller
from protos.errors import ContextLengthExceeded, InvalidRequest, TokenLimitExceeded
from protos.types import Sampling
from tests.models import model_of, request_of

MODEL = model_of()
STRICT = replace(MODEL, clamps=False)
PROMPTS = st.sampled_from([Chat([]), "text", [1, 2]])


@given(prompt_tokens=st.integers(0, 2000), max_tokens=st.none() | st.integers(1, 2000), prompt=PROMPTS)
def test_an_answer_has_what_was_asked_for_or_all_that_fits(
    prompt_tokens: int, max_tokens: int | None, prompt: Any
) -> None:
    request = request_of(STRICT, prompt, max_tokens, max_tokens_param="max_completion_tokens")
    room = 1000 - prompt_tokens
    if room >= (max_tokens or 1):
        assert output_bound(request, prompt_tokens) == (max_tokens or room)
        return
    with pytest.raises(ContextLengthExceeded) as caught:
        output_bound(request, prompt_tokens)
    error = caught.value
    assert (error.status, error.code) == (400, "context_length_exceeded")
    figures = [int(number) for number in re.findall(r"\d+", error.message)]
    if room < 1:
        assert error.param == ("messages" if isinstance(prompt, Chat) else "prompt")
        assert figures == [1000, prompt_tokens]
    else:
        assert max_tokens is not None
        assert error.param == "max_completion_tokens"
        assert figures == [1000, prompt_tokens + max_tokens, prompt_tokens, max_tokens]


@given(prompt_tokens=st.integers(0, 999), max_tokens=st.integers(1, 2000))
def test_an_answer_is_cut_to_what_the_context_leaves(prompt_tokens: int, max_tokens: int) -> None:
    assert output_bound(request_of(MODEL, "text", max_tokens), prompt_tokens) == min(max_tokens, 1000 - prompt_tokens)


def asked(max_tokens: int | None, prompt_tokens: int = 10, *, n: int = 1, prompt: Any = "text", **scopes: Any) -> int:
    """The bound of a request whose tenant, key and model have these limits."""
    limits = {name: Limits(**values) for name, values in scopes.items()}
    tenant = Tenant(
        name="acme",
        limits=limits.get("tenant", Limits()),
        model_limits={"m": limits["model"]} if "model" in limits else {},
    )
    key = ApiKey(key_id="k", name="k", tenant="acme", created_at=0.0, limits=limits.get("key", Limits()))
    caller = Caller(key, tenant, DEFAULT_TIERS[0], 0)
    return output_bound(request_of(MODEL, prompt, max_tokens, caller=caller, sampling=Sampling(n=n)), prompt_tokens)


@pytest.mark.parametrize("scope", ["tenant", "key", "model"])
def test_a_prompt_may_be_as_long_as_the_strictest_scope_says(scope: str) -> None:
    scopes: Any = {"tenant": {"max_input_tokens": 50}, scope: {"max_input_tokens": 20}}
    assert asked(5, 20, **scopes) == 5
    for prompt, param in (("text", "prompt"), ([1], "prompt"), (Chat([]), "messages")):
        with pytest.raises(TokenLimitExceeded) as caught:
            asked(5, 21, prompt=prompt, **scopes)
        assert (caught.value.status, caught.value.code, caught.value.param) == (400, "token_limit_exceeded", param)
        assert re.findall(r"\d+", caught.value.message) == ["21", "20"]


@pytest.mark.parametrize("scope", ["tenant", "key", "model"])
def test_an_answer_may_be_as_long_as_the_strictest_scope_says(scope: str) -> None:
    scopes: Any = {"tenant": {"max_output_tokens": 500}, scope: {"max_output_tokens": 30}}
    assert asked(30, **scopes) == 30
    assert asked(10, n=3, **scopes) == 10
    assert asked(None, **scopes) == 30
    assert asked(None, n=4, **scopes) == 7
    for max_tokens, n, param in ((31, 1, "max_tokens"), (16, 2, "max_tokens"), (None, 31, "n")):
        with pytest.raises(TokenLimitExceeded) as caught:
            asked(max_tokens, n=n, **scopes)
        assert caught.value.param == param
        assert re.findall(r"\d+", caught.value.message)[-1] == "30"


def test_a_request_that_names_no_limit_gets_the_default() -> None:
    scopes: Any = {"tenant": {"default_output_tokens": 40}, "key": {"default_output_tokens": 25}}
    assert asked(None, **scopes) == 25
    assert asked(300, **scopes) == 300
    assert asked(None, 990, **scopes) == 10, "never more than the context leaves"
    assert asked(None, tenant={"default_output_tokens": 40, "max_output_tokens": 12}) == 12
    assert asked(None, n=4, tenant={"default_output_tokens": 40, "max_output_tokens": 12}) == 3


def test_the_context_cuts_no_more_than_the_tenants_bound_refuses() -> None:
    with pytest.raises(TokenLimitExceeded):
        asked(991, tenant={"max_output_tokens": 5})
    with pytest.raises(ContextLengthExceeded):
        asked(1, 1000, tenant={"max_output_tokens": 5})


@given(
    prompt_tokens=st.integers(0, 1100),
    max_tokens=st.none() | st.integers(1, 1100),
    n=st.integers(1, 5),
    most_input=st.none() | st.integers(1, 1100),
    most=st.none() | st.integers(1, 1100),
    default=st.none() | st.integers(1, 1100),
)
def test_whatever_is_given_keeps_every_bound(
    prompt_tokens: int, max_tokens: int | None, n: int, most_input: int | None, most: int | None, default: int | None
) -> None:
    limits = {"max_input_tokens": most_input, "max_output_tokens": most, "default_output_tokens": default}
    try:
        bound = asked(max_tokens, prompt_tokens, n=n, tenant=limits)
    except (ContextLengthExceeded, TokenLimitExceeded):
        wanted = max_tokens or 1
        fits = prompt_tokens < 1000
        assert not (fits and prompt_tokens <= (most_input or 2000) and wanted * n <= (most or 10_000))
        return
    assert 1 <= bound <= 1000 - prompt_tokens
    assert bound * n <= (most or 10_000)
    if max_tokens is not None:
        assert bound == min(max_tokens, 1000 - prompt_tokens)
    if max_tokens is None:
        assert bound <= (default or 1000)


def test_logprobs_take_room_too() -> None:
    request = request_of(model_of(60_000), "text", None, sampling=Sampling(n=2, logprobs=4))
    assert output_bound(request, 10) == MAX_LOGPROB_ENTRIES // 10
    request = request_of(model_of(60_000), "text", 10_001, sampling=Sampling(n=2, logprobs=4))
    with pytest.raises(InvalidRequest):
        output_bound(request, 10)
