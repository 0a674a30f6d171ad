"""Logprobs of a prompt's tokens, from the logits that the library gives of a prompt.

Its own `prompt_logprobs` are of the likeliest tokens alone: the prompt's token is missing where it is none of them. Of
tokens that were found in the KV cache there are no logits, so a request for them shares no cache with others.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from protos.types import Submit, TokenLogprobs

#: Bound on the logits of one prompt, which go from process to process: 3,400 tokens of a vocabulary of 152,000.
MAX_LOGITS_BYTES: Final = 2 << 30
#: Tokens whose logits are turned into logprobs at once.
_ROWS: Final = 128
_LARGEST_VOCABULARY: Final = 262_144


def wants_logits(request: Submit) -> bool:
    """Whether a request's prompt is to be scored here: of a handoff the prefill replica has done it."""
    return request.sampling.prompt_logprobs and request.handoff is None


def too_long(request: Submit, vocab_size: int | None) -> bool:
    """Whether the logits of the prompt would be too large."""
    row = 4 * (vocab_size or _LARGEST_VOCABULARY)
    return wants_logits(request) and len(request.prompt_ids) * row > MAX_LOGITS_BYTES


def kept_apart(request: Submit, handle: int) -> Submit:
    """Give the request a part of the KV cache of its own."""
    return msgspec.structs.replace(request, cache_salt=f"{request.cache_salt}#{handle}")


def prompt_logprobs(logits: Any, prompt_ids: Sequence[int], alternatives: int) -> tuple[TokenLogprobs, ...]:
    """Give the logprobs of the tokens after the first one; nothing where logits are missing.

    `logits` is a torch tensor of (tokens, vocabulary), maybe in a batch of one; each row is of the token after its own.
    Takes a second for some thousand tokens: for a thread of its own.
    """
    if logits is None:
        return ()
    if logits.dim() == 3:
        logits = logits[0]
    count = len(prompt_ids) - 1
    if len(logits) < count:
        return ()
    found: list[TokenLogprobs] = []
    for start in range(0, count, _ROWS):
        rows = logits[start : min(start + _ROWS, count)].float().log_softmax(-1)
        tops: Any = [()] * len(rows)
        if alternatives:
            values, ids = rows.topk(alternatives, -1)
            tops = [tuple(zip(*pair, strict=True)) for pair in zip(ids.tolist(), values.tolist(), strict=True)]
        found += [
            TokenLogprobs(float(rows[at][token]), top)
            for at, (token, top) in enumerate(zip(prompt_ids[start + 1 : start + 1 + len(rows)], tops, strict=True))
        ]
    return tuple(found)
