"""The chat format seam: messages to the token ids of a prompt."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gateway.text.tokens.tokenizer import PartsEncoder

Messages = Sequence[Mapping[str, Any]]


class TemplateError(ValueError):
    """The chat format refuses the messages; the error's text may be shown to the client."""


class ChatFormat(Protocol):
    """A model's chat format."""

    @property
    def reads(self) -> frozenset[str]:
        """The names of inputs beside messages that the format reads, such as `tools`."""

    @property
    def calls(self) -> bool:
        """Whether messages may have tool calls and their results, in OpenAI's form."""

    def encode_chat(self, tokenizer: PartsEncoder, messages: Messages, **extras: Any) -> Sequence[int]:
        """Encode the prompt for the next answer; neither messages nor extras can put control tokens into it.

        `extras` are inputs named by `reads`. Raises TemplateError.
        """
