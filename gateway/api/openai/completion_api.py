"""A completion API: how chat or text completions read a body and write an answer.

The rest of the request path is shared (gateway/api/openai/infer.py).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.api.openai.sampling_params import SamplingFields
from gateway.filtering.prompt_text import PromptText
from gateway.inference.generate_request import GenerateRequest
from gateway.models.served_model import ServedModel
from gateway.tenancy.tenants.caller import Caller
from gateway.text.sequence_text import TokenEntry
from observability.record import RequestRecord
from protos.errors import UnsupportedParameter

#: How an API's logprobs name a token.
Naming = Callable[[int, ServedModel], str]


def token_text(token_id: int, model: ServedModel) -> str:
    """Name a token by its text."""
    return model.tokenizer.token_bytes(token_id).decode("utf-8", "replace")


def token_number(token_id: int, model: ServedModel) -> str:
    """Name a token by its id, in vLLM's words: no two tokens have the same name."""
    del model
    return f"token_id:{token_id}"


@dataclass(frozen=True, slots=True)
class CompletionApi:
    """One API's body and answer; `endpoint` is its name in a key's scope, `path` is relative to an upstream's base URL.

    A choice is `{"index":..., <text>, "logprobs":..., "finish_reason":...}` in both APIs; `text_head` and `text_tail`
    enclose its JSON-escaped text in a stream's chunk. `logprobs` takes entries and the number of characters before
    them; `logprobs_by_id` names tokens by their ids. `decode_all` also returns the parameters that `decode` refuses;
    a request that is made with such a refusal has an empty prompt. `hints` takes those that ask for what a field asks
    for in other words. `texts` lists the prompt's texts, None where it is more than plain messages; `media` lists its
    parts that are no text.
    """

    endpoint: str
    path: str
    id_prefix: str
    object: str
    chunk_object: str
    decode: Callable[[bytes], SamplingFields]
    decode_all: Callable[[bytes], tuple[SamplingFields, dict[str, Any]]]
    request: Callable[
        [SamplingFields, Caller, ServedModel, RequestRecord, int, UnsupportedParameter | None], GenerateRequest
    ]
    hints: Callable[[SamplingFields, dict[str, Any]], SamplingFields]
    texts: Callable[[SamplingFields, ServedModel], list[PromptText] | None]
    media: Callable[[SamplingFields], Iterable[Mapping[str, Any]]]
    message: Callable[[str], dict[str, Any]]
    logprobs: Callable[[list[TokenEntry], ServedModel, int], dict[str, Any]]
    logprobs_by_id: Callable[[list[TokenEntry], ServedModel, int], dict[str, Any]]
    opening: dict[str, Any] | None
    text_head: bytes
    text_tail: bytes
    no_text: bytes
