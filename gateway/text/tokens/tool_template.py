"""Models with a separate chat template for chats with tools."""

from collections.abc import Sequence
from typing import Any

from gateway.text.tokens.chat_format import Messages
from gateway.text.tokens.chat_template import ChatTemplate
from gateway.text.tokens.tokenizer import PartsEncoder


class ToolTemplate:
    """The `ChatFormat` of two templates: `tool_use` for chats with tools offered or called, else `default`."""

    def __init__(self, default: ChatTemplate, tool_use: ChatTemplate) -> None:
        self._default, self._tool_use = default, tool_use
        self.reads = (default.reads & tool_use.reads) | (tool_use.reads & {"tools"})
        self.calls = tool_use.calls

    def encode_chat(self, tokenizer: PartsEncoder, messages: Messages, **extras: Any) -> Sequence[int]:
        if "tools" in extras:
            return self._tool_use.encode_chat(tokenizer, messages, **extras)
        if any("tool_calls" in message for message in messages):
            # It is written for chats that offer tools.
            return self._tool_use.encode_chat(tokenizer, messages, tools=[], **extras)
        return self._default.encode_chat(tokenizer, messages, **extras)
