"""The seam between messages and the token ids of a prompt."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gateway.tokens.tokenizer import Tokenizer

Messages = Sequence[Mapping[str, Any]]


class TemplateError(ValueError):
    """Messages that the model's chat form refuses; the message may be shown to the caller."""


class ChatFormat(Protocol):
    """How a model wants its conversations written."""

    def encode_chat(self, tokenizer: Tokenizer, messages: Messages) -> list[int]:
        """The prompt that asks for the next answer; no message can put a control token into it.

        Raises TemplateError.
        """
