"""Encode prompts to token ids, or estimate their length."""

from collections.abc import Sequence
from typing import Final

import msgspec

from gateway.inference.generate_request import Begun, Chat, FillIn, Prompt
from gateway.models.served_model import ServedModel
from gateway.text.tokens.chat_format import TemplateError
from gateway.text.tokens.detokenizer import TokenTable, whole_text
from gateway.text.tokens.fill_in import encode_fill_in
from gateway.text.tokens.tokenizer import PartsEncoder
from gateway.text.tokens.unit_cache import UnitCache
from protos.errors import InvalidRequest, UnsupportedParameter
from protos.packed_ids import PackedIds

#: The last tokens of a prompt that decide whether the answer begins within reasoning.
PROMPT_END_TOKENS: Final = 16


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
    if isinstance(prompt, Begun):
        ids = encode_prompt(model, prompt.chat, encoder)
        _check_begun(model, ids)
        return _joined(ids, model.tokenizer.encode(prompt.text, special=False))
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


def prompt_end(table: TokenTable, ids: Sequence[int]) -> str:
    """Write the end of a prompt, by which a parser sees whether the answer begins within a thought."""
    ends = ids[-PROMPT_END_TOKENS:]
    # Text before the last control token that is no mark belongs to a message and may say anything: ignore it.
    begin = next((place for place in range(len(ends), 0, -1) if not table.token_bytes(ends[place - 1])), 0)
    return whole_text(table, ends[begin:])


def _check_begun(model: ServedModel, ids: Sequence[int]) -> None:
    """Raise UnsupportedParameter where the chat's own end opens a thought, which the text is none of."""
    table, output = model.marked_table, model.output
    if table is None or output is None:
        return
    parser = output.parser(None, prompt_end(table, ids))
    if parser is not None and parser.thinking:
        raise UnsupportedParameter(
            "Unsupported parameter: 'continue_final_message' cannot be honoured: this model's answers begin with a "
            "thought.",
            param="continue_final_message",
        )


def encode_long(model: ServedModel, prompt: Prompt, cache: UnitCache, salt: str) -> Sequence[int]:
    """Encode a prompt as `encode_prompt` does, with the cache's entries of this salt. For a thread of its own."""
    encoder = cache.encoder(model.tokenizer, salt)
    if not isinstance(prompt, str):
        return encode_prompt(model, prompt, encoder)
    ids, bos_id = encoder.encode_text(prompt), model.tokenizer.bos_id
    if bos_id is None:
        return ids
    return _joined([bos_id], ids)


def _joined(one: Sequence[int], other: Sequence[int]) -> Sequence[int]:
    """Join ids; they stay packed where a part is."""
    if isinstance(one, PackedIds) or isinstance(other, PackedIds):
        return PackedIds.joined(ids if isinstance(ids, PackedIds) else PackedIds.of(ids) for ids in (one, other))
    return [*one, *other]
