"""The seam between messages and the token ids of a prompt."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gateway.text.tokens.tokenizer import Tokenizer

Messages = Sequence[Mapping[str, Any]]


class TemplateError(ValueError):
    """Messages that the model's chat form refuses; the message may be shown to the caller."""


class ChatFormat(Protocol):
    """How a model wants its conversations written."""

    @property
    def reads(self) -> frozenset[str]:
        """Names of what it can be given beside messages, such as `tools`."""

    @property
    def calls(self) -> bool:
        """Whether messages may have calls of tools and what came of them, in OpenAI's form."""

    def encode_chat(self, tokenizer: Tokenizer, messages: Messages, **extras: Any) -> list[int]:
        """The prompt that asks for the next answer; no message can put a control token into it, and no extra can.

        `extras` are of what it reads. Raises TemplateError.
        """
