"""The bundled template against Mistral's own encoder of chats."""

from pathlib import Path
from typing import Any

import mistral_common
import pytest
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

from gateway.tokens.chat_format import TemplateError
from gateway.tokens.loader import LoadedTokenizer, load_tokenizer

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


def test_an_answer_cannot_be_the_last_message(ours: LoadedTokenizer) -> None:
    with pytest.raises(TemplateError, match="last message"):
        ours.chat_format.encode_chat(ours.tokenizer, messages("user:One|assistant:Two"))
