"""From a prompt to token ids."""

from gateway.request import Chat
from gateway.served_model import ServedModel
from gateway.tokens.chat_format import TemplateError
from protos.errors import InvalidRequest


def encode_prompt(model: ServedModel, prompt: Chat | str | list[int]) -> list[int]:
    """Token ids of a prompt. Raises InvalidRequest for what the chat template or the vocabulary refuses."""
    if isinstance(prompt, Chat):
        try:
            return model.chat_format.encode_chat(model.tokenizer, prompt.messages)
        except TemplateError as error:
            raise InvalidRequest(
                f"The model's chat template refuses these messages: {error}", param="messages"
            ) from None
    if isinstance(prompt, str):
        ids = model.tokenizer.encode(prompt, special=False)
        return ids if model.tokenizer.bos_id is None else [model.tokenizer.bos_id, *ids]
    outside = next((token for token in prompt if not 0 <= token < model.tokenizer.vocab_size), None)
    if outside is not None:
        raise InvalidRequest(
            f"Invalid value for 'prompt': token id {outside} is not in the vocabulary.", param="prompt"
        )
    return prompt
