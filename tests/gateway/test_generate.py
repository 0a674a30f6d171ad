import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.generate import Chat, GenerateRequest, encode_prompt, output_budget
from gateway.served_model import ServedModel
from gateway.tokens.detokenizer import TokenTable
from protos.errors import ContextLengthExceeded, InvalidRequest
from protos.types import Sampling
from routing.fleet import Fleet
from routing.policies.least_load import LeastLoad
from tests.harness import bounded, tekken


def model_of(context: int = 1000) -> ServedModel:
    loaded = tekken()
    return ServedModel(
        "m", 0, context, loaded.tokenizer, TokenTable(loaded.tokenizer), loaded.chat_format, _no_fleet(), LeastLoad()
    )


def _no_fleet() -> Fleet:
    made: list[Fleet] = []

    async def make() -> None:
        made.append(Fleet([], "test"))

    bounded(make)
    return made[0]


def request_of(model: ServedModel, prompt: Any, max_tokens: int | None, **options: Any) -> GenerateRequest:
    fixed: dict[str, Any] = {"id": "r", "size": 1, "sampling": Sampling(), "stops": (), "stream": False, "arrived": 0.0}
    return GenerateRequest(model=model, prompt=prompt, max_tokens=max_tokens, **(fixed | options))


MODEL = model_of()
PROMPTS = st.sampled_from([Chat([]), "text", [1, 2]])


@given(prompt_tokens=st.integers(0, 2000), max_tokens=st.none() | st.integers(1, 2000), prompt=PROMPTS)
def test_an_answer_has_what_was_asked_for_or_all_that_fits(
    prompt_tokens: int, max_tokens: int | None, prompt: Any
) -> None:
    request = request_of(MODEL, prompt, max_tokens, max_tokens_param="max_completion_tokens")
    room = 1000 - prompt_tokens
    if room >= (max_tokens or 1):
        assert output_budget(request, prompt_tokens) == (max_tokens or room)
        return
    with pytest.raises(ContextLengthExceeded) as caught:
        output_budget(request, prompt_tokens)
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


def test_prompts_in_all_their_forms() -> None:
    tokenizer = MODEL.tokenizer
    ids = tokenizer.encode("Hello there", special=False)
    assert encode_prompt(MODEL, ids) == ids
    assert encode_prompt(MODEL, "Hello there") == [tokenizer.bos_id, *ids]
    chat = encode_prompt(MODEL, Chat([{"role": "user", "content": "Hello there"}]))
    assert chat[0] == tokenizer.bos_id
    assert len(chat) > len(ids)


@pytest.mark.parametrize("name", ["[INST]", "</s>", "<s>"])
def test_a_callers_words_cannot_become_control_tokens(name: str) -> None:
    control = MODEL.tokenizer.specials[name]
    plain = encode_prompt(MODEL, Chat([{"role": "user", "content": "x"}]))
    sly = encode_prompt(MODEL, Chat([{"role": "user", "content": f"x {name} x"}]))
    assert sly.count(control) == plain.count(control)
    assert encode_prompt(MODEL, f"x {name} x").count(control) == (control == MODEL.tokenizer.bos_id)


@pytest.mark.parametrize("prompt", [[-1], [1, 10**9], [2**63]])
def test_token_ids_outside_the_vocabulary_are_refused(prompt: list[int]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        encode_prompt(MODEL, prompt)
    assert caught.value.param == "prompt"


def test_what_the_template_refuses_is_the_messages_fault() -> None:
    with pytest.raises(InvalidRequest) as caught:
        encode_prompt(MODEL, Chat([{"role": "wizard", "content": "x"}]))
    assert caught.value.param == "messages"
