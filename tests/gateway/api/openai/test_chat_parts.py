"""Parts of messages as clients send them back: an answer's own members are taken where an answer is."""

from typing import Any

import pytest

from gateway.inference.generate_request import Chat
from protos.errors import InvalidRequest
from tests.gateway.api.openai.tools.offering import ChatFormat, Format, asked, model_of

ANSWER: dict[str, Any] = {
    "role": "assistant",
    "refusal": None,
    "annotations": [],
    "reasoning": "so",
    "reasoning_content": "so",
}


def messages(role: str, members: dict[str, Any]) -> list[dict[str, Any]]:
    part = {"type": "text", "text": "hello"} | members
    return [{"role": "user", "content": "hi"}, {"role": role, "content": [part]}, {"role": "user", "content": "and?"}]


def test_an_answer_that_comes_back_within_its_part() -> None:
    prompt = asked(model_of(Format(), ChatFormat()), messages=messages("assistant", ANSWER)).prompt
    assert isinstance(prompt, Chat)
    assert prompt.messages[1] == {"role": "assistant", "content": "hello"}


@pytest.mark.parametrize("name", ["role", "annotations", "reasoning"])
def test_nobody_else_has_them(name: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        asked(model_of(Format(), ChatFormat()), messages=messages("user", {name: ANSWER[name]}))
    assert raised.value.param == f"messages[1].content[0].{name}"
