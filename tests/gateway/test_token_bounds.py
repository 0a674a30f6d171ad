import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.request import Chat
from gateway.token_bounds import output_bound
from protos.errors import ContextLengthExceeded
from tests.models import model_of, request_of

MODEL = model_of()
PROMPTS = st.sampled_from([Chat([]), "text", [1, 2]])


@given(prompt_tokens=st.integers(0, 2000), max_tokens=st.none() | st.integers(1, 2000), prompt=PROMPTS)
def test_an_answer_has_what_was_asked_for_or_all_that_fits(
    prompt_tokens: int, max_tokens: int | None, prompt: Any
) -> None:
    request = request_of(MODEL, prompt, max_tokens, max_tokens_param="max_completion_tokens")
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
