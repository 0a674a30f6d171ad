"""`POST /v1/completions` (OpenAI API reference, Completions): prompts as text or token ids, one or several.

An upstream gets the body unchanged; engines get a request for each prompt (gateway/inference/several_prompts.py).
"""

from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gateway.api.openai.completion_api import CompletionApi, Naming, token_number, token_text
from gateway.api.openai.extension_params import Api, taken
from gateway.api.openai.prompt_texts import prompt_of_ids
from gateway.api.openai.sampling_params import SamplingFields
from gateway.api.server.body_decoder import BodyDecoder, unsupported
from gateway.filtering.prompt_text import PromptText
from gateway.inference.generate_request import AnswerDetails, FillIn, GenerateRequest, Prompt
from gateway.models.served_model import ServedModel
from gateway.tenancy.tenants.caller import Caller
from gateway.text.sequence_text import TokenEntry
from gateway.text.tokens.detokenizer import whole_text
from gateway.text.tokens.fill_in import fill_in_of
from observability.record import RequestRecord
from protos.errors import InvalidRequest, UnsupportedParameter
from protos.types import Sampling

#: The API's default where a completion names no limit.
DEFAULT_MAX_TOKENS = 16
MAX_PROMPTS = 128
#: Bound on the answers generated for one request, over all of its prompts.
MAX_ANSWERS = 512

_Prompt = str | Annotated[list[str | int | list[int]], Meta(min_length=1)]
_Plain = str | list[int]


class CompletionBody(SamplingFields, frozen=True, kw_only=True):
    """The request body."""

    prompt: _Prompt
    #: 0: nothing but the prompt is shown.
    max_tokens: Annotated[int, Meta(ge=0, le=0x7FFF_FFFF)] | None = None
    logprobs: Annotated[int, Meta(ge=0, le=5)] | None = None
    best_of: Annotated[int, Meta(ge=1, le=20)] | None = None
    echo: bool | None = None
    suffix: str | None = None


_decoder = BodyDecoder(CompletionBody, taken(Api.COMPLETIONS, CompletionBody.__struct_fields__))


def _request(
    body: SamplingFields,
    caller: Caller,
    model: ServedModel,
    record: RequestRecord,
    size: int,
    foreign: UnsupportedParameter | None,
) -> GenerateRequest:
    assert isinstance(body, CompletionBody)
    prompts, shown = _prompts(body.prompt), body.n or 1
    made = _answers_made(body, len(prompts))
    if foreign is None:
        _check_own(body, model, several=len(prompts) > 1)
    request = GenerateRequest(
        id=record.id,
        caller=caller,
        model=model,
        prompt="" if foreign else _prompt(prompts[0], body.suffix),
        size=size,
        sampling=body.sampling(vocab_size=model.tokenizer.vocab_size, logprobs=body.logprobs),
        max_tokens=body.max_tokens or _least_tokens(body),
        stops=body.stops,
        stream=bool(body.stream),
        arrived=record.arrived,
        foreign=foreign,
        record=record,
    )
    if foreign is not None:
        if len(prompts) == 1:
            return request
        # An upstream gets all prompts in one request, so the limits apply to all answers together.
        return msgspec.structs.replace(request, sampling=_of(request.sampling, shown * len(prompts), body.logprobs))
    silent, several = body.max_tokens == 0, len(prompts) > 1
    if made > shown or body.echo or silent:
        echo: tuple[str, ...] = ()
        if body.echo:
            texts = [prompt if isinstance(prompt, str) else whole_text(model.table, prompt) for prompt in prompts]
            echo = tuple(text for text in texts for _ in range(made))
        scored = bool(body.echo) and body.logprobs is not None
        sampling = msgspec.structs.replace(request.sampling, prompt_logprobs=scored)
        if made > shown:
            sampling = _of(sampling, made, body.logprobs or 0)
        details = AnswerDetails(echo, shown if made > shown else 0, silent, logprobs=body.logprobs)
        request = msgspec.structs.replace(request, sampling=sampling, details=details)
        several = several or silent or scored
    if several:
        request = msgspec.structs.replace(request, prompts=tuple(_prompt(one, body.suffix) for one in prompts))
    return request


def _least_tokens(body: CompletionBody) -> int:
    """Give the bound of answers where none is named, or none shall be shown: engines make one token at least."""
    return DEFAULT_MAX_TOKENS if body.max_tokens is None else 1


def _answers_made(body: CompletionBody, prompts: int) -> int:
    """Give the answers to generate for each prompt. Raises InvalidRequest."""
    shown = body.n or 1
    made = shown if body.best_of is None else body.best_of
    if made < shown:
        raise InvalidRequest(
            f"Invalid value for 'best_of': it must be at least 'n', which is {shown}.", param="best_of"
        )
    if made > shown and body.stream:
        raise InvalidRequest("'best_of' above 'n' cannot be streamed.", param="best_of")
    if made * prompts > MAX_ANSWERS:
        raise InvalidRequest(
            f"{prompts} prompts with {made} answers each are more than {MAX_ANSWERS} answers.",
            param="prompt" if prompts > 1 else "n",
        )
    return made


def _check_own(body: CompletionBody, model: ServedModel, *, several: bool) -> None:
    """Raise UnsupportedParameter for what no token engine can do, and for what an upstream does by itself."""
    if model.relays:
        present = [name for name in ("suffix", "echo") if getattr(body, name)]
        if body.best_of is not None and body.best_of > (body.n or 1):
            present.append("best_of")
        if body.max_tokens == 0:
            present.append("max_tokens")
        if present:
            raise unsupported(present[0])
        if several:
            raise UnsupportedParameter(
                "Unsupported value: 'prompt' may hold one prompt here, not several.", param="prompt"
            )
        return
    if body.suffix and fill_in_of(model.tokenizer) is None:
        raise UnsupportedParameter(
            "Unsupported parameter: 'suffix' cannot be honoured: this model has no tokens for it.", param="suffix"
        )
    if body.stream and body.max_tokens == 0:
        raise InvalidRequest("'max_tokens' of 0 cannot be streamed: there is no answer.", param="max_tokens")
    if body.echo and body.logprobs is not None:
        if body.stream:
            raise UnsupportedParameter(
                "Unsupported value: 'echo' together with 'logprobs' cannot be streamed here.", param="echo"
            )
        if body.suffix:
            raise InvalidRequest("'echo' together with 'logprobs' goes with no 'suffix'.", param="suffix")


def _of(sampling: Sampling, count: int, logprobs: int | None) -> Sampling:
    return msgspec.structs.replace(sampling, n=count, logprobs=logprobs)


def _prompts(prompt: _Prompt) -> list[_Plain]:
    """Split the prompts. Raises InvalidRequest."""
    if isinstance(prompt, str):
        return [prompt]
    ids = [item for item in prompt if isinstance(item, int)]
    if len(ids) == len(prompt):
        return [ids]
    if len(prompt) > MAX_PROMPTS:
        raise InvalidRequest(
            f"Invalid value for 'prompt': it has {len(prompt)} prompts, at most {MAX_PROMPTS} are taken.",
            param="prompt",
        )
    prompts: list[_Plain] = []
    for index, item in enumerate(prompt):
        at = f"prompt[{index}]"
        if isinstance(item, int):
            raise InvalidRequest(f"Invalid value for '{at}': expected a string or token ids.", param=at)
        if isinstance(item, list) and not item:
            raise InvalidRequest(f"Invalid value for '{at}': expected at least one token id.", param=at)
        prompts.append(item)
    return prompts


def _prompt(prompt: _Plain, suffix: str | None) -> Prompt:
    if not suffix:
        return prompt
    if not isinstance(prompt, str):
        raise InvalidRequest("'suffix' goes with prompts that are text.", param="suffix")
    return FillIn(prompt, suffix)


def _texts(body: SamplingFields, model: ServedModel) -> list[PromptText]:
    assert isinstance(body, CompletionBody)
    prompt = body.prompt
    texts = []
    if isinstance(prompt, str):
        texts.append(PromptText("user", "prompt", ("prompt",), prompt))
    elif ids := [item for item in prompt if isinstance(item, int)]:
        # A list that mixes ids with other items was refused before.
        texts.append(prompt_of_ids(ids, "prompt", ("prompt",), model))
    else:
        for index, item in enumerate(prompt):
            at = f"prompt[{index}]"
            if isinstance(item, str):
                texts.append(PromptText("user", at, ("prompt", index), item))
            elif isinstance(item, list):
                texts.append(prompt_of_ids(item, at, ("prompt", index), model))
    if body.suffix:
        texts.append(PromptText("user", "suffix", ("suffix",), body.suffix))
    return texts


def with_prompt_logprobs(prompt: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Put the logprobs of a prompt before those of its answer; nothing comes before the first token."""
    joined = {name: prompt[name] + answer[name] for name in answer}
    for name in ("token_logprobs", "top_logprobs"):
        joined[name][:1] = [None]
    return joined


def _logprobs(
    entries: list[TokenEntry], model: ServedModel, offset: int, *, named: Naming = token_text
) -> dict[str, Any]:
    tokens = [named(token_id, model) for token_id, _, _ in entries]
    return {
        "tokens": tokens,
        "token_logprobs": [entry.chosen for _, entry, _ in entries],
        # The sampled token is always among them, so that there may be one more than was asked for.
        "top_logprobs": [
            {named(other, model): logprob for other, logprob in entry.top} | {token: entry.chosen}
            for token, (_, entry, _) in zip(tokens, entries, strict=True)
        ],
        "text_offset": [offset + entry.place for entry in entries],
    }


COMPLETIONS = CompletionApi(
    endpoint="completions",
    path="/completions",
    id_prefix="cmpl-",
    object="text_completion",
    chunk_object="text_completion",
    decode=_decoder.decode,
    decode_all=_decoder.decode_all,
    request=_request,
    hints=lambda fields, extras: fields,
    media=lambda body: (),
    texts=_texts,
    message=lambda text: {"text": text},
    logprobs=_logprobs,
    logprobs_by_id=partial(_logprobs, named=token_number),
    opening=None,
    text_head=b'"text":"',
    text_tail=b'"',
    no_text=b'"text":""',
)
