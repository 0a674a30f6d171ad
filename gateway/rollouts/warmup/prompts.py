"""Prompts of warm-up requests: nobody's words, of the length that is asked for."""

import json
from typing import Final

from gateway.text.tokens.tokenizer import Tokenizer
from protos.types import Payload, Sampling, Submit
from routing.rollouts.settings import WarmupShape

_WORDS: Final = (
    "The quick brown fox jumps over the lazy dog while seven wizards boxed a parcel of liquor jugs and judged my vow. "
)
#: Characters of a token of such text, for engines that count their tokens themselves.
_CHARS_PER_TOKEN: Final = 5


def warmup_submit(name: str, shape: WarmupShape, context: int, tokenizer: Tokenizer | None) -> Submit:
    """Return a request; `tokenizer` None: for an engine that takes the API's own bytes.

    A prompt that would exceed the context is cut.
    """
    output = min(shape.output_tokens, max(context - 1, 1))
    prompt = max(min(shape.prompt_tokens, context - output), 1)
    # The cache's salt is no tenant's: what is cached here, no client is given.
    sampling = Sampling(temperature=0.0, ignore_eos=True)
    if tokenizer is None:
        text = (_WORDS * (prompt * _CHARS_PER_TOKEN // len(_WORDS) + 1))[: prompt * _CHARS_PER_TOKEN]
        body = {"model": "", "messages": [{"role": "user", "content": text}], "max_tokens": output, "stream": True}
        payload = Payload("/chat/completions", json.dumps(body).encode(), stream=True, usage=False, answer_model="")
        return Submit(name, [0] * prompt, output, Sampling(), cache_salt="warm-up", payload=payload)
    ids = tokenizer.encode(_WORDS, special=False)
    return Submit(name, (ids * (prompt // len(ids) + 1))[:prompt], output, sampling, cache_salt="warm-up")
