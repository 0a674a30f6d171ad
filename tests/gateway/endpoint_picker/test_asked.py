"""What is read of a body: never an error, and equal beginnings of prompts are equal."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.endpoint_picker.asked import NOTHING, TOKEN_BYTES, asked_in

#: Texts of one meaning, and the tokens that Mistral's tokenizer (mistral-tekken) makes of them.
TEXTS = {
    "The weather will be fine tomorrow, so we shall go to the sea with the children and the dog.": 21,
    "明天天气会很好,所以我们要带着孩子和狗去海边。": 20,
    "明日は天気が良いので、子供たちと犬を連れて海に行きます。": 25,
    "내일 날씨가 좋을 것이므로 우리는 아이들과 개를 데리고 바다에 갈 것입니다.": 19,
    "Завтра будет хорошая погода, поэтому мы поедем на море с детьми и собакой.": 25,
    "سيكون الطقس جيدا غدا لذلك سنذهب إلى البحر مع الأطفال والكلب.": 19,
    "कल मौसम अच्छा रहेगा इसलिए हम बच्चों और कुत्ते के साथ समुद्र जाएंगे।": 22,
}


def body(ensure_ascii: bool = True, /, **members: Any) -> bytes:
    return json.dumps(members, ensure_ascii=ensure_ascii).encode("utf-8", "surrogatepass")


def test_a_chat_is_read() -> None:
    asked = asked_in(
        body(
            model="m",
            messages=[{"role": "user", "content": "hello " * 10}],
            max_completion_tokens=7,
            n=2,
            cache_salt="s",
        )
    )
    assert (asked.model, asked.max_tokens, asked.n, asked.salt, asked.media) == ("m", 7, 2, "s", 0)
    assert len(asked.prompt) == len(json.dumps([{"role": "user", "content": "hello " * 10}])) // TOKEN_BYTES


@pytest.mark.parametrize("name", ["prompt", "input", "messages", "system", "instructions", "tools"])
def test_every_apis_prompt_is_found(name: str) -> None:
    assert len(asked_in(body(True, **{name: "hello there"})).prompt) == 3


@pytest.mark.parametrize("value", [None, "7", -1, 0, 1.5, True, [7], {"a": 1}])
def test_what_has_another_type_counts_as_absent(value: object) -> None:
    asked = asked_in(body(model=value, n=value, max_tokens=value, cache_salt=value, prompt="hello"))
    assert asked.max_tokens is None
    assert asked.n == 1
    assert isinstance(asked.model, str)
    assert len(asked.prompt) == 1


@given(st.binary(max_size=300))
def test_no_bytes_are_an_error(data: bytes) -> None:
    asked_in(data)


@pytest.mark.parametrize("data", [b"", b"[]", b"1", b"\xff", b'{"prompt":', b"[" * 50_000, b'{"a":' * 50_000])
def test_what_is_no_object_asks_for_nothing(data: bytes) -> None:
    assert asked_in(data) is NOTHING


_LETTERS = st.characters(exclude_categories=["Cs"])


@given(st.text(_LETTERS, max_size=400), st.text(_LETTERS, max_size=50), st.text(max_size=50))
def test_prompts_that_begin_alike_have_the_same_first_ids(same: str, one: str, other: str) -> None:
    first, second = (
        asked_in(body(messages=[{"role": "system", "content": same}, {"role": "user", "content": end}])).prompt
        for end in (one, other)
    )
    # All but the end of the list, which stands in the last id or the one before.
    known = max(0, len(asked_in(body(messages=[{"role": "system", "content": same}])).prompt) - 1)
    assert known >= len(same) // TOKEN_BYTES // 2
    assert list(first)[:known] == list(second)[:known]


@pytest.mark.parametrize("escaped", [True, False])
@pytest.mark.parametrize(("text", "tokens"), TEXTS.items())
def test_every_script_has_about_as_many_tokens_as_are_counted(text: str, tokens: int, escaped: bool) -> None:
    counted = len(asked_in(body(escaped, prompt=text * 20)).prompt)
    assert 0.7 < counted / (20 * tokens) < 1.45


def test_how_a_client_writes_its_characters_makes_no_difference() -> None:
    # What looks like an escape and is none, and half a pair.
    text = "海辺の町 \\u3042 \\\\u \u0007 🐕 и море" * 3
    one, other = (len(asked_in(body(escaped, prompt=text)).prompt) for escaped in (True, False))
    assert abs(one - other) <= 12
    for refused in (b"\\ud83d alone", b"cut off \\u12"):
        assert asked_in(b'{"prompt": "%b"}' % refused) is NOTHING


def test_an_images_data_is_no_text_but_tells_images_apart() -> None:
    def image(data: str) -> bytes:
        part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
        return body(messages=[{"role": "user", "content": [part]}])

    one, other = asked_in(image("A" * 100_000)), asked_in(image("A" * 99_999 + "B"))
    assert one.media == other.media == 1
    assert len(one.prompt) < 100
    assert len(asked_in(body(prompt="a long story " * 1000, file={})).prompt) > 3000
    assert one.prompt != other.prompt
