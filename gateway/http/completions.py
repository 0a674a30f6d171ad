"""`POST /v1/completions` (OpenAI API reference, Completions): one prompt, as text or as token ids."""

from typing import Annotated, Any

from msgspec import Meta

from gateway.http.decoding import BodyDecoder
from gateway.http.dialect import Dialect
from gateway.http.guides import GUIDES
from gateway.http.params import UNSUPPORTED, SamplingFields
from gateway.http.prompt_texts import PromptText, prompt_of_ids
from gateway.request import GenerateRequest
from gateway.sequence import TokenEntry
from gateway.served_model import ServedModel
from gateway.tenants.caller import Caller
from observability.record import RequestRecord
from protos.errors import InvalidRequest, UnsupportedParameter

#: What the API generates when a completion names no limit.
DEFAULT_MAX_TOKENS = 16

_Prompt = str | Annotated[list[str | int | list[int]], Meta(min_length=1)]


class CompletionBody(SamplingFields, frozen=True, kw_only=True):
    """The request body."""

    prompt: _Prompt
    logprobs: Annotated[int, Meta(ge=0, le=5)] | None = None


_decoder = BodyDecoder(
    CompletionBody,
    unsupported={**UNSUPPORTED, **GUIDES, "best_of": (1,), "echo": (False,), "suffix": ("",)},
)


def _request(
    body: SamplingFields,
    caller: Caller,
    model: ServedModel,
    record: RequestRecord,
    size: int,
    foreign: UnsupportedParameter | None,
) -> GenerateRequest:
    assert isinstance(body, CompletionBody)
    return GenerateRequest(
        id=record.id,
        caller=caller,
        model=model,
        prompt="" if foreign else _single(body.prompt),
        size=size,
        sampling=body.sampling(vocab_size=model.tokenizer.vocab_size, logprobs=body.logprobs),
        max_tokens=body.max_tokens or DEFAULT_MAX_TOKENS,
        stops=body.stops,
        stream=bool(body.stream),
        arrived=record.arrived,
        foreign=foreign,
        record=record,
    )


def _texts(body: SamplingFields, model: ServedModel) -> list[PromptText]:
    assert isinstance(body, CompletionBody)
    prompt = body.prompt
    if isinstance(prompt, str):
        return [PromptText("user", "prompt", ("prompt",), prompt)]
    ids = [item for item in prompt if isinstance(item, int)]
    if len(ids) == len(prompt):
        return [prompt_of_ids(ids, "prompt", ("prompt",), model)]
    texts = []
    for index, item in enumerate(prompt):
        at = f"prompt[{index}]"
        if isinstance(item, str):
            texts.append(PromptText("user", at, ("prompt", index), item))
        else:
            texts.append(prompt_of_ids([item] if isinstance(item, int) else item, at, ("prompt", index), model))
    return texts


def _single(prompt: _Prompt) -> str | list[int]:
    if isinstance(prompt, str):
        return prompt
    ids = [item for item in prompt if isinstance(item, int)]
    if len(ids) == len(prompt):
        return ids
    if len(prompt) > 1:
        raise UnsupportedParameter("Unsupported value: 'prompt' may hold one prompt here, not several.", param="prompt")
    only = prompt[0]
    if isinstance(only, list) and not only:
        raise InvalidRequest("Invalid value for 'prompt[0]': expected at least one token id.", param="prompt[0]")
    assert not isinstance(only, int)
    return only


def _logprobs(entries: list[TokenEntry], model: ServedModel, offset: int) -> dict[str, Any]:
    tokens = [model.tokenizer.token_bytes(token_id).decode("utf-8", "replace") for token_id, _ in entries]
    offsets = []
    for token in tokens:
        offsets.append(offset)
        offset += len(token)
    return {
        "tokens": tokens,
        "token_logprobs": [entry.chosen for _, entry in entries],
        "top_logprobs": [
            {model.tokenizer.token_bytes(t).decode("utf-8", "replace"): logprob for t, logprob in entry.top}
            for _, entry in entries
        ],
        "text_offset": offsets,
    }


COMPLETIONS = Dialect(
    endpoint="completions",
    path="/completions",
    id_prefix="cmpl-",
    object="text_completion",
    chunk_object="text_completion",
    decode=_decoder.decode,
    decode_all=_decoder.decode_all,
    request=_request,
    texts=_texts,
    message=lambda text: {"text": text},
    logprobs=_logprobs,
    opening=None,
    text_head=b'"text":"',
    text_tail=b'"',
    no_text=b'"text":""',
)
