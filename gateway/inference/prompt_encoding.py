"""Encode prompts to token ids, or estimate their length."""

from math import ceil

import msgspec

from gateway.inference.generate_request import Chat, FillIn, Prompt
from gateway.models.served_model import ServedModel
from gateway.text.tokens.chat_format import TemplateError
from gateway.text.tokens.fill_in import encode_fill_in
from protos.errors import InvalidRequest

#: Bytes of the body per token, where only the upstream can tokenize it. English prose in JSON has 4 to 5; the
#: upstream's own count replaces the estimate at the end.
BYTES_PER_TOKEN = 4


class EncodedPrompt(msgspec.Struct, frozen=True):
    """A prompt of `tokens` tokens; `ids` is empty where that number is an estimate."""

    ids: list[int]
    tokens: int


def estimated_prompt(size: int) -> EncodedPrompt:
    """Estimate a prompt that cannot be tokenized here from its body of `size` bytes."""
    return EncodedPrompt([], ceil(size / BYTES_PER_TOKEN))


def encode_prompt(model: ServedModel, prompt: Prompt) -> list[int]:
    """Encode a prompt. Raises InvalidRequest for what the chat template or the vocabulary refuses."""
    if isinstance(prompt, Chat):
        try:
            return model.chat_format.encode_chat(model.tokenizer, prompt.messages, **prompt.extras)
        except TemplateError as error:
            raise InvalidRequest(
                f"The model's chat template refuses these messages: {error}", param="messages"
            ) from None
    if isinstance(prompt, FillIn):
        return encode_fill_in(model.tokenizer, prompt.prefix, prompt.suffix)
    if isinstance(prompt, str):
        ids = model.tokenizer.encode(prompt, special=False)
        return ids if model.tokenizer.bos_id is None else [model.tokenizer.bos_id, *ids]
    outside = next((token for token in prompt if not 0 <= token < model.tokenizer.vocab_size), None)
    if outside is not None:
        raise InvalidRequest(
            f"Invalid value for 'prompt': token id {outside} is not in the vocabulary.", param="prompt"
        )
    return prompt
