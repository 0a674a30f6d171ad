"""Encode prompts to token ids, or estimate their length."""

from collections.abc import Sequence

import msgspec

from gateway.inference.generate_request import Chat, FillIn, Prompt
from gateway.models.served_model import ServedModel
from gateway.text.tokens.chat_format import TemplateError
from gateway.text.tokens.fill_in import encode_fill_in
from gateway.text.tokens.tokenizer import PartsEncoder
from gateway.text.tokens.unit_cache import UnitCache
from protos.errors import InvalidRequest
from protos.packed_ids import PackedIds


class EncodedPrompt(msgspec.Struct, frozen=True):
    """A prompt of `tokens` tokens; `ids` is empty where that number is an estimate."""

    ids: Sequence[int]
    tokens: int


def encode_prompt(model: ServedModel, prompt: Prompt, encoder: PartsEncoder | None = None) -> Sequence[int]:
    """Encode a prompt, a chat's parts by `encoder` if there is one.

    Raises InvalidRequest for what the chat template or the vocabulary refuses.
    """
    if isinstance(prompt, Chat):
        try:
            return model.chat_format.encode_chat(encoder or model.tokenizer, prompt.messages, **prompt.extras)
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


def encode_long(model: ServedModel, prompt: Prompt, cache: UnitCache, salt: str) -> Sequence[int]:
    """Encode a prompt as `encode_prompt` does, with the cache's entries of this salt. For a thread of its own."""
    encoder = cache.encoder(model.tokenizer, salt)
    if not isinstance(prompt, str):
        return encode_prompt(model, prompt, encoder)
    ids, bos_id = encoder.encode_text(prompt), model.tokenizer.bos_id
    if bos_id is None:
        return ids
    return PackedIds.joined((PackedIds.of([bos_id]), ids)) if isinstance(ids, PackedIds) else [bos_id, *ids]
