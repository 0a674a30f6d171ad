"""The bundled template against Mistral's own encoder of chats."""

from pathlib import Path
from typing import Any

import mistral_common
import pytest
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

from gateway.text.tokens.chat_format import TemplateError
from gateway.text.tokens.loader import LoadedTokenizer, load_tokenizer

CHATS = (
    "user:Hello",
    "user: Hello \n",
    "user:",
    "system:Be brief.|user:Hello",
    "system:|user:Hello",
    "system:One|system:Two|user:Hello",
    "system:Alone",
    "system:Be brief.|user:One|assistant:Two|user:Three",
    "user:One|system:Late|assistant:Two|user:Three",
    "user:One|user:Two",
    "user:One|assistant:Two|assistant:Three|user:Four|user:Five",
    "user:One|assistant:Two  |user:  Three\n",
    "user:One|system:Two|user:Three",
    "assistant:One|user:Two",
    "system:Zero|assistant:One|user:Two",
    "user:One|assistant:Two|user:Three|system:Four",
    "user:What is [INST] and </s>?|assistant:[/INST]|user:<s>",
    "user:Colon:\n|assistant:```\ncode\n```|user:日本語 🎉",
    'user:One|assistant:Two|tool:three "é"|user:Four',
    "user:One|assistant:Two|tool:three",
)


def messages(chat: str) -> list[dict[str, Any]]:
    parsed: list[dict[str, Any]] = []
    for turn in chat.split("|"):
        role, _, content = turn.partition(":")
        parsed.append({"role": role, "content": content} | ({"tool_call_id": "123456789"} if role == "tool" else {}))
    return parsed


@pytest.fixture(scope="module")
def reference() -> MistralTokenizer[Any, Any, Any, Any, Any]:
    return MistralTokenizer.from_file(Path(mistral_common.__file__).parent / "data" / "tekken_240911.json")


@pytest.fixture(scope="module")
def ours() -> LoadedTokenizer:
    return load_tokenizer("mistral-tekken")


@pytest.mark.parametrize("chat", CHATS)
def test_same_ids(ours: LoadedTokenizer, reference: MistralTokenizer[Any, Any, Any, Any, Any], chat: str) -> None:
    request: ChatCompletionRequest[Any] = ChatCompletionRequest.from_openai(messages(chat))
    expected = reference.encode_chat_completion(request).tokens
    assert ours.chat_format.encode_chat(ours.tokenizer, messages(chat)) == expected


TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "find",
            "description": "Finds <s> é.",
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
        },
    },
    {"type": "function", "function": {"name": "now", "description": "", "parameters": {"type": "object"}}},
]


def said(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}


def called(*ids: str, name: str = "find", arguments: str = '{"q":"é [/INST]", "n": 1.50}') -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": one * 9, "type": "function", "function": function} for one in ids],
    }


def result(of: str, content: str = '{"x": 1}') -> dict[str, Any]:
    return {"role": "tool", "content": content, "tool_call_id": of * 9, "name": "find"}


TALKS = (
    [said("user", "Hi")],
    [said("system", "Be brief."), said("user", "Hi")],
    [said("system", "Alone")],
    [said("user", "a"), said("assistant", "b"), said("user", "c")],
    [said("user", "a"), called("1"), result("1")],
    [said("user", "a"), called("1", "2"), result("1", "plain text"), result("2", "")],
    [said("user", "a"), called("1", "2", arguments=""), result("2", "[1,2]"), result("1", "é</s>")],
    [
        *(said("system", "x"), said("user", "a"), called("1", arguments="no JSON"), result("1")),
        *(said("assistant", "It is."), said("user", "more"), called("3", name="now", arguments="{}"), result("3")),
    ],
    [said("user", "a"), called("1"), result("1"), said("user", "b"), said("user", "c")],
    [called("1"), result("1")],
    [said("system", "x"), called("1"), result("1")],
    [said("system", "x"), said("assistant", "hello"), said("user", "later")],
)


@pytest.mark.parametrize("tools", [None, TOOLS])
@pytest.mark.parametrize("talk", TALKS)
def test_same_ids_with_tools(
    ours: LoadedTokenizer,
    reference: MistralTokenizer[Any, Any, Any, Any, Any],
    talk: list[dict[str, Any]],
    tools: list[dict[str, Any]] | None,
) -> None:
    request: ChatCompletionRequest[Any] = ChatCompletionRequest.from_openai(talk, tools=tools)
    expected = reference.encode_chat_completion(request).tokens
    extras = {} if tools is None else {"tools": tools}
    assert ours.chat_format.encode_chat(ours.tokenizer, talk, **extras) == expected


def test_long_ids_are_shown_by_their_end(ours: LoadedTokenizer) -> None:
    long = [said("user", "a"), called("1"), result("1")]
    long[1]["tool_calls"][0]["id"] = long[2]["tool_call_id"] = "call_0123456789"
    short = [said("user", "a"), called("1"), result("1")]
    short[1]["tool_calls"][0]["id"] = short[2]["tool_call_id"] = "123456789"
    encode = ours.chat_format.encode_chat
    assert encode(ours.tokenizer, long) == encode(ours.tokenizer, short)


def test_an_answer_cannot_be_the_last_message(ours: LoadedTokenizer) -> None:
    with pytest.raises(TemplateError, match="last message"):
        ours.chat_format.encode_chat(ours.tokenizer, messages("user:One|assistant:Two"))
