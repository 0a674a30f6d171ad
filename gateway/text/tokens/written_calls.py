"""Tool calls of earlier turns for a chat template that writes none: they become a part of the answer's text."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gateway.text.tokens.chat_format import Messages
from gateway.text.tokens.chat_template import ChatTemplate
from gateway.text.tokens.tokenizer import PartsEncoder

#: Writes calls, by name and arguments as JSON text, as the model itself does. The function given to it marks text that
#: may have control tokens in it.
CallsWriter = Callable[[Sequence[tuple[str, str]], Callable[[str], str]], str]


class WrittenCalls:
    """The `ChatFormat` of such a template, which must write the results of calls."""

    calls = True

    def __init__(self, template: ChatTemplate, write: CallsWriter) -> None:
        self._template = template
        self._write = write
        self.reads = template.reads

    def encode_chat(self, tokenizer: PartsEncoder, messages: Messages, **extras: Any) -> Sequence[int]:
        return self._template.encode_chat(tokenizer, [self._written(one) for one in messages], **extras)

    def _written(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        calls = message.get("tool_calls")
        if not calls:
            return message
        functions = [call["function"] for call in calls]
        text = self._write([(one["name"], one["arguments"] or "{}") for one in functions], self._template.mark)
        said = message.get("content")
        rest = {name: value for name, value in message.items() if name != "tool_calls"}
        return {**rest, "content": f"{said}\n{text}" if said else text}
