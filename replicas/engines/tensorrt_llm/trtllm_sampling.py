"""Converts a submit to the library's sampling parameters, without importing the library."""

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from protos.types import Guide, GuideKind, Sampling
from replicas.engines.tensorrt_llm.trtllm_tags import older_tag

#: Bound on alternatives per token; the API's own.
MAX_LOGPROBS = 20


def sampling_arguments(
    sampling: Sampling,
    *,
    index: int,
    max_tokens: int,
    end_ids: Sequence[int],
    rng: random.Random,
    vocab_size: int | None,
    tensor: Callable[[list[float]], Any],
    scores: bool = False,
) -> dict[str, Any]:
    """Return the keywords of SamplingParams for the request's `index`-th sequence of at most `max_tokens`.

    `tensor` converts a list of numbers to the library's type. `scores`: the prompt's logits are wanted.

    Each sequence is a separate request to the library: it refuses several greedy ones in one request, and reports only
    the end of the last.
    """
    arguments: dict[str, Any] = {
        "end_id": end_ids[0],
        "pad_id": end_ids[0],
        "max_tokens": max_tokens,
        "detokenize": False,
        "ignore_eos": sampling.ignore_eos,
        "seed": _seed(sampling, index, rng),
        "top_k": None if sampling.top_k is None else max(0, sampling.top_k),
        # The library is greedy by default, some versions also if one is missing; the API's defaults are 1.
        "top_p": 1.0 if sampling.top_p is None else sampling.top_p,
        "temperature": 1.0 if sampling.temperature is None else sampling.temperature,
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repetition_penalty,
        "presence_penalty": sampling.presence_penalty or None,
        "frequency_penalty": sampling.frequency_penalty or None,
        "min_tokens": sampling.min_tokens or None,
        "stop_token_ids": stop_ids(sampling, end_ids)[1:] if not sampling.ignore_eos else list(sampling.stop_token_ids),
        # The library takes 0 for no logprobs.
        "logprobs": None if sampling.logprobs is None else max(1, sampling.logprobs),
    }
    arguments = {name: value for name, value in arguments.items() if value is not None and value != []}
    if sampling.logit_bias and vocab_size is not None:
        bias = [0.0] * vocab_size
        for token, value in sampling.logit_bias.items():
            bias[token] = value
        arguments["embedding_bias"] = tensor(bias)
    if scores:
        arguments["return_context_logits"] = True
    return arguments


def stop_ids(sampling: Sampling, end_ids: Sequence[int]) -> list[int]:
    """Return the tokens that end an answer and are no part of it, the library's end_id first."""
    if sampling.ignore_eos:
        return list(sampling.stop_token_ids)
    return [*end_ids, *(token for token in sampling.stop_token_ids if token not in end_ids)]


def guide_arguments(guide: Guide, *, older_tags: bool = False) -> dict[str, Any]:
    """Return the keywords of GuidedDecodingParams.

    Raises ValueError for a schema that is no JSON or nested too deeply, or a structural tag that a library with
    `older_tags` does not support.
    """
    if guide.kind is GuideKind.JSON_OBJECT:
        return {"json_object": True}
    if guide.kind is GuideKind.JSON_SCHEMA:
        try:
            json.loads(guide.text)
        except RecursionError:
            raise ValueError("the schema is nested too deeply") from None
        except ValueError:
            raise ValueError("the schema is no JSON") from None
        return {"json": guide.text}
    if guide.kind is GuideKind.STRUCTURAL_TAG:
        return {"structural_tag": older_tag(guide.text) if older_tags else guide.text}
    return {"regex" if guide.kind is GuideKind.REGEX else "grammar": guide.text}


def _seed(sampling: Sampling, index: int, rng: random.Random) -> int | None:
    """Return a seed: the library's default is the same for all requests, and sequences count up from the first."""
    if sampling.seed is not None:
        return (sampling.seed + index) % 2**64
    return None if sampling.temperature == 0 else rng.getrandbits(63)
