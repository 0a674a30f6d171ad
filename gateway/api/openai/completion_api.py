"""What differs between chat and text completions: how a body is read and how an answer is written.

Everything else, the whole life of the request, is shared in gateway/api/openai/infer.py.
"""

from collections.abc import Callable
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


@dataclass(frozen=True, slots=True)
class CompletionApi:
    """One API's body and answer; `endpoint` is its name in a key's scope, `path` what follows an upstream's base URL.

    A choice is `{"index":..., <text>, "logprobs":..., "finish_reason":...}` in both APIs; `text_head` and `text_tail`
    enclose its JSON-escaped text in a stream's chunk. `logprobs` takes entries and the number of
    characters before them. `decode_all` gives the parameters beside its fields that `decode` refuses; a request is
    made with a refusal of what is foreign in its body, in whose place its prompt is left out. `texts` are those of its
    prompt, None where that is more than plain messages.
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
    texts: Callable[[SamplingFields, ServedModel], list[PromptText] | None]
    message: Callable[[str], dict[str, Any]]
    logprobs: Callable[[list[TokenEntry], ServedModel, int], dict[str, Any]]
    opening: dict[str, Any] | None
    text_head: bytes
    text_tail: bytes
    no_text: bytes
