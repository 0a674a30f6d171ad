import pytest

from gateway.inference.generate_request import Chat, FillIn, Prompt
from gateway.inference.prompt_encoding import encode_long, encode_prompt
from gateway.text.tokens.unit_cache import UnitCache
from protos.errors import InvalidRequest
from tests.models import model_of

MODEL = model_of()


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


TEXT = "The tide comes in and the boats go out. " * 1_000


@pytest.mark.parametrize(
    "prompt",
    [
        Chat(
            [
                {"role": "user", "content": TEXT},
                {"role": "assistant", "content": "Yes"},
                {"role": "user", "content": TEXT},
            ]
        ),
        Chat([{"role": "user", "content": TEXT}], {"tools": [{"type": "function", "function": {"name": "x"}}]}),
        FillIn(TEXT, "end"),
        TEXT,
        "a" * 40_000,
        "",
        [1, 2, 3],
    ],
)
def test_long_prompts_are_encoded_as_short_ones_are(prompt: Prompt) -> None:
    cache = UnitCache()
    expected = encode_prompt(MODEL, prompt)
    for _ in range(2):
        assert list(encode_long(MODEL, prompt, cache, "salt")) == expected


def test_what_is_refused_of_short_prompts_is_refused_of_long_ones() -> None:
    for prompt in (Chat([{"role": "wizard", "content": TEXT}]), [-1]):
        with pytest.raises(InvalidRequest):
            encode_long(MODEL, prompt, UnitCache(), "")
